//! The columns of a Parquet file.

use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, Fields, Schema};
use rollstore::DType;

use super::super::layout::{Field, Layout};

/// What the elements of every list are called, as the format's specification asks.
pub(super) const ELEMENT: &str = "element";

/// The type of a column's values. Parquet has none for bf16: its bits stand there as they are.
pub(super) fn data_type(dtype: DType) -> DataType {
    match dtype {
        DType::F16 => DataType::Float16,
        DType::Bf16 => DataType::UInt16,
        DType::I32 => DataType::Int32,
        DType::I64 => DataType::Int64,
        DType::U32 => DataType::UInt32,
        DType::U8 => DataType::UInt8,
        _ => DataType::Float32,
    }
}

/// The elements of a list of values.
pub(super) fn element(dtype: DType) -> Arc<ArrowField> {
    Arc::new(ArrowField::new(ELEMENT, data_type(dtype), false))
}

/// The members of a version span.
pub(super) fn span_fields() -> Fields {
    let version = ArrowField::new("version", DataType::UInt64, false);
    Fields::from(vec![version, ArrowField::new("token_count", DataType::UInt32, false)])
}

/// The elements of a list of version spans.
pub(super) fn span_element() -> Arc<ArrowField> {
    Arc::new(ArrowField::new(ELEMENT, DataType::Struct(span_fields()), false))
}

/// What a column's provenance is called.
pub(super) fn provenance_of(label: &str) -> String {
    format!("{label}.provenance")
}

/// The schema of a file.
pub(super) fn schema(layout: &Layout) -> Arc<Schema> {
    let mut columns = vec![
        ArrowField::new("id", DataType::UInt64, false),
        ArrowField::new("key", DataType::Utf8, true),
        ArrowField::new("group_id", DataType::UInt64, true),
        ArrowField::new("created_step", DataType::UInt64, false),
        ArrowField::new("born_step", DataType::UInt64, false),
        ArrowField::new("ref_version", DataType::UInt64, false),
        ArrowField::new("kl_ref_version", DataType::UInt64, true),
        ArrowField::new("reward", DataType::Float32, true),
        ArrowField::new("advantage", DataType::Float32, true),
        ArrowField::new("metadata", DataType::Binary, true),
        ArrowField::new("version_spans", DataType::List(span_element()), false),
    ];
    for field in &layout.fields {
        columns.extend(columns_of(field, field.rows < layout.rows.len() as u64));
    }
    Arc::new(Schema::new(columns))
}

fn columns_of(field: &Field, is_optional: bool) -> impl Iterator<Item = ArrowField> {
    let values = ArrowField::new(&field.label, DataType::List(element(field.dtype)), is_optional);
    let provenance =
        (field.provenance_bytes > 0).then(|| ArrowField::new(provenance_of(&field.label), DataType::Utf8, true));
    std::iter::once(values).chain(provenance)
}
