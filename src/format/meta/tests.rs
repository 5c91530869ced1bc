//! Goal: a descriptor is small, comes back as it was, and never describes an array outside its frame.
//!
//! Method: sizes of the usual rollouts, golden bytes that pin the archive's layout, round trips, and flips and random bytes
//! read as they are, since the header's checksum has been compared by then.

use proptest::prelude::*;

use super::*;
use crate::format::counters::Counters;
use crate::format::dtype::DType;
use crate::format::fault::Fault;
use crate::format::testing::{aligned, for_each_bit_flip, hex};

const BODY_LEN: u64 = 4096;

fn column(code: u16, offset_units: u32) -> ColumnMeta {
    ColumnMeta { column: code, dtype: 1, provenance: 0, offset_units, len: 16, crc: 0x0403_0201 }
}

/// So many well-known columns of one unit each.
fn plain(columns: u16) -> RolloutMeta {
    let columns = (1..=columns).map(|code| column(code, u32::from(code) - 1)).collect();
    RolloutMeta { created_step: 7, columns, ..RolloutMeta::default() }
}

fn full() -> RolloutMeta {
    let provenance = ProvenanceMeta {
        engine: "vllm".into(),
        temperature: 0.7,
        top_p: 0.9,
        top_k: 50,
        processed: 1,
        reserved: [0; 3],
    };
    let span = |version, token_count| SpanMeta { version, token_count, reserved: 0 };
    RolloutMeta {
        group: 3,
        kl_version: 2,
        present: RolloutMeta::GROUP | RolloutMeta::REWARD | RolloutMeta::KEY,
        reward: -1.5,
        columns: vec![
            ColumnMeta { provenance: 1, ..column(5, 0) },
            ColumnMeta { dtype: 5, ..column(0x8000, 1) },
            ColumnMeta { dtype: 7, ..column(0x8001, 3) },
        ],
        names: vec!["entropy".into(), "a name longer than eight bytes".into()],
        key: "req-7f3a".into(),
        metadata: vec![1, 2, 3],
        spans: vec![span(4, 10), span(5, 6)],
        old_spans: vec![span(1, 16)],
        provenances: vec![provenance],
        ..plain(0)
    }
}

fn control() -> ControlMeta {
    let ids = |code, offset_units| ColumnMeta { dtype: ControlColumn::DTYPE_U64, ..column(code, offset_units) };
    ControlMeta {
        step: 5,
        version: 6,
        label: 7,
        unused_count: 8,
        id_ceiling: 9,
        present: ControlMeta::STEP | ControlMeta::COUNTERS,
        reason: 2,
        clock: ControlMeta::CLOCK_REF,
        name: "due".into(),
        columns: vec![ids(16, 0), ids(17, 2), ColumnMeta { dtype: 7, ..column(19, 4) }],
        counters: (1..=14).collect(),
        ..ControlMeta::default()
    }
}

/// Whether the descriptor is refused, and as damage in this part.
fn is_refused(meta: &RolloutMeta, part: &str) -> bool {
    let bytes = aligned(&encode_rollout(meta));
    let refused = rollout_meta(&bytes, BODY_LEN).map(|_| ());
    matches!(refused, Err(Fault::Damaged { what, .. }) if what == part)
}

fn is_control_refused(meta: &ControlMeta, part: &str) -> bool {
    let bytes = aligned(&encode_control(meta));
    let refused = control_meta(&bytes, BODY_LEN).map(|_| ());
    matches!(refused, Err(Fault::Damaged { what, .. }) if what == part)
}

#[test]
fn a_descriptor_of_one_column_takes_at_most_128_bytes_and_of_six_192() {
    assert!(encode_rollout(&plain(1)).len() <= 128, "{}", encode_rollout(&plain(1)).len());
    assert!(encode_rollout(&plain(6)).len() <= 192, "{}", encode_rollout(&plain(6)).len());
}

#[test]
fn a_column_is_found_with_its_type_place_checksum_and_provenance() {
    let bytes = aligned(&encode_rollout(&full()));
    let meta = rollout_meta(&bytes, BODY_LEN).unwrap();
    let sampler = meta.column(ColumnCode::SAMPLER_LOGPS).unwrap();
    let expected = ColumnRef {
        code: ColumnCode::SAMPLER_LOGPS,
        dtype: DType::F32,
        range: 0..64,
        crc: 0x0403_0201,
        provenance: Some(0),
    };
    assert_eq!(sampler, expected);
    let entropy = meta.named("entropy").unwrap();
    assert_eq!((entropy.dtype, entropy.range, entropy.provenance), (DType::I64, 64..192, None));
    assert_eq!((meta.named("other"), meta.column(ColumnCode::OLD_LOGPS)), (None, None));
    assert_eq!(meta.columns().count(), 3);
    assert!(meta.has(RolloutMeta::KEY) && !meta.has(RolloutMeta::ADVANTAGE));
}

#[test]
fn a_control_array_is_found_and_counters_are_read() {
    let bytes = aligned(&encode_control(&control()));
    let meta = control_meta(&bytes, BODY_LEN).unwrap();
    assert_eq!(meta.column(ControlColumn::Incarnations).unwrap().range, 128..256);
    assert_eq!(meta.column(ControlColumn::Cursor).unwrap().range, 256..272);
    assert_eq!(meta.column(ControlColumn::UsedIds), None);
    assert_eq!(meta.counters(), Counters::from_values(1..=14));
}

#[test]
fn a_column_outside_the_body_over_another_or_of_no_schema_is_refused() {
    let columns = |columns: Vec<ColumnMeta>| RolloutMeta { columns, ..full() };
    let last_unit = u32::try_from(BODY_LEN / 64).unwrap();
    assert!(!is_refused(&columns(vec![column(1, last_unit - 1)]), "column place"));
    assert!(is_refused(&columns(vec![column(1, last_unit)]), "column place"), "behind the body");
    assert!(is_refused(&columns(vec![ColumnMeta { len: 1025, ..column(1, 0) }]), "column place"), "longer than it");
    assert!(is_refused(&columns(vec![ColumnMeta { len: u32::MAX, ..column(1, 0) }]), "column length"));
    assert!(is_refused(&columns(vec![column(1, u32::MAX)]), "column place"));
    assert!(is_refused(&columns(vec![column(1, 0), column(2, 0)]), "column place"), "over another");
    assert!(is_refused(&columns(vec![ColumnMeta { dtype: 8, ..column(1, 0) }]), "column type"));
    assert!(is_refused(&columns(vec![column(7, 0)]), "column type"), "an unknown column");
    assert!(is_refused(&columns(vec![column(0x8002, 0)]), "column type"), "a name that is not there");
    assert!(is_refused(&columns(vec![ColumnMeta { provenance: 2, ..column(4, 0) }]), "column type"));
}

#[test]
fn a_descriptor_beyond_a_limit_is_refused() {
    assert!(is_refused(&RolloutMeta { present: 1 << 4, ..full() }, "presence bits"));
    assert!(is_refused(&RolloutMeta { key: "k".repeat(1025), ..full() }, "key length"));
    assert!(is_refused(&RolloutMeta { names: vec![String::new(); 257], ..full() }, "names"));
    assert!(is_refused(&RolloutMeta { names: vec!["n".repeat(1025); 2], ..full() }, "name length"));
    assert!(is_refused(&RolloutMeta { metadata: vec![0; (1 << 20) + 1], ..full() }, "metadata length"));
    let span = SpanMeta { version: 0, token_count: 1, reserved: 0 };
    assert!(is_refused(&RolloutMeta { spans: vec![span; (1 << 16) + 1], ..full() }, "spans"));
}

#[test]
fn a_control_descriptor_that_contradicts_itself_is_refused() {
    let [ids, incarnations, cursor] = <[ColumnMeta; 3]>::try_from(control().columns).unwrap();
    let columns = |columns: Vec<ColumnMeta>| ControlMeta { columns, ..control() };
    let part = "incarnations of retired ids";
    assert!(is_control_refused(&columns(vec![ids]), part));
    assert!(is_control_refused(&columns(vec![ids, ColumnMeta { len: 15, ..incarnations }]), part));
    assert!(is_control_refused(&columns(vec![ColumnMeta { dtype: 8, ..cursor }]), "column type"));
    assert!(is_control_refused(&ControlMeta { counters: vec![1], ..control() }, "counters"));
    assert!(is_control_refused(&ControlMeta { clock: 3, ..control() }, "version clock"));
}

#[test]
fn columns_out_of_order_are_refused() {
    let bytes = aligned(&encode_rollout(&plain(2)));
    let mut swapped = aligned(&bytes);
    swapped[..32].rotate_left(16);
    let refused = rollout_meta(&swapped, BODY_LEN).map(|_| ());
    assert!(matches!(refused, Err(Fault::Damaged { what: "column order", .. })), "{refused:?}");
}

/// The directory read by itself says what the archive says.
fn assert_directory(bytes: &[u8], meta: &ArchivedRolloutMeta) {
    let columns: Vec<ColumnRef> = meta.columns().collect();
    assert_eq!(directory::len(bytes), columns.len());
    for (place, column) in columns.into_iter().enumerate() {
        assert_eq!(directory::find(bytes, column.code), Some((place, column)));
    }
    let absent = ColumnCode(0x7fff);
    assert_eq!(directory::find(bytes, absent), None);
}

#[test]
fn a_flip_changes_the_checksum_and_never_reaches_outside_the_body() {
    let bytes = encode_rollout(&full());
    let crc = crc32fast::hash(&bytes);
    for_each_bit_flip(&bytes, |bit, flipped| {
        assert_ne!(crc32fast::hash(flipped), crc, "bit {bit}");
        if let Ok(meta) = rollout_meta(flipped, BODY_LEN) {
            assert!(meta.columns().all(|column| column.range.end <= BODY_LEN), "bit {bit}");
            assert_directory(flipped, meta);
        }
        let _ = (directory::len(flipped), directory::find(flipped, ColumnCode::OLD_LOGPS));
    });
    for_each_bit_flip(&encode_control(&control()), |bit, flipped| {
        if let Ok(meta) = control_meta(flipped, BODY_LEN) {
            assert!(meta.column(ControlColumn::Cursor).is_none_or(|array| array.range.end <= BODY_LEN), "bit {bit}");
        }
    });
}

#[test]
fn the_archives_are_those_of_the_format() {
    let golden = "0100010000000000100000000102030407000000000000000000000000000000000000000000000000000000\
                  0000000000000000ccffffff01000000d4ffffff00000000ffffffffffffffffc4ffffff00000000bcffffff\
                  00000000b4ffffff00000000acffffff0000000000000000";
    assert_eq!(hex(&encode_rollout(&plain(1))), golden);
    let golden = "0500000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
                  000000000000000000000000647565ffffffffffc0ffffff00000000b8ffffff00000000";
    let due = ControlMeta { name: "due".into(), step: 5, ..ControlMeta::default() };
    assert_eq!(hex(&encode_control(&due)), golden);
}

#[test]
fn both_descriptors_come_back_as_they_were() {
    let bytes = aligned(&encode_rollout(&full()));
    let meta = rollout_meta(&bytes, BODY_LEN).unwrap();
    assert_eq!(rkyv::deserialize::<RolloutMeta, rkyv::rancor::Error>(meta).unwrap(), full());
    let bytes = aligned(&encode_control(&control()));
    let meta = control_meta(&bytes, BODY_LEN).unwrap();
    assert_eq!(rkyv::deserialize::<ControlMeta, rkyv::rancor::Error>(meta).unwrap(), control());
}

proptest! {
    #[test]
    fn generated_descriptors_come_back_as_they_were(
        numbers: [u64; 3],
        reward in -1e6_f32..1e6,
        names in proptest::collection::vec(".{0,20}", 0..6),
        key in ".{0,64}",
        metadata in proptest::collection::vec(any::<u8>(), 0..200),
        spans in proptest::collection::vec(any::<(u64, u32)>(), 0..10),
        dtypes in proptest::collection::vec(1_u8..=7, 6),
    ) {
        let [created_step, group, kl_version] = numbers;
        let columns = (0_u16..).zip(&names).zip(dtypes).map(|((index, _), dtype)| {
            ColumnMeta { dtype, ..column(ColumnCode::NAMED | index, u32::from(index) * 2) }
        });
        let spans = spans.into_iter().map(|(version, token_count)| SpanMeta { version, token_count, reserved: 0 });
        let meta = RolloutMeta {
            created_step, group, kl_version, reward, key, metadata,
            columns: columns.collect(),
            names,
            spans: spans.collect(),
            ..full()
        };
        let bytes = aligned(&encode_rollout(&meta));
        let archived = rollout_meta(&bytes, BODY_LEN).unwrap();
        assert_directory(&bytes, archived);
        prop_assert_eq!(rkyv::deserialize::<RolloutMeta, rkyv::rancor::Error>(archived).unwrap(), meta);
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), body_len: u64) {
        let bytes = aligned(&bytes);
        let _ = rollout_meta(&bytes, body_len);
        let _ = control_meta(&bytes, body_len);
        let _ = (directory::len(&bytes), directory::find(&bytes, ColumnCode::OLD_LOGPS));
    }
}
