//! Input that cannot be right: each gets an error that names it, and changes nothing.
//!
//! Method: a store with something in it is given the input; its outline afterwards, and again after a reopen, is what it
//! was before.

use std::fs;
use std::path::Path;

use rollstore::{
    Column, ColumnValues, Error, ErrorKind, NewRollout, Padded, Reason, Results, RolloutId, RolloutStore, Stale, limits,
};
use rollstore_testkit::scratch::{Scratch, bare, ids, model, outline, results, with_old};

/// Gives a store input that must be refused, and returns what it said.
#[track_caller]
fn refused<T>(give: impl FnOnce(&RolloutStore) -> Result<T, Error>) -> Error {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(with_old(100, 5, -1.0, 0)).unwrap();
    store.insert(bare(101, 5)).unwrap();
    store.set_cursor(b"row 7").unwrap();
    let before = outline(&store);
    let error = give(&store).err().expect("the input is refused");
    assert_eq!(outline(&store), before, "{error}");
    store.abandon();
    let store = scratch.open();
    assert_eq!(outline(&store), before, "after a reopen: {error}");
    assert_eq!(store.get(100.into()).unwrap().unwrap().old_logps().unwrap(), [-1.0; 3]);
    store.insert(bare(1, 5)).unwrap();
    error
}

#[track_caller]
fn assert_says(error: &Error, kind: ErrorKind, parts: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

#[test]
fn a_value_that_is_no_log_prob_is_named_with_its_row_and_place() {
    let bad = [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf"), (0.002, "0.002"), (7.0, "7")];
    for (value, text) in bad {
        let logps = vec![-0.5, value, -0.5];
        let error = refused(|store| store.insert(bare(7, 5).old_logps(logps.clone(), 0)));
        assert_says(&error, ErrorKind::Invalid, &["rollout 7", &format!("old_logps[1] is {text};")]);
        let error = refused(|store| store.insert(bare(7, 5).kl_ref_logps(logps.clone(), 0)));
        assert_says(&error, ErrorKind::Invalid, &["rollout 7", &format!("kl_ref_logps[1] is {text};")]);
        let error = refused(|store| {
            let plan = store.plan_for(&ids([101]), 5)?;
            let mut computed = Results::new();
            computed.push(101.into(), logps.clone());
            store.apply(plan, computed)
        });
        assert_says(&error, ErrorKind::Invalid, &["rollout 101", &format!("old_logps[1] is {text};")]);
        assert_eq!(error.rollout(), Some(101.into()));
    }
}

#[test]
fn a_value_under_a_loss_mask_of_zero_is_not_checked_and_one_beside_it_is() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let logps = [-0.5, f32::NAN, f32::INFINITY];
    let masked = |mask: &[u8]| bare(1, 5).loss_mask(mask.to_vec()).old_logps(logps.to_vec(), 0);
    let error = store.insert(masked(&[1, 0, 1])).unwrap_err();
    assert_says(&error, ErrorKind::Invalid, &["old_logps[2] is inf"]);
    store.insert(masked(&[1, 0, 0])).unwrap();
    let view = store.get(1.into()).unwrap().unwrap();
    assert_eq!(view.old_logps().unwrap().map_bits(), logps.map_bits());
}

/// Bits, since NaN is not equal to itself.
trait MapBits {
    fn map_bits(&self) -> Vec<u32>;
}

impl MapBits for [f32] {
    fn map_bits(&self) -> Vec<u32> {
        self.iter().map(|value| value.to_bits()).collect()
    }
}

#[test]
fn rounding_a_little_above_zero_is_accepted() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(bare(1, 5).old_logps(vec![1e-7, limits::LOGP_POSITIVE_MAX, -0.0], 0)).unwrap();
}

/// A rollout of these per-token columns, the last of which is one value longer than the others.
fn lopsided(first: &Column, second: &Column) -> NewRollout<'static> {
    [(first, 3), (second, 4)].into_iter().fold(NewRollout::new(7, 5), |rollout, (column, len)| match column {
        Column::CompletionIds => rollout.completion_ids(vec![1; len]),
        Column::LossMask => rollout.loss_mask(vec![1; len]),
        Column::OldLogps => rollout.old_logps(vec![-0.5; len], 0),
        Column::SamplerLogps => rollout.sampler_logps(vec![-0.5; len]),
        Column::KlRefLogps => rollout.kl_ref_logps(vec![-0.5; len], 0),
        other => panic!("{other} is not per token"),
    })
}

#[test]
fn two_columns_of_different_lengths_are_named_with_both() {
    let columns = [Column::CompletionIds, Column::SamplerLogps, Column::OldLogps, Column::KlRefLogps, Column::LossMask];
    for first in &columns {
        for second in columns.iter().filter(|second| *second != first) {
            let error = refused(|store| store.insert(lopsided(first, second)));
            let named = [(first, 3), (second, 4)].map(|(column, len)| format!("{column} has {len}"));
            assert_says(&error, ErrorKind::Invalid, &["rollout 7", &named[0], &named[1]]);
        }
    }
}

#[test]
fn computed_log_probs_of_another_length_are_refused() {
    for len in [0, 2, 4] {
        let error = refused(|store| {
            let plan = store.plan_for(&ids([101]), 5)?;
            let mut computed = Results::new();
            computed.push(101.into(), vec![-0.5; len]);
            store.apply(plan, computed)
        });
        assert_says(&error, ErrorKind::Invalid, &["rollout 101", &format!("has {len} values"), "has 3"]);
    }
}

#[test]
fn results_that_do_not_belong_to_the_plan_are_refused() {
    let apply = |extra: u64| {
        refused(|store| {
            let plan = store.plan_for(&ids([101]), 5)?;
            let mut computed = results(&plan, -0.5);
            computed.push(extra.into(), vec![-0.5; 3]);
            store.apply(plan, computed)
        })
    };
    assert_says(&apply(100), ErrorKind::Invalid, &["rollout 100", "not part of the plan"]);
    assert_says(&apply(101), ErrorKind::Invalid, &["rollout 101", "two results"]);
}

#[test]
fn spans_that_do_not_cover_the_tokens_are_refused() {
    let error = refused(|store| store.insert(bare(7, 5).old_logps_spans(vec![-0.5; 3], &[(0, 1), (0, 1)])));
    assert_says(&error, ErrorKind::Invalid, &["spans of old_logps cover 2 tokens of 3"]);
    let error = refused(|store| store.insert(bare(7, 5).version_spans(&[(0, 4)])));
    assert_says(&error, ErrorKind::Invalid, &["spans of version_spans cover 4 tokens of 3"]);
}

#[test]
fn an_id_twice_is_refused_with_its_whole_batch() {
    for second in [2, 100] {
        let error = refused(|store| {
            let mut batch = store.batch();
            batch.insert(bare(2, 5))?;
            batch.cursor(b"row 8");
            batch.insert(bare(second, 5))?;
            batch.commit()
        });
        assert_says(&error, ErrorKind::Invalid, &[&format!("rollout {second}"), "is live"]);
        assert_eq!(error.rollout(), Some(second.into()));
    }
}

#[test]
fn an_id_that_is_not_live_is_not_found() {
    type Give = fn(&RolloutStore) -> Result<(), Error>;
    let calls: [(&str, Give); 5] = [
        ("plan_for", |store| store.plan_for(&ids([100, 9]), 5).map(drop)),
        ("plan_kl_ref_for", |store| store.plan_kl_ref_for(&ids([100, 9]), 5).map(drop)),
        ("get_or_compute", |store| store.get_or_compute(&ids([101, 9]), 5, model(-0.5)).map(drop)),
        ("replace", |store| store.replace(bare(9, 5)).map(drop)),
        ("gather", |store| {
            let mut tensor = [0.0; 6];
            let mut out = Padded::new(&mut tensor, 3, 0.0);
            store.gather(&ids([100, 9]), Column::OldLogps, 5, Stale::Allow, &mut out)
        }),
    ];
    for (call, give) in calls {
        let error = refused(give);
        assert_says(&error, ErrorKind::NotFound, &["rollout 9 is not live"]);
        assert_eq!(error.rollout(), Some(9.into()), "{call}");
    }
    let scratch = Scratch::new();
    let store = scratch.open();
    assert!(store.get(9.into()).unwrap().is_none());
    assert_eq!(store.retire(&ids([9]), Reason::Trained).unwrap(), 0, "passed over");
}

#[test]
fn a_record_above_the_limit_is_refused_before_anything_is_written() {
    // One small buffer, lent to many columns: the limit is reached without the memory.
    let piece = vec![0_u8; 8 << 20];
    let largest = limits::RECORD_BYTES_MAX - limits::META_BYTES_MAX;
    let pieces = largest / piece.len() as u64;
    let rollout = |surplus: usize| {
        let full = (0..pieces).fold(NewRollout::new(7, 5), |rollout, number| {
            rollout.column(&format!("piece {number}"), ColumnValues::from(&piece))
        });
        full.column("surplus", ColumnValues::from(&piece[..surplus]))
    };
    let last = usize::try_from(largest % piece.len() as u64).unwrap();
    let error = refused(|store| store.insert(rollout(last + 1)));
    let numbers = [(largest + 1).to_string(), largest.to_string()];
    assert_says(&error, ErrorKind::Invalid, &["rollout 7", &numbers[0], &numbers[1]]);

    let scratch = Scratch::new();
    let store = scratch.open();
    let mut batch = store.batch();
    batch.insert(rollout(last)).unwrap();
    drop(batch);
}

#[test]
fn sizes_above_their_limits_are_refused() {
    let long = "n".repeat(limits::NAME_BYTES_MAX + 1);
    let rollouts = [
        bare(7, 5).metadata(&vec![0; limits::METADATA_BYTES_MAX + 1]),
        bare(7, 5).column(&long, vec![1_u8]),
        bare(7, 5).column("", vec![1_u8]),
        NewRollout::with_key(&long, 5),
        (0..=limits::NAMED_COLUMNS_MAX)
            .fold(bare(7, 5), |rollout, number| rollout.column(&format!("column {number}"), vec![1_u8])),
        bare(7, 5).column("twice", vec![1_u8]).column("twice", vec![1_u8]),
        bare(7, 5).column("old_logps", vec![-0.5_f32; 3]),
        bare(7, 5).column("sampler_logps", vec![1_i32; 3]),
    ];
    for rollout in rollouts {
        let error = refused(|store| store.insert(rollout));
        assert_says(&error, ErrorKind::Invalid, &["rollout "]);
    }
    let error = refused(|store| store.set_cursor(&vec![0; limits::CURSOR_BYTES_MAX + 1]));
    assert_says(&error, ErrorKind::Invalid, &["cursor", &limits::CURSOR_BYTES_MAX.to_string()]);
}

fn open(dir: &Path) -> Result<RolloutStore, Error> {
    RolloutStore::options().window(8).open(dir)
}

#[test]
fn a_directory_that_is_no_store_is_left_alone() {
    let scratch = Scratch::new();
    let dir = scratch.path("model");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("weights.safetensors"), "weights").unwrap();
    assert_says(&open(&dir).unwrap_err(), ErrorKind::Invalid, &["not a store", "weights.safetensors"]);
    assert_eq!(fs::read(dir.join("weights.safetensors")).unwrap(), b"weights");
    let left: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "weights.safetensors" || name == "LOCK"), "{left:?}");
}

#[test]
fn a_file_in_place_of_a_directory_is_left_alone() {
    let scratch = Scratch::new();
    fs::write(scratch.store_dir(), "a file").unwrap();
    assert_says(&open(&scratch.store_dir()).unwrap_err(), ErrorKind::Invalid, &["is not a directory"]);
    let below = open(&scratch.store_dir().join("below")).unwrap_err();
    assert!(below.path().is_some(), "{below}");
    assert_eq!(fs::read(scratch.store_dir()).unwrap(), b"a file");
}

#[test]
fn a_new_store_without_a_window_is_refused_and_leaves_no_store() {
    let scratch = Scratch::new();
    let refused = RolloutStore::options().open(scratch.store_dir()).unwrap_err();
    assert_says(&refused, ErrorKind::Invalid, &["window"]);
    let missing = RolloutStore::options().create(false).open(scratch.store_dir()).unwrap_err();
    assert_says(&missing, ErrorKind::NotFound, &["holds no store"]);
}

/// A directory in which even root may not create a file.
#[cfg(target_os = "linux")]
#[test]
fn a_directory_that_cannot_be_written_to_is_named() {
    let error = open(Path::new("/sys/kernel")).unwrap_err();
    assert_says(&error, ErrorKind::Io, &["/sys/kernel/LOCK"]);
    assert_eq!(error.path(), Some(Path::new("/sys/kernel/LOCK")));
}

#[test]
fn a_second_writer_is_told_who_the_first_is() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let error = open(&scratch.store_dir()).unwrap_err();
    assert_says(&error, ErrorKind::Locked, &[&format!("pid {}", std::process::id())]);
    store.insert(bare(1, 5)).unwrap();
    drop(store);
    assert_eq!(open(&scratch.store_dir()).unwrap().len(), 1);
}

/// Makes the object in the file's bytes one of a newer format, with a checksum that is right.
fn of_a_newer_format(path: &Path, crc_at: impl Fn(usize) -> usize) {
    const VERSION: std::ops::Range<usize> = 8..12;
    let mut bytes = fs::read(path).unwrap();
    let version = u32::from_le_bytes(bytes[VERSION].try_into().unwrap());
    assert_eq!(version, 1, "the version stands where docs/format.md says");
    bytes[VERSION].copy_from_slice(&2_u32.to_le_bytes());
    let crc_at = crc_at(bytes.len());
    let crc = crc32fast::hash(&bytes[..crc_at]);
    bytes[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
    fs::write(path, bytes).unwrap();
}

fn newest_file(dir: &Path, prefix: &str) -> std::path::PathBuf {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let named = files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix));
    named.max().expect("such a file")
}

#[test]
fn a_store_whose_newest_manifest_is_of_a_newer_format_is_left_alone() {
    let scratch = Scratch::new();
    scratch.open().close().unwrap();
    // A second generation, with nothing between the two: the first still fits every file.
    scratch.open_with(|options| options.window(9)).close().unwrap();
    of_a_newer_format(&newest_file(&scratch.store_dir(), "MANIFEST-"), |len| len - 4);
    for read_only in [false, true] {
        let options = RolloutStore::options().window(8).read_only(read_only);
        let error = options.open(scratch.store_dir()).unwrap_err();
        assert_says(&error, ErrorKind::TooNew, &["MANIFEST-", "format version 2", "upgrade"]);
    }
}

#[test]
fn a_segment_of_a_newer_format_is_not_read() {
    for closed in [false, true] {
        let scratch = Scratch::new();
        let store = scratch.open();
        store.insert(with_old(1, 5, -1.0, 0)).unwrap();
        if closed {
            store.close().unwrap();
        } else {
            store.abandon();
        }
        of_a_newer_format(&newest_file(&scratch.store_dir(), "seg-"), |_| 4092);
        let read = open(&scratch.store_dir()).and_then(|store| store.get(1.into()).map(drop));
        assert_says(&read.unwrap_err(), ErrorKind::TooNew, &["seg-", "format version 2"]);
    }
}

#[test]
fn completions_of_no_token_and_of_131_072_are_legal() {
    let scratch = Scratch::new();
    let store = scratch.open();
    for (id, len) in [(1, 0), (2, 131_072)] {
        let (tokens, logps) = (vec![7_u32; len], vec![-0.5_f32; len]);
        store.insert(NewRollout::new(id, 5).completion_ids(tokens).old_logps(logps, 0)).unwrap();
    }
    store.insert(NewRollout::new(3, 5).completion_ids(vec![])).unwrap();
    store.get_or_compute(&ids([3]), 5, model(-0.5)).unwrap();
    store.close().unwrap();
    let store = scratch.open();
    for (id, len) in [(1, 0), (2, 131_072), (3, 0)] {
        let view = store.get(RolloutId::new(id)).unwrap().unwrap();
        assert_eq!((view.old_logps().unwrap().len(), view.completion_ids().unwrap().len()), (len, len));
        assert!(view.old_logps().unwrap().iter().all(|logp| logp.to_bits() == (-0.5_f32).to_bits()));
    }
}
