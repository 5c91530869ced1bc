//! safetensors, read: all tensors side by side, a rollout at a time.

use std::collections::HashMap;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use ::safetensors::tensor::Metadata;
use rollstore::VersionSpan;

use super::super::file::File;
use super::super::layout::{Field, Which};
use super::super::mark::Mark;
use super::super::provenance;
use super::super::reader::Sealed;
use super::super::row::{ColumnIn, Row, check_bytes, floats_of, values_of};
use super::tensors::Part;
use super::{HEADER_BYTES_MAX, LENGTH_BYTES, header_start};

/// Bytes that are read ahead of each tensor.
const AHEAD_BYTES: usize = 64 << 10;

/// The header, once its length was held against the file's.
fn header(file: &File, len: u64) -> Result<Vec<u8>, String> {
    let mut length = [0; 8];
    file.read_exact_at(&mut length, 0).map_err(|error| error.to_string())?;
    let header_bytes = u64::from_le_bytes(length);
    if header_bytes > HEADER_BYTES_MAX || header_bytes > len.saturating_sub(LENGTH_BYTES) {
        return Err(format!("its header has {header_bytes} bytes of the {len} that the file has"));
    }
    let mut header = vec![0; usize::try_from(header_bytes).unwrap_or_default()];
    file.read_exact_at(&mut header, LENGTH_BYTES).map_err(|error| error.to_string())?;
    Ok(header)
}

/// Finds the mark in the metadata of the header.
pub(in super::super) fn sealed(file: &File, len: u64) -> Result<Sealed, String> {
    let header = header(file, len)?;
    let no_mark = || "its header has no mark: it was saved by another program, or is no dump".to_owned();
    let start = header_start();
    if !header.starts_with(start.as_bytes()) {
        return Err(no_mark());
    }
    let metadata = parse(&header)?;
    let said = metadata.metadata().as_ref().and_then(|said| said.get("rollstore")).ok_or_else(no_mark)?;
    let data_bytes = metadata.data_len() as u64;
    let found = len - LENGTH_BYTES - header.len() as u64;
    if data_bytes != found {
        return Err(format!("its tensors take {data_bytes} bytes, and it has {found}: it was cut or added to"));
    }
    Ok(Sealed { mark: Mark::parse(said.as_bytes())?, digits_at: LENGTH_BYTES + start.len() as u64 })
}

fn parse(header: &[u8]) -> Result<Metadata, String> {
    serde_json::from_slice(header).map_err(|error| format!("its header cannot be read: {error}"))
}

/// The rollouts of a file.
#[derive(Debug)]
pub(in super::super) struct Tensors {
    fields: Vec<Field>,
    parts: HashMap<Part, Tensor>,
    left: u64,
    row: u64,
}

/// One tensor, from the value that comes next.
#[derive(Debug)]
struct Tensor {
    name: String,
    reader: BufReader<Span>,
    /// Of an offset tensor, the offset last read.
    offset: u64,
}

impl Tensors {
    pub(in super::super) fn new(file: &File, mark: &Mark) -> Result<Self, String> {
        let len = file.metadata().map_err(|error| error.to_string())?.len();
        let header = header(file, len)?;
        let data = LENGTH_BYTES + header.len() as u64;
        let metadata = parse(&header)?;
        let fields = mark.fields()?;
        let mut found = HashMap::new();
        for part in parts(fields.len()) {
            let name = part.name(&fields);
            let Some(info) = metadata.info(&name) else { continue };
            if info.dtype != part.dtype(&fields) || info.shape.len() != 1 {
                return Err(format!(
                    "tensor {name} is {:?} of shape {:?}, which no dump writes",
                    info.dtype, info.shape
                ));
            }
            let (begin, end) = info.data_offsets;
            let span = Span {
                file: file.try_clone().map_err(|error| error.to_string())?,
                range: data + begin as u64..data + end as u64,
            };
            let mut tensor = Tensor { name, reader: BufReader::with_capacity(AHEAD_BYTES, span), offset: 0 };
            if part.is_offsets() && tensor.number()? != 0 {
                return Err(format!("tensor {} does not begin with 0", tensor.name));
            }
            found.insert(part, tensor);
        }
        Ok(Self { fields, parts: found, left: mark.rows, row: 0 })
    }

    fn row(&mut self) -> Result<Row, String> {
        let mut row = Row {
            id: self.required(Part::Ids)?,
            created_step: self.required(Part::CreatedSteps)?,
            born_step: self.required(Part::BornSteps)?,
            ref_version: self.required(Part::RefVersions)?,
            ..Row::default()
        };
        row.group = self.optional(Part::Groups, Part::HasGroup)?.map(u64::from_le_bytes);
        row.reward = self.optional(Part::Rewards, Part::HasReward)?.map(f32::from_le_bytes);
        row.advantage = self.optional(Part::Advantages, Part::HasAdvantage)?.map(f32::from_le_bytes);
        let key = self.list(Part::Keys, Part::KeyOffsets, 1)?;
        row.key = match key.as_slice() {
            [] => None,
            _ => Some(String::from_utf8(key).map_err(|_| format!("the key of rollout {} is no UTF-8", row.id))?),
        };
        row.metadata = self.list(Part::Metadata, Part::MetadataOffsets, 1)?;
        row.version_spans = self.spans()?;
        for place in 0..self.fields.len() {
            self.field(place, &mut row)?;
        }
        Ok(row)
    }

    fn spans(&mut self) -> Result<Vec<VersionSpan>, String> {
        let Some(offsets) = self.parts.get_mut(&Part::SpanOffsets) else { return Ok(Vec::new()) };
        let count = offsets.next_len()?;
        let versions = self.bytes(Part::SpanVersions, count, 8)?;
        let tokens = self.bytes(Part::SpanTokens, count, 4)?;
        let ((versions, _), (tokens, _)) = (versions.as_chunks::<8>(), tokens.as_chunks::<4>());
        Ok(versions
            .iter()
            .zip(tokens)
            .map(|(version, tokens)| (u64::from_le_bytes(*version), u32::from_le_bytes(*tokens)))
            .collect())
    }

    fn field(&mut self, place: usize, row: &mut Row) -> Result<(), String> {
        let Field { which, dtype, .. } = self.fields[place].clone();
        let bytes = self.list(Part::Values(place), Part::Offsets(place), dtype.size_bytes() as u64)?;
        let provenance = self.list(Part::Provenance(place), Part::ProvenanceOffsets(place), 1)?;
        let version = self.parts.get_mut(&Part::Versions(place)).map(Tensor::number).transpose()?;
        if let Some(has) = self.parts.get_mut(&Part::Has(place))
            && has.array::<1>()? == [0]
        {
            return Ok(());
        }
        match which {
            Which::FirstOldLogps => row.first_old_logps = Some(floats_of(&bytes)),
            Which::Column(column) => {
                row.kl_ref_version = version.or(row.kl_ref_version);
                let provenance = (!provenance.is_empty()).then(|| provenance::from_text(&provenance)).transpose()?;
                row.columns.push(ColumnIn { column, values: values_of(dtype, &bytes), provenance });
            }
        }
        Ok(())
    }

    fn required(&mut self, part: Part) -> Result<u64, String> {
        match self.parts.get_mut(&part) {
            Some(tensor) => tensor.number(),
            None => Err(format!("there is no tensor {}", part.name(&self.fields))),
        }
    }

    /// The next value of a tensor that may be missing, or may have none for a rollout.
    fn optional<const BYTES: usize>(&mut self, value: Part, has: Part) -> Result<Option<[u8; BYTES]>, String> {
        let value = self.parts.get_mut(&value).map(Tensor::array).transpose()?;
        let has = self.parts.get_mut(&has).map(Tensor::array::<1>).transpose()?;
        Ok(value.filter(|_| has != Some([0])))
    }

    /// The next list of a tensor, as long as the offsets say; none where there are no offsets.
    fn list(&mut self, values: Part, offsets: Part, value_bytes: u64) -> Result<Vec<u8>, String> {
        let Some(offsets) = self.parts.get_mut(&offsets) else { return Ok(Vec::new()) };
        let len = offsets.next_len()?;
        self.bytes(values, len, value_bytes)
    }

    fn bytes(&mut self, part: Part, len: u64, value_bytes: u64) -> Result<Vec<u8>, String> {
        let name = part.name(&self.fields);
        let mut bytes = vec![0; check_bytes(len.saturating_mul(value_bytes), &name)?];
        match self.parts.get_mut(&part) {
            Some(tensor) => tensor.fill(&mut bytes)?,
            None if bytes.is_empty() => {}
            None => return Err(format!("there is no tensor {name}")),
        }
        Ok(bytes)
    }
}

impl Iterator for Tensors {
    type Item = Result<Row, String>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        self.row += 1;
        Some(self.row().map_err(|what| format!("row {}: {what}", self.row - 1)))
    }
}

impl Tensor {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), String> {
        self.reader.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => format!("tensor {} has too few values", self.name),
            _ => error.to_string(),
        })
    }

    fn array<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], String> {
        let mut bytes = [0; BYTES];
        self.fill(&mut bytes).map(|()| bytes)
    }

    fn number(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    /// The length of the next list, by the offset behind it.
    fn next_len(&mut self) -> Result<u64, String> {
        let next = self.number()?;
        let len = next.checked_sub(self.offset).filter(|_| i64::try_from(next).is_ok());
        let len = len.ok_or_else(|| format!("tensor {} goes from {} to {next}", self.name, self.offset))?;
        self.offset = next;
        Ok(len)
    }
}

/// A range of a file.
#[derive(Debug)]
struct Span {
    file: File,
    range: Range<u64>,
}

impl Read for Span {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.range.end - self.range.start).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read_at(&mut buffer[..left], self.range.start)?;
        self.range.start += read as u64;
        Ok(read)
    }
}

/// Every part that a file with so many fields may have.
fn parts(fields: usize) -> impl Iterator<Item = Part> {
    let known = [
        Part::Ids,
        Part::CreatedSteps,
        Part::BornSteps,
        Part::RefVersions,
        Part::Groups,
        Part::HasGroup,
        Part::Rewards,
        Part::HasReward,
        Part::Advantages,
        Part::HasAdvantage,
        Part::Keys,
        Part::KeyOffsets,
        Part::Metadata,
        Part::MetadataOffsets,
        Part::SpanVersions,
        Part::SpanTokens,
        Part::SpanOffsets,
    ];
    let of_field = |field| {
        [
            Part::Values(field),
            Part::Offsets(field),
            Part::Has(field),
            Part::Versions(field),
            Part::Provenance(field),
            Part::ProvenanceOffsets(field),
        ]
    };
    known.into_iter().chain((0..fields).flat_map(of_field))
}
