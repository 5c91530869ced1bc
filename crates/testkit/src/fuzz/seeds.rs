//! Inputs to begin with: real files of a small store, and sequences that reach far into each target.
//!
//! `cargo run -p rollstore-testkit --example fuzz_seeds` writes them to `fuzz/corpus/`.

use crate::bytes;
use crate::fuzz::planted::{CLOSED, RUNNING, last_manifest, last_segment};
use crate::fuzz::seal::PAGE_BYTES;
use crate::fuzz::{frame, manifest, segment};
use crate::settings::random;

/// The inputs of one target, by name; none for a target that is not of this crate.
#[must_use]
pub fn of(target: &str) -> Vec<(String, Vec<u8>)> {
    match target {
        "segment" => segments(),
        "manifest" => manifests(),
        "frame" => frames(),
        "ops" => (0..24).map(|seed| (format!("random-{seed:02}"), random_bytes(seed, 96))).collect(),
        _ => Vec::new(),
    }
}

/// Bytes that follow from a seed.
#[must_use]
pub fn random_bytes(seed: u64, len: usize) -> Vec<u8> {
    let words = (0..len.div_ceil(8) as u64).flat_map(|place| random(seed, place).to_le_bytes());
    words.take(len).collect()
}

fn segments() -> Vec<(String, Vec<u8>)> {
    let mut inputs = Vec::new();
    for (name, planted, state) in [("active", &*RUNNING, 0), ("sealed", &*CLOSED, segment::SEALED)] {
        let disk = planted.copy();
        let file = bytes::read(&disk, &last_segment(&disk));
        let frames = without_zeros(&file[PAGE_BYTES..]);
        for (kind, flags) in
            [("rotten", 0), ("right", segment::RIGHT | segment::IN_ORDER), ("right-out-of-order", segment::RIGHT)]
        {
            inputs.push((format!("{name}-{kind}"), [&[state | flags], frames].concat()));
        }
        let whole = segment::RIGHT | segment::WHOLE | segment::IN_ORDER;
        inputs.push((format!("{name}-whole"), [&[state | whole], without_zeros(&file)].concat()));
    }
    inputs
}

fn manifests() -> Vec<(String, Vec<u8>)> {
    let mut inputs = Vec::new();
    for (name, planted, state) in [("running", &*RUNNING, 0), ("quiet", &*CLOSED, manifest::QUIET)] {
        let disk = planted.copy();
        let file = bytes::read(&disk, &last_manifest(&disk));
        for (kind, flags) in [("rotten", 0), ("right", manifest::RIGHT), ("alone", manifest::RIGHT | manifest::ALONE)] {
            inputs.push((format!("{name}-{kind}"), [&[state | flags], &file[..]].concat()));
        }
        // Every eighth byte of the payload by itself, and the largest value there.
        let changed = state | manifest::RIGHT | manifest::CHANGES;
        for at in (64..u16::try_from(file.len()).unwrap_or(u16::MAX)).step_by(72) {
            let word = (at..at + 8).flat_map(|at| [at.to_le_bytes()[0], at.to_le_bytes()[1], 0xff]);
            inputs.push((format!("{name}-word-{at:04}"), [changed].into_iter().chain(word).collect()));
        }
    }
    inputs
}

fn frames() -> Vec<(String, Vec<u8>)> {
    let random = (0..16_u64).map(|seed| {
        let mode = u8::try_from(seed % 8).unwrap_or(0);
        let changes = random_bytes(seed, 6 * (1 + usize::from(mode)));
        (format!("random-{seed:02}"), [&[mode], &changes[..]].concat())
    });
    let modes = [frame::QUIET, frame::QUIET | frame::RIGHT, frame::NO_INDEX];
    // Cut short, grown, and bytes of one place at another, in each file.
    let each = modes.into_iter().flat_map(|mode| {
        (0..4_u8).flat_map(move |file| {
            (4..8_u8)
                .map(move |kind| (format!("mode-{mode}-file-{file}-kind-{kind}"), vec![mode, file, 0, 17, 0, kind, 65]))
        })
    });
    random.chain(each).collect()
}

/// What an unsealed file was lengthened by for later is left out.
fn without_zeros(file: &[u8]) -> &[u8] {
    let end = file.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    &file[..end.next_multiple_of(64).min(file.len())]
}
