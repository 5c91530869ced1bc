//! Goal: a footer comes back as it was or not at all, and no length in it is believed before its checksum.
//!
//! Method: golden trailer bytes made by another program, round trips, every bit flip of the whole encoding, and archives
//! of random bytes under a sound checksum.

use proptest::prelude::*;

use super::*;
use crate::format::entry::{EntryKind, Has};
use crate::format::testing::{for_each_bit_flip, hex};

const SALT: u64 = 0x1122_3344_5566_7788;
const OFFSET: u64 = 1 << 20;

fn entry(id: u64, lsn: u64) -> FrameEntry {
    FrameEntry {
        kind: EntryKind::Insert,
        id: RolloutId::new(id),
        lsn: Lsn::new(lsn),
        insert_lsn: Lsn::new(lsn),
        offset_units: 64,
        frame_units: 4,
        born_step: 5,
        ref_version: 3,
        created_step: 4,
        kl_version: 1,
        token_count: 2048,
        group: Some(u64::MAX),
        has: Has::OLD.with(Has::USED),
    }
}

fn footer() -> Footer {
    let retired = RetiredEntry { id: RolloutId::new(8), insert_lsn: Lsn::new(3), lsn: Lsn::new(12) };
    Footer {
        segment: SegmentId(7),
        frames: 5,
        min_lsn: Lsn::new(10),
        max_lsn: Lsn::new(14),
        min_insert_lsn: Lsn::new(3),
        born_min: 5,
        born_max: 5,
        version_min: 3,
        version_max: 3,
        header_hash: 0xabcd,
        entries: vec![entry(1, 11), entry(1, 13), entry(2, 10)],
        retired: vec![retired],
        used: vec![UsedEntry { id: RolloutId::new(1), lsn: Lsn::new(14) }],
    }
}

/// What a reader does with the end of a segment: the trailer, then the region that it names.
fn read(tail: &[u8]) -> Result<Footer, Fault> {
    let (region, trailer) = tail.split_last_chunk().unwrap();
    let trailer = decode_trailer(trailer, SegmentId(7), SALT, OFFSET + tail.len() as u64)?;
    Footer::decode(region, &trailer)
}

#[test]
fn the_trailer_bytes_are_those_of_the_format() {
    let trailer = TrailerInfo { offset: 8192, len: 104, crc: 0xcafe_f00d };
    let golden = "f5526f6c4674721a0100000007000000887766554433221100200000000000006800000000000000\
                  0df0feca000000000000000000000000000000004d73abb2";
    assert_eq!(hex(&trailer.encode(SegmentId(7), SALT)), golden);
}

#[test]
fn a_footer_ends_at_a_multiple_of_64_and_comes_back() {
    let encoded = footer().encode(SALT, OFFSET);
    assert!(encoded.bytes.len().is_multiple_of(64));
    assert_eq!(encoded.trailer.len, 3 * 80 + 24 + 16 + 104, "rows and root, nothing between");
    assert_eq!(read(&encoded.bytes), Ok(footer()));
}

#[test]
fn a_footer_is_read_from_any_address() {
    let encoded = footer().encode(SALT, OFFSET);
    let mut shifted = vec![0];
    shifted.extend_from_slice(&encoded.bytes);
    assert_eq!(read(&shifted[1..]), Ok(footer()));
}

#[test]
fn every_bit_flip_is_refused() {
    for_each_bit_flip(&footer().encode(SALT, OFFSET).bytes, |bit, bytes| {
        assert!(matches!(read(bytes), Err(Fault::Damaged { .. })), "bit {bit}");
    });
}

#[test]
fn a_trailer_of_another_segment_or_length_is_refused() {
    let trailer = footer().encode(SALT, OFFSET).bytes.split_off(384);
    let trailer: &[u8; TRAILER_BYTES] = trailer.as_slice().try_into().unwrap();
    let len = OFFSET + 384 + 64;
    assert!(decode_trailer(trailer, SegmentId(7), SALT, len).is_ok());
    assert!(decode_trailer(trailer, SegmentId(8), SALT, len).is_err());
    assert!(decode_trailer(trailer, SegmentId(7), SALT + 1, len).is_err());
    assert!(decode_trailer(trailer, SegmentId(7), SALT, len + 64).is_err());
    assert!(decode_trailer(trailer, SegmentId(7), SALT, len - 64).is_err());
}

#[test]
fn a_trailer_whose_lengths_overflow_is_refused() {
    for (offset, len) in [(u64::MAX - 63, 64), (64, u64::MAX), (0, u64::MAX - 63), (1, 63)] {
        let bytes = TrailerInfo { offset, len, crc: 0 }.encode(SegmentId(7), SALT);
        let refused = decode_trailer(&bytes, SegmentId(7), SALT, 128);
        assert!(matches!(refused, Err(Fault::Damaged { what: "footer place", .. })), "{offset} {len}");
    }
}

#[test]
fn a_trailer_without_a_footer_says_scan() {
    let left_out = TrailerInfo { offset: OFFSET, len: 0, crc: 0 };
    let bytes = left_out.encode(SegmentId(7), SALT);
    assert_eq!(decode_trailer(&bytes, SegmentId(7), SALT, OFFSET + 64), Ok(left_out));
    let refused = Footer::decode(&[], &left_out).unwrap_err();
    assert_eq!(refused.to_string(), "footer at byte 0: expected a payload, found a segment without one: scan it");
}

#[test]
fn entries_that_no_sound_writer_writes_are_refused() {
    let trailer = footer().encode(SALT, OFFSET).trailer;
    let entries = |entries: Vec<FrameEntry>| Footer { entries, ..footer() }.check(&trailer);
    assert!(entries(vec![entry(1, 11), entry(2, 10)]).is_ok());
    assert!(entries(vec![entry(2, 10), entry(1, 11)]).is_err(), "not ascending");
    assert!(entries(vec![entry(1, 11), entry(1, 11)]).is_err(), "twice the same");
    assert!(entries(vec![entry(1, 9)]).is_err(), "below the least number");
    assert!(entries(vec![entry(1, 15)]).is_err(), "above the greatest number");
    assert!(entries(vec![FrameEntry { offset_units: 1 << 14, ..entry(1, 11) }]).is_err(), "behind the frames");
}

proptest! {
    #[test]
    fn rows_come_back_as_they_were(
        rows in proptest::collection::btree_map(any::<(u64, u64)>(), any::<([u64; 5], u32, u32, u8)>(), 0..50),
        retired in proptest::collection::vec(any::<[u64; 3]>(), 0..20),
        used in proptest::collection::vec(any::<[u64; 2]>(), 0..20),
    ) {
        let kinds = [EntryKind::Insert, EntryKind::OldLogps, EntryKind::KlRefLogps, EntryKind::Piece];
        let entries = rows.into_iter().map(|((id, lsn), (numbers, offset, token_count, bits))| {
            let [insert_lsn, born_step, ref_version, created_step, kl_version] = numbers;
            FrameEntry {
                kind: kinds[usize::from(bits) % 3],
                insert_lsn: Lsn::new(insert_lsn),
                offset_units: offset % (1 << 13),
                frame_units: offset >> 20,
                born_step,
                ref_version,
                created_step,
                kl_version,
                token_count,
                group: (bits & 64 != 0).then_some(created_step),
                has: Has(u16::from(bits) & Has::KNOWN.0),
                ..entry(id, lsn)
            }
        });
        let retired = retired.into_iter().map(|[id, insert, lsn]| RetiredEntry {
            id: RolloutId::new(id),
            insert_lsn: Lsn::new(insert),
            lsn: Lsn::new(lsn),
        });
        let used = used.into_iter().map(|[id, lsn]| UsedEntry { id: RolloutId::new(id), lsn: Lsn::new(lsn) });
        let footer = Footer {
            min_lsn: Lsn::NONE,
            max_lsn: Lsn::new(u64::MAX),
            entries: entries.collect(),
            retired: retired.collect(),
            used: used.collect(),
            ..footer()
        };
        prop_assert_eq!(read(&footer.encode(SALT, OFFSET).bytes), Ok(footer));
    }

    #[test]
    fn random_bytes_under_a_sound_checksum_never_panic(payload in proptest::collection::vec(any::<u8>(), 1..512)) {
        let trailer = TrailerInfo { offset: OFFSET, len: payload.len() as u64, crc: crc32fast::hash(&payload) };
        let _ = Footer::decode(&payload, &trailer);
    }

    #[test]
    fn a_flip_under_a_sound_checksum_never_panics(bit in 0_usize..2800) {
        let mut encoded = footer().encode(SALT, OFFSET);
        let len = usize::try_from(encoded.trailer.len).unwrap();
        encoded.bytes.truncate(len);
        encoded.bytes[bit / 8 % len] ^= 1 << (bit % 8);
        let trailer = TrailerInfo { crc: crc32fast::hash(&encoded.bytes), ..encoded.trailer };
        let _ = Footer::decode(&encoded.bytes, &trailer);
    }

    #[test]
    fn a_random_trailer_is_refused(bytes in proptest::collection::vec(any::<u8>(), TRAILER_BYTES), len: u64) {
        let bytes = bytes.as_slice().try_into().unwrap();
        prop_assert!(decode_trailer(bytes, SegmentId(7), SALT, len).is_err());
    }
}
