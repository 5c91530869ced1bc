//! Goal: a segment header is 4,096 bytes of a fixed layout; a foreign file is damage, a newer one is too new.
//!
//! Method: golden bytes made by another program, round trips, every bit flip, and headers resealed under a sound checksum.

use proptest::prelude::*;

use super::*;
use crate::format::testing::{for_each_bit_flip, hex};

fn header() -> SegmentHeader {
    SegmentHeader {
        segment: SegmentId(7),
        kind: SegmentKind::Log,
        store_uuid: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        epoch: 2,
        salt: 0x1122_3344_5566_7788,
        base_lsn: Lsn::new(11),
        ref_version: 3,
        step: None,
        compatible_features: 0,
    }
}

fn resealed(changes: &[(usize, u8)]) -> Result<SegmentHeader, Fault> {
    let mut bytes = header().encode();
    for (offset, byte) in changes {
        bytes[*offset] = *byte;
    }
    let crc = crc(&bytes);
    bytes[CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
    SegmentHeader::decode(&bytes)
}

fn is_too_new(refused: &Result<SegmentHeader, Fault>) -> bool {
    matches!(refused, Err(Fault::TooNew { .. }))
}

#[test]
fn the_bytes_are_those_of_the_format() {
    let bytes = header().encode();
    let golden = "f5526f6c5365671a01000000001000000000000000000000000000000000000001000000070000000001\
                  02030405060708090a0b0c0d0e0f020000000000000088776655443322110b0000000000000003000000\
                  00000000ffffffffffffffff";
    assert_eq!(hex(&bytes[..96]), golden);
    assert!(bytes[96..CRC_OFFSET].iter().all(|byte| *byte == 0));
    assert_eq!(hex(&bytes[CRC_OFFSET..]), "47cd868d");
}

#[test]
fn every_bit_flip_is_refused_as_damage() {
    for_each_bit_flip(&header().encode(), |bit, bytes| {
        let refused = SegmentHeader::decode(bytes);
        assert!(matches!(refused, Err(Fault::Damaged { .. })), "bit {bit}: {refused:?}");
    });
}

#[test]
fn a_foreign_or_short_file_is_damage() {
    let refused = SegmentHeader::decode(&[0; SEGMENT_HEADER_BYTES]);
    assert!(matches!(refused, Err(Fault::Damaged { what: "segment magic", .. })));
    let refused = SegmentHeader::decode(&header().encode()[..4095]);
    assert!(matches!(refused, Err(Fault::Damaged { what: "segment header", .. })));
}

#[test]
fn what_a_newer_format_wrote_is_too_new_and_never_damage() {
    assert!(is_too_new(&resealed(&[(8, 2)])), "a newer version");
    assert!(is_too_new(&resealed(&[(16, 1)])), "an incompatible feature");
    assert!(is_too_new(&resealed(&[(32, 3)])), "an unknown kind");
    assert!(is_too_new(&resealed(&[(13, 0x20)])), "a longer header");
    assert!(is_too_new(&resealed(&[(4000, 1)])), "a reserved byte");
    assert!(!is_too_new(&resealed(&[(8, 0)])), "version 0 was never written");
}

#[test]
fn a_compatible_feature_and_its_fields_are_passed_over() {
    let passed = resealed(&[(24, 2), (4000, 1)]).unwrap();
    assert_eq!(passed, SegmentHeader { compatible_features: 2, ..header() });
}

proptest! {
    #[test]
    fn a_header_comes_back_as_it_was(
        store_uuid: [u8; 16],
        segment: u32,
        numbers: [u64; 4],
        step in proptest::option::of(0..u64::MAX),
        compacted: bool,
    ) {
        let [epoch, salt, base_lsn, ref_version] = numbers;
        let header = SegmentHeader {
            segment: SegmentId(segment),
            kind: if compacted { SegmentKind::Compacted } else { SegmentKind::Log },
            store_uuid,
            epoch,
            salt,
            base_lsn: Lsn::new(base_lsn),
            ref_version,
            step,
            compatible_features: 0,
        };
        prop_assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn random_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
        prop_assert!(SegmentHeader::decode(&bytes).is_err());
    }
}
