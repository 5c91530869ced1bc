//! Goal: a frame header is 128 bytes of a fixed layout, and nothing but the writer's own bytes in their own place pass.
//!
//! Method: golden bytes made by another program, round trips, every bit flip, and resealed headers, whose checksum is
//! computed anew over fields that no writer writes.

use proptest::prelude::*;

use super::*;
use crate::format::kind::SCHEMA_ROLLOUT;
use crate::format::testing::{for_each_bit_flip, hex};

const SEED: FrameSeed = FrameSeed { salt: 0x1122_3344_5566_7788, segment: SegmentId(7), offset: 4096 };

fn header() -> FrameHeader {
    FrameHeader {
        kind: FrameKind::Insert,
        flags: FrameFlags::BATCH_BEGIN.with(FrameFlags::BATCH_END),
        schema: SCHEMA_ROLLOUT,
        frames_in_batch: 1,
        lsn: Lsn::new(11),
        durable_lsn: Lsn::new(10),
        rollout: RolloutId::new(42),
        insert_lsn: Lsn::new(9),
        born_step: 5,
        ref_version: 3,
        body_len: 192,
        meta_len: 80,
        meta_crc: 0xdead_beef,
    }
}

/// The header with `bytes` written at `offset` under a checksum that holds.
fn resealed(offset: usize, bytes: &[u8]) -> [u8; HEADER_BYTES] {
    let mut header = header().encode(&SEED);
    header[offset..offset + bytes.len()].copy_from_slice(bytes);
    let crc = header_crc(&SEED, &header);
    header[4..8].copy_from_slice(&crc.to_le_bytes());
    header
}

fn is_damaged_in(refused: &Result<FrameHeader, Fault>, part: &str) -> bool {
    matches!(refused, Err(Fault::Damaged { what, .. }) if *what == part)
}

fn is_too_new(refused: &Result<FrameHeader, Fault>) -> bool {
    matches!(refused, Err(Fault::TooNew { .. }))
}

#[test]
fn the_bytes_are_those_of_the_format() {
    let golden = "f5524672fc24967c0b000000000000000a000000000000002a000000000000000900000000000000\
                  05000000000000000300000000000000c00000000000000050000000efbeadde0100030001000000\
                  0100000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
                  00000000";
    assert_eq!(hex(&header().encode(&SEED)), golden);
}

#[test]
fn a_frame_ends_at_a_multiple_of_64() {
    assert_eq!(header().frame_len(), 128 + 192 + 128);
    assert_eq!(FrameHeader { meta_len: 64, ..header() }.frame_len(), 128 + 192 + 64);
    assert_eq!(FrameHeader { meta_len: 0, body_len: 0, ..header() }.frame_len(), 128);
}

#[test]
fn every_bit_flip_is_refused() {
    for_each_bit_flip(&header().encode(&SEED), |bit, bytes| {
        let refused = FrameHeader::decode(bytes, &SEED);
        assert!(matches!(refused, Err(Fault::Damaged { .. })), "bit {bit}: {refused:?}");
    });
}

#[test]
fn a_header_in_another_place_is_refused() {
    let bytes = header().encode(&SEED);
    let elsewhere = [
        FrameSeed { offset: 4160, ..SEED },
        FrameSeed { segment: SegmentId(8), ..SEED },
        FrameSeed { salt: SEED.salt + 1, ..SEED },
    ];
    for seed in elsewhere {
        assert!(is_damaged_in(&FrameHeader::decode(&bytes, &seed), "frame header"), "{seed:?}");
    }
}

#[test]
fn a_length_beyond_its_limit_is_refused_under_a_sound_checksum() {
    let at = |offset, bytes: &[u8]| FrameHeader::decode(&resealed(offset, bytes), &SEED);
    assert!(is_damaged_in(&at(56, &65_u64.to_le_bytes()), "body length"));
    assert!(is_damaged_in(&at(56, &RECORD_BYTES_MAX.to_le_bytes()), "frame length"));
    assert!(is_damaged_in(&at(56, &(u64::MAX - 63).to_le_bytes()), "frame length"));
    assert!(is_damaged_in(&at(64, &u32::MAX.to_le_bytes()), "descriptor length"));
    assert!(is_damaged_in(&at(80, &0_u32.to_le_bytes()), "frames in batch"));
    assert!(is_damaged_in(&at(80, &u32::MAX.to_le_bytes()), "frames in batch"));
}

#[test]
fn what_a_newer_format_wrote_is_too_new_and_never_damage() {
    let at = |offset, bytes: &[u8]| FrameHeader::decode(&resealed(offset, bytes), &SEED);
    assert!(is_too_new(&at(72, &12_u16.to_le_bytes())), "an unknown kind");
    assert!(is_too_new(&at(72, &0_u16.to_le_bytes())), "a kind never given");
    assert!(is_too_new(&at(74, &0x10_u16.to_le_bytes())), "an unknown flag");
    assert!(is_too_new(&at(76, &3_u16.to_le_bytes())), "an unknown schema");
    assert!(is_too_new(&at(78, &1_u16.to_le_bytes())), "a reserved field");
    assert!(is_too_new(&at(127, &[1])), "a reserved byte");
    assert!(is_damaged_in(&at(76, &SCHEMA_CONTROL.to_le_bytes()), "descriptor schema"), "another kind's schema");
}

#[test]
fn an_unknown_ignorable_kind_passes_with_its_length() {
    let bytes = resealed(72, &(IGNORABLE | 0x4d).to_le_bytes());
    let passed = FrameHeader::decode(&bytes, &SEED).unwrap();
    assert_eq!(passed.kind, FrameKind::Ignorable(IGNORABLE | 0x4d));
    assert_eq!(passed.frame_len(), header().frame_len());
}

#[test]
fn kinds_and_numbers_name_each_other_and_only_padding_is_ignorable() {
    let known: Vec<u16> = (0..=u16::MAX)
        .filter(|code| FrameKind::from_code(*code).is_some_and(|kind| !matches!(kind, FrameKind::Ignorable(_))))
        .collect();
    assert_eq!(known, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0x8001], "numbers on disk never change");
    for code in 0..=u16::MAX {
        assert!(FrameKind::from_code(code).is_none_or(|kind| kind.code() == code));
    }
}

#[test]
fn only_the_magic_makes_a_candidate() {
    let bytes = header().encode(&SEED);
    assert!(could_be_header(&bytes) && could_be_header(&bytes[..4]));
    assert!(!could_be_header(&bytes[..3]) && !could_be_header(&bytes[1..]) && !could_be_header(&[]));
}

proptest! {
    #[test]
    fn a_header_comes_back_as_it_was(
        code in prop_oneof![1_u16..=11, Just(0x8001)],
        flags in 0_u16..16,
        frames_in_batch in 1..=BATCH_FRAMES_MAX,
        numbers in any::<[u64; 6]>(),
        body_units in 0_u64..(1 << 23),
        meta_len in 0..(1_u32 << 20),
        meta_crc: u32,
        salt: u64,
        offset: u64,
    ) {
        let kind = FrameKind::from_code(code).unwrap();
        let [lsn, durable, id, insert, born_step, ref_version] = numbers.map(|number| (number / 4).max(1));
        let header = FrameHeader {
            kind,
            flags: FrameFlags(flags),
            schema: kind.schema().unwrap(),
            frames_in_batch,
            lsn: Lsn::new(lsn),
            durable_lsn: Lsn::new(durable),
            rollout: RolloutId::new(id),
            insert_lsn: Lsn::new(insert),
            born_step,
            ref_version,
            body_len: body_units * FRAME_ALIGN,
            meta_len,
            meta_crc,
        };
        let seed = FrameSeed { salt, segment: SegmentId(meta_crc), offset };
        prop_assert_eq!(FrameHeader::decode(&header.encode(&seed), &seed), Ok(header));
    }

    #[test]
    fn no_fields_under_a_sound_checksum_panic_or_pass_a_limit(fields in proptest::collection::vec(any::<u8>(), 120)) {
        if let Ok(header) = FrameHeader::decode(&resealed(8, &fields), &SEED) {
            prop_assert!(header.frame_len() <= RECORD_BYTES_MAX);
        }
    }

    #[test]
    fn random_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        prop_assert!(FrameHeader::decode(&bytes, &SEED).is_err());
    }
}
