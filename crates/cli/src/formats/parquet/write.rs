//! Parquet, written: rollouts are gathered into batches, and batches into row groups, both by bytes.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic;
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use arrow_array::builder::{BinaryBuilder, Float32Builder, StringBuilder, UInt64Builder};
use arrow_array::types::{
    Float16Type, Float32Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, ArrowPrimitiveType, ListArray, PrimitiveArray, RecordBatch, StructArray};
use arrow_buffer::{BooleanBufferBuilder, MutableBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use rollstore::{DType, Rollout};

use super::super::file::{File, OutputFile};
use super::super::layout::{Cell, Layout};
use super::super::mark::{Mark, StoreMark};
use super::super::meter::Meter;
use super::super::source::Source;
use super::super::{Dumped, seal};
use super::{MARK, digits_in, schema};
use crate::args::Compression;
use crate::exit::{Failure, Outcome};

/// Bytes of rollouts that are turned into columns at a time; a single rollout may have more.
const BATCH_BYTES: usize = 8 << 20;

/// Bytes of a row group, about: a reader holds one in memory.
const ROW_GROUP_BYTES: usize = 64 << 20;

pub(in super::super) fn write(source: &Source<'_>, compression: Compression, to: &mut OutputFile) -> Outcome<Dumped> {
    let layout = Layout::of(source)?;
    let rows = layout.rows.len() as u64;
    let mark = Mark::new(rows, layout.damaged, &layout.fields, StoreMark::of(source.store));
    let failed =
        |error: ParquetError| Failure::could_not_look(format!("could not write {}: {error}", to.path().display()));
    let summed = Summed { file: to.file(), hasher: crc32fast::Hasher::new(), len: 0, tail: Vec::new() };
    let mut writer =
        ArrowWriter::try_new(summed, schema::schema(&layout), Some(properties(compression))).map_err(failed)?;
    let meter = Meter::new("writing", rows);
    let mut batch = Batch::new(&layout);
    for (done, id) in (1..).zip(&layout.rows) {
        let rollout = source.again(*id)?;
        batch.push(&rollout, &layout.cells(source, &rollout)?);
        if batch.bytes >= BATCH_BYTES || done == rows {
            let full = std::mem::replace(&mut batch, Batch::new(&layout));
            let columns = full.finish(&layout).map_err(|error| failed(error.into()))?;
            writer.write(&columns).map_err(failed)?;
        }
        meter.set(done);
    }
    writer.append_key_value_metadata(KeyValue::new(MARK.to_owned(), mark.to_json()));
    writer.append_key_value_metadata(KeyValue::new(seal::NAME.to_owned(), seal::ZEROS.to_owned()));
    let summed = writer.into_inner().map_err(failed)?;
    let (crc32, len, tail) = (summed.hasher.finalize(), summed.len, summed.tail);
    let at = digits_in(&tail).ok_or_else(|| failed(ParquetError::General("its footer has no mark".to_owned())))?;
    let digits_at = len - (tail.len() - at) as u64;
    to.file().write_all_at(seal::digits(crc32).as_bytes(), digits_at).map_err(|error| to.failure(&error))?;
    Ok(Dumped { rows, damaged: layout.damaged, crc32 })
}

/// Values are written as they are: log-probs have no dictionary, and nobody asks for the least of them.
fn properties(compression: Compression) -> WriterProperties {
    let compression = match compression {
        Compression::None => basic::Compression::UNCOMPRESSED,
        Compression::Snappy => basic::Compression::SNAPPY,
    };
    WriterProperties::builder()
        .set_compression(compression)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(None)
        .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
        .set_created_by(concat!("rollstore ", env!("CARGO_PKG_VERSION")).to_owned())
        .build()
}

/// Takes what is written into the checksum, and keeps the end of it, which is the footer.
struct Summed<'a> {
    file: &'a File,
    hasher: crc32fast::Hasher,
    len: u64,
    tail: Vec<u8>,
}

impl io::Write for Summed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        /// The digits stand near the end, behind the mark: only the name of the program comes after them.
        const TAIL_BYTES: usize = 4096;
        self.file.write_all_at(bytes, self.len)?;
        self.hasher.update(bytes);
        self.len += bytes.len() as u64;
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]);
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..surplus);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Rollouts on their way to columns.
struct Batch {
    bytes: usize,
    numbers: [UInt64Builder; 6],
    key: StringBuilder,
    reward: Float32Builder,
    advantage: Float32Builder,
    metadata: BinaryBuilder,
    span_versions: Vec<u64>,
    span_tokens: Vec<u32>,
    span_offsets: Vec<i32>,
    lists: Vec<List>,
}

/// The lists of one field.
struct List {
    values: MutableBuffer,
    count: i32,
    offsets: Vec<i32>,
    present: BooleanBufferBuilder,
    provenance: StringBuilder,
}

impl Batch {
    fn new(layout: &Layout) -> Self {
        let list = |_: &_| List {
            values: MutableBuffer::new(0),
            count: 0,
            offsets: vec![0],
            present: BooleanBufferBuilder::new(0),
            provenance: StringBuilder::new(),
        };
        Self {
            bytes: 0,
            numbers: std::array::from_fn(|_| UInt64Builder::new()),
            key: StringBuilder::new(),
            reward: Float32Builder::new(),
            advantage: Float32Builder::new(),
            metadata: BinaryBuilder::new(),
            span_versions: Vec::new(),
            span_tokens: Vec::new(),
            span_offsets: vec![0],
            lists: layout.fields.iter().map(list).collect(),
        }
    }

    fn push(&mut self, rollout: &Rollout, cells: &[Option<Cell<'_>>]) {
        let numbers = [
            Some(rollout.id().get()),
            rollout.group(),
            Some(rollout.created_step()),
            Some(rollout.born_step()),
            Some(rollout.ref_version()),
            rollout.kl_ref_version(),
        ];
        for (builder, number) in self.numbers.iter_mut().zip(numbers) {
            builder.append_option(number);
        }
        self.key.append_option(rollout.key());
        self.reward.append_option(rollout.reward());
        self.advantage.append_option(rollout.advantage());
        self.metadata.append_option(Some(rollout.metadata()).filter(|metadata| !metadata.is_empty()));
        for (version, tokens) in rollout.version_spans() {
            self.span_versions.push(version);
            self.span_tokens.push(tokens);
        }
        self.span_offsets.push(count(self.span_versions.len()));
        for (list, cell) in self.lists.iter_mut().zip(cells) {
            self.bytes += list.push(cell.as_ref());
        }
        self.bytes += rollout.metadata().len();
    }

    fn finish(mut self, layout: &Layout) -> Result<RecordBatch, arrow_schema::ArrowError> {
        let [id, group, created, born, ref_version, kl_ref_version] =
            self.numbers.each_mut().map(UInt64Builder::finish);
        let spans: Vec<ArrayRef> = vec![
            Arc::new(PrimitiveArray::<UInt64Type>::from(self.span_versions)),
            Arc::new(PrimitiveArray::<UInt32Type>::from(self.span_tokens)),
        ];
        let spans = StructArray::try_new(schema::span_fields(), spans, None)?;
        let span_offsets = OffsetBuffer::new(self.span_offsets.into());
        let spans = ListArray::try_new(schema::span_element(), span_offsets, Arc::new(spans), None)?;
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(id),
            Arc::new(self.key.finish()),
            Arc::new(group),
            Arc::new(created),
            Arc::new(born),
            Arc::new(ref_version),
            Arc::new(kl_ref_version),
            Arc::new(self.reward.finish()),
            Arc::new(self.advantage.finish()),
            Arc::new(self.metadata.finish()),
            Arc::new(spans),
        ];
        for (field, list) in layout.fields.iter().zip(self.lists) {
            let (values, provenance) = list.finish(field.dtype)?;
            columns.push(values);
            columns.extend((field.provenance_bytes > 0).then_some(provenance));
        }
        RecordBatch::try_new(schema::schema(layout), columns)
    }
}

impl List {
    fn push(&mut self, cell: Option<&Cell<'_>>) -> usize {
        let bytes = cell.map_or(&[][..], |cell| cell.values.as_bytes());
        self.values.extend_from_slice(bytes);
        self.count = self.count.saturating_add(cell.map_or(0, |cell| count(cell.values.len())));
        self.offsets.push(self.count);
        self.present.append(cell.is_some());
        self.provenance.append_option(cell.map(|cell| cell.provenance.as_str()).filter(|text| !text.is_empty()));
        bytes.len()
    }

    fn finish(mut self, dtype: DType) -> Result<(ArrayRef, ArrayRef), arrow_schema::ArrowError> {
        let values = match dtype {
            DType::F16 => primitive::<Float16Type>(self.values),
            DType::Bf16 => primitive::<UInt16Type>(self.values),
            DType::I32 => primitive::<Int32Type>(self.values),
            DType::I64 => primitive::<Int64Type>(self.values),
            DType::U32 => primitive::<UInt32Type>(self.values),
            DType::U8 => primitive::<UInt8Type>(self.values),
            _ => primitive::<Float32Type>(self.values),
        };
        let offsets = OffsetBuffer::new(self.offsets.into());
        let nulls = Some(NullBuffer::new(self.present.finish())).filter(|nulls| nulls.null_count() > 0);
        let list = ListArray::try_new(schema::element(dtype), offsets, values, nulls)?;
        Ok((Arc::new(list), Arc::new(self.provenance.finish())))
    }
}

/// Values as they lie; the buffer is aligned for every type.
fn primitive<T: ArrowPrimitiveType>(values: MutableBuffer) -> ArrayRef {
    let len = values.len() / size_of::<T::Native>();
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::new(values.into(), 0, len), None))
}

/// A batch has one rollout more than its limit, and that at most 1 GiB: its counts fit.
fn count(values: usize) -> i32 {
    i32::try_from(values).unwrap_or(i32::MAX)
}
