//! Parquet, read: a few rollouts at a time.

use std::collections::VecDeque;
use std::os::unix::fs::FileExt;

use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use ::parquet::file::metadata::ParquetMetaData;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use half::bf16;
use rollstore::{ColumnValues, DType};

use super::super::file::File;
use super::super::layout::{Field, Which};
use super::super::mark::Mark;
use super::super::provenance;
use super::super::reader::Sealed;
use super::super::row::{ColumnIn, Row};
use super::guard::guarded;
use super::{MAGIC, MARK, digits_in, schema};

/// Greatest length of a footer, in bytes.
const FOOTER_BYTES_MAX: u64 = 256 << 20;

/// Bytes of rollouts that are read at a time, about.
const BATCH_BYTES: u64 = 8 << 20;

/// Most rollouts that are read at a time.
const BATCH_ROWS: u64 = 1024;

/// Finds the mark in the key-value metadata of the footer.
pub(in super::super) fn sealed(file: &File, len: u64) -> Result<Sealed, String> {
    const END_BYTES: u64 = 8;
    let cut = || "it does not end as a Parquet file does: it was cut".to_owned();
    let mut end = [0; 8];
    let end_at = len.checked_sub(END_BYTES).ok_or_else(cut)?;
    file.read_exact_at(&mut end, end_at).map_err(|error| error.to_string())?;
    let [a, b, c, d, magic @ ..] = end;
    let footer_bytes = u64::from(u32::from_le_bytes([a, b, c, d]));
    if &magic != MAGIC {
        return Err(cut());
    }
    if footer_bytes > FOOTER_BYTES_MAX || footer_bytes > end_at {
        return Err(format!("its footer has {footer_bytes} bytes of the {len} that the file has"));
    }
    let mut footer = vec![0; usize::try_from(footer_bytes).unwrap_or_default()];
    file.read_exact_at(&mut footer, end_at - footer_bytes).map_err(|error| error.to_string())?;
    let metadata = metadata(file)?;
    let no_mark = || "its footer has no mark: it was written by another program, or is no dump".to_owned();
    let said = metadata.metadata().file_metadata().key_value_metadata().into_iter().flatten();
    let mark = said.rev().find(|said| said.key == MARK).and_then(|said| said.value.as_deref()).ok_or_else(no_mark)?;
    let digits = digits_in(&footer).ok_or_else(no_mark)?;
    Ok(Sealed { mark: Mark::parse(mark.as_bytes())?, digits_at: end_at - footer_bytes + digits as u64 })
}

fn metadata(file: &File) -> Result<ArrowReaderMetadata, String> {
    guarded(|| ArrowReaderMetadata::load(file, ArrowReaderOptions::new()).map_err(|error| error.to_string()))
        .map_err(|what| format!("its footer cannot be read: {what}"))
}

/// The rollouts of a file.
pub(in super::super) struct Batches {
    fields: Vec<Field>,
    reader: ParquetRecordBatchReader,
    rows: VecDeque<Row>,
}

impl Batches {
    pub(in super::super) fn new(file: File, mark: &Mark) -> Result<Self, String> {
        let metadata = metadata(&file)?;
        let batch_rows = batch_rows(metadata.metadata());
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata).with_batch_size(batch_rows);
        let reader = guarded(|| builder.build().map_err(|error| error.to_string()))?;
        Ok(Self { fields: mark.fields()?, reader, rows: VecDeque::new() })
    }

    fn row(&mut self) -> Result<Option<Row>, String> {
        while self.rows.is_empty() {
            let Some(batch) = self.reader.next() else { return Ok(None) };
            let batch = batch.map_err(|error| error.to_string())?;
            for row in 0..batch.num_rows() {
                self.rows.push_back(row_of(&batch, row, &self.fields)?);
            }
        }
        Ok(self.rows.pop_front())
    }
}

/// So many rows that a batch has about the bytes that it should, by the largest row group.
fn batch_rows(metadata: &ParquetMetaData) -> usize {
    let groups = metadata.row_groups().iter();
    let row_bytes = groups.map(|group| u64::try_from(group.total_byte_size() / group.num_rows().max(1)).unwrap_or(1));
    let rows = BATCH_BYTES / row_bytes.max().unwrap_or(1).max(1);
    usize::try_from(rows.clamp(1, BATCH_ROWS)).unwrap_or(1)
}

impl Iterator for Batches {
    type Item = Result<Row, String>;

    fn next(&mut self) -> Option<Self::Item> {
        guarded(|| self.row()).transpose()
    }
}

fn row_of(batch: &RecordBatch, at: usize, fields: &[Field]) -> Result<Row, String> {
    let row = Cells { batch, at };
    let required =
        |name: &str| row.number::<UInt64Type>(name)?.ok_or_else(|| format!("there is no {name} in row {at}"));
    let mut out = Row {
        id: required("id")?,
        key: row.text("key")?,
        group: row.number::<UInt64Type>("group_id")?,
        created_step: required("created_step")?,
        born_step: required("born_step")?,
        ref_version: required("ref_version")?,
        kl_ref_version: row.number::<UInt64Type>("kl_ref_version")?,
        reward: row.number::<Float32Type>("reward")?,
        advantage: row.number::<Float32Type>("advantage")?,
        metadata: row.metadata()?,
        version_spans: row.spans()?,
        ..Row::default()
    };
    for Field { which, dtype, label, .. } in fields {
        let Some(values) = row.values(label, *dtype)? else { continue };
        match which {
            Which::FirstOldLogps => {
                let ColumnValues::F32(logps) = values else { return Err(other_type(label)) };
                out.first_old_logps = Some(logps.into_owned());
            }
            Which::Column(column) => {
                let name = schema::provenance_of(label);
                let has = batch.column_by_name(&name).is_some();
                let text = if has { row.text(&name)? } else { None };
                let provenance = text.map(|text| provenance::from_text(text.as_bytes())).transpose()?;
                out.columns.push(ColumnIn { column: column.clone(), values, provenance });
            }
        }
    }
    Ok(out)
}

fn other_type(name: &str) -> String {
    format!("column {name} has another type than its mark says")
}

/// The cells of one row.
#[derive(Clone, Copy)]
struct Cells<'a> {
    batch: &'a RecordBatch,
    at: usize,
}

impl<'a> Cells<'a> {
    /// A column, unless the row has no value there.
    fn column(&self, name: &str) -> Result<Option<&'a dyn Array>, String> {
        let column = self.batch.column_by_name(name).ok_or_else(|| format!("there is no column {name}"))?;
        Ok(Some(column.as_ref()).filter(|column| column.is_valid(self.at)))
    }

    fn number<T: ArrowPrimitiveType>(&self, name: &str) -> Result<Option<T::Native>, String> {
        let Some(column) = self.column(name)? else { return Ok(None) };
        let column = column.as_primitive_opt::<T>().ok_or_else(|| other_type(name))?;
        Ok(Some(column.value(self.at)))
    }

    fn text(&self, name: &str) -> Result<Option<String>, String> {
        let Some(column) = self.column(name)? else { return Ok(None) };
        let column = column.as_string_opt::<i32>().ok_or_else(|| other_type(name))?;
        Ok(Some(column.value(self.at).to_owned()))
    }

    fn metadata(&self) -> Result<Vec<u8>, String> {
        let Some(column) = self.column("metadata")? else { return Ok(Vec::new()) };
        let column = column.as_binary_opt::<i32>().ok_or_else(|| other_type("metadata"))?;
        Ok(column.value(self.at).to_vec())
    }

    fn list(&self, name: &str) -> Result<Option<arrow_array::ArrayRef>, String> {
        let Some(column) = self.column(name)? else { return Ok(None) };
        let column = column.as_list_opt::<i32>().ok_or_else(|| other_type(name))?;
        Ok(Some(column.value(self.at)))
    }

    fn spans(&self) -> Result<Vec<(u64, u32)>, String> {
        let wrong = || other_type("version_spans");
        let Some(list) = self.list("version_spans")? else { return Ok(Vec::new()) };
        let spans = list.as_struct_opt().ok_or_else(wrong)?;
        let [versions, tokens] = spans.columns() else { return Err(wrong()) };
        let versions = versions.as_primitive_opt::<UInt64Type>().ok_or_else(wrong)?;
        let tokens = tokens.as_primitive_opt::<UInt32Type>().ok_or_else(wrong)?;
        Ok(versions.values().iter().copied().zip(tokens.values().iter().copied()).collect())
    }

    fn values(&self, name: &str, dtype: DType) -> Result<Option<ColumnValues<'static>>, String> {
        let Some(list) = self.list(name)? else { return Ok(None) };
        let list = list.as_ref();
        let values = match dtype {
            DType::F16 => numbers::<Float16Type>(list).map(|values| ColumnValues::F16(values.into())),
            DType::Bf16 => numbers::<UInt16Type>(list)
                .map(|bits| ColumnValues::Bf16(bits.into_iter().map(bf16::from_bits).collect::<Vec<_>>().into())),
            DType::I32 => numbers::<Int32Type>(list).map(|values| ColumnValues::I32(values.into())),
            DType::I64 => numbers::<Int64Type>(list).map(|values| ColumnValues::I64(values.into())),
            DType::U32 => numbers::<UInt32Type>(list).map(|values| ColumnValues::U32(values.into())),
            DType::U8 => numbers::<UInt8Type>(list).map(|values| ColumnValues::U8(values.into())),
            _ => numbers::<Float32Type>(list).map(|values| ColumnValues::F32(values.into())),
        };
        values.map(Some).ok_or_else(|| other_type(name))
    }
}

fn numbers<T: ArrowPrimitiveType>(list: &dyn Array) -> Option<Vec<T::Native>> {
    let values = list.as_primitive_opt::<T>()?;
    (values.null_count() == 0).then(|| values.values().to_vec())
}
