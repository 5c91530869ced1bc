//! Goal: a manifest comes back as it was or not at all.
//!
//! Method: golden header bytes, round trips of generated values, every bit flip, every truncation, and payloads of random
//! bytes under a sound checksum.

use proptest::prelude::*;

use super::*;
use crate::format::clock::{LabelRecord, VersionInterval};
use crate::format::testing::{for_each_bit_flip, hex};

fn segment(id: u32, state: SegmentState) -> SegmentRecord {
    let (base_lsn, min_insert_lsn) = (Lsn::new(10), Lsn::new(2));
    SegmentRecord { id: SegmentId(id), kind: SegmentKind::Log, state, salt: 77, base_lsn, min_insert_lsn }
}

fn manifest() -> Manifest {
    let ref_clock = VersionClock {
        current: 9,
        next: 12,
        lineage: vec![VersionInterval { first: 0, last: 3 }, VersionInterval { first: 8, last: 9 }],
        labels: vec![LabelRecord { label: 100, version: 8 }],
    };
    Manifest {
        generation: 4,
        kind: ManifestKind::Live,
        store_uuid: [1; 16],
        run_uuid: [2; 16],
        epoch: 3,
        owner: 0xfeed,
        lsn_ceiling: 1 << 32,
        ref_version_ceiling: 256,
        kl_version_ceiling: 512,
        next_segment_id: 4,
        segments: vec![
            segment(1, SegmentState::Sealed { len: 8192, footer_crc: 0x1234 }),
            SegmentRecord {
                kind: SegmentKind::Compacted,
                ..segment(2, SegmentState::Cut { end: 4096, end_lsn: Lsn::new(20) })
            },
            segment(3, SegmentState::Active),
        ],
        options: StoredOptions { window: 8, max_version_lag: 2, step_skew: 1, step_jump_max: 10_000 },
        run_identity: b"model".to_vec(),
        state: StateSnapshot {
            lsn: Lsn::new(99),
            clock: Some(137),
            ref_clock,
            kl_clock: VersionClock::new(),
            cursor: Some(Vec::new()),
            id_ceiling: 5000,
            counters: Counters::from_values(1..=14).unwrap(),
            retire_lines: vec![RetireLine { created_before: 50, lsn: Lsn::new(60), reason: 3 }],
            sweeps: vec![SweepRecord { name: "due".into(), position_lsn: 1, position_born: 2, position_id: 3 }],
        },
        compaction: vec![9; 3],
    }
}

fn resealed(offset: usize, byte: u8) -> Result<Manifest, Fault> {
    let mut bytes = manifest().encode().unwrap();
    bytes[offset] = byte;
    Manifest::decode(&reseal(bytes))
}

fn reseal(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc_at = bytes.len() - CRC_BYTES;
    let crc = crc32fast::hash(&bytes[..crc_at]);
    bytes[crc_at..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn the_header_bytes_are_those_of_the_format() {
    let bytes = manifest().encode().unwrap();
    let payload_len = (bytes.len() - HEADER_BYTES - CRC_BYTES) as u64;
    assert_eq!(hex(&bytes[..32]), "f5526f6c4d616e1a010000004000000000000000000000000000000000000000");
    assert_eq!(bytes[32..40], payload_len.to_le_bytes());
    assert_eq!(bytes[40..64], [0; 24]);
}

#[test]
fn a_manifest_comes_back_as_it_was_from_any_address() {
    let bytes = manifest().encode().unwrap();
    assert_eq!(Manifest::decode(&bytes), Ok(manifest()));
    let mut shifted = vec![0];
    shifted.extend_from_slice(&bytes);
    assert_eq!(Manifest::decode(&shifted[1..]), Ok(manifest()));
}

#[test]
fn absent_and_empty_are_not_the_same() {
    let mut absent = manifest();
    (absent.state.clock, absent.state.cursor) = (None, None);
    assert_eq!(Manifest::decode(&absent.encode().unwrap()), Ok(absent));
}

#[test]
fn every_bit_flip_is_refused_as_damage() {
    for_each_bit_flip(&manifest().encode().unwrap(), |bit, bytes| {
        assert!(matches!(Manifest::decode(bytes), Err(Fault::Damaged { .. })), "bit {bit}");
    });
}

#[test]
fn a_torn_manifest_is_refused_at_every_length() {
    let bytes = manifest().encode().unwrap();
    for len in 0..bytes.len() {
        assert!(matches!(Manifest::decode(&bytes[..len]), Err(Fault::Damaged { .. })), "length {len}");
    }
    assert!(Manifest::decode(&[bytes.as_slice(), &[0]].concat()).is_err(), "a byte too many");
}

#[test]
fn what_a_newer_format_wrote_is_too_new_and_never_damage() {
    let is_too_new = |refused: Result<Manifest, Fault>| matches!(refused, Err(Fault::TooNew { .. }));
    assert!(is_too_new(resealed(8, 2)), "a newer version");
    assert!(is_too_new(resealed(16, 1)), "an incompatible feature");
    assert!(is_too_new(resealed(63, 1)), "a reserved byte");
    let root_end = manifest().encode().unwrap().len() - CRC_BYTES;
    assert!(is_too_new(resealed(root_end - 8, 2)), "an unknown kind");
    assert!(is_too_new(resealed(root_end - 1, 1)), "a reserved byte of the root");
    assert_eq!(resealed(24, 1), Ok(manifest()), "a compatible feature is passed over");
}

#[test]
fn a_manifest_that_contradicts_itself_has_a_defect() {
    let defect = |change: fn(&mut Manifest)| {
        let mut manifest = manifest();
        change(&mut manifest);
        manifest.defect().or_else(|| manifest.misnumbered())
    };
    assert_eq!(defect(|_| ()), None);
    assert!(defect(|manifest| manifest.next_segment_id = 3).is_some(), "an id to be given again");
    assert!(defect(|manifest| manifest.segments.swap(0, 1)).is_some(), "segments out of order");
    assert!(defect(|manifest| manifest.state.ref_clock.current = 8).is_some(), "a clock behind its lineage");
    assert!(defect(|manifest| manifest.lsn_ceiling = u64::MAX).is_some(), "nothing above the ceiling");
    assert!(defect(|manifest| manifest.generation = u64::MAX).is_some(), "no next generation");
    assert!(defect(|manifest| manifest.state.kl_clock.next = u64::MAX).is_some(), "no next version");
    assert!(defect(|manifest| manifest.lsn_ceiling = 98).is_some(), "a frame above the ceiling");
    assert!(defect(|manifest| manifest.ref_version_ceiling = 11).is_some(), "a version above the ceiling");
    assert!(defect(|manifest| manifest.next_segment_id = u32::MAX).is_some(), "no next segment");
}

proptest! {
    #[test]
    fn generated_manifests_come_back_as_they_were(
        numbers: [u64; 6],
        ids in proptest::collection::btree_set(0..SEGMENT_ID_MAX, 0..40),
        states in proptest::collection::vec(any::<(u8, u64, u64, u32)>(), 40),
        lines in proptest::collection::vec(any::<(u64, u64, u16)>(), 0..20),
        sweeps in proptest::collection::vec(any::<(String, u64, u64, u64)>(), 0..5),
        cursor in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..100)),
        clock: Option<u64>,
        counters: [u64; 14],
    ) {
        let state = |(tag, a, b, crc): (u8, u64, u64, u32)| match tag % 3 {
            0 => SegmentState::Active,
            1 => SegmentState::Sealed { len: a, footer_crc: crc },
            _ => SegmentState::Cut { end: a, end_lsn: Lsn::new(b) },
        };
        let line = |(created_before, lsn, reason)| RetireLine { created_before, lsn: Lsn::new(lsn), reason };
        let sweep = |(name, position_lsn, position_born, position_id)| {
            SweepRecord { name, position_lsn, position_born, position_id }
        };
        let mut manifest = manifest();
        [manifest.generation, manifest.epoch, manifest.owner, manifest.lsn_ceiling, manifest.state.id_ceiling,
            manifest.options.window] = numbers.map(|number| number / 4);
        manifest.owner %= TERM_MAX;
        manifest.lsn_ceiling = manifest.lsn_ceiling.max(manifest.state.lsn.get());
        manifest.next_segment_id = SEGMENT_ID_MAX;
        manifest.segments = ids.into_iter().zip(states).map(|(id, fields)| segment(id, state(fields))).collect();
        manifest.state.retire_lines = lines.into_iter().map(line).collect();
        manifest.state.sweeps = sweeps.into_iter().map(sweep).collect();
        manifest.state.cursor = cursor;
        manifest.state.clock = clock;
        manifest.state.counters = Counters::from_values(counters).unwrap();
        prop_assert_eq!(Manifest::decode(&manifest.encode().unwrap()), Ok(manifest));
    }

    #[test]
    fn random_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        prop_assert!(Manifest::decode(&bytes).is_err());
    }

    #[test]
    fn a_flip_under_a_sound_checksum_never_panics(at in 0_usize..6000) {
        let bytes = manifest().encode().unwrap();
        let offset = at % (bytes.len() - CRC_BYTES);
        let mut flipped = bytes;
        flipped[offset] ^= 1 << (at % 8);
        let _ = Manifest::decode(&reseal(flipped));
    }
}
