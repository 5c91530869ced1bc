//! safetensors, written: a first look at every rollout gives the sizes, a second one fills all tensors side by side.

use std::fmt::Write as _;
use std::io;
use std::os::unix::fs::FileExt;

use rollstore::Rollout;

use super::super::file::{File, OutputFile};
use super::super::layout::{Cell, Layout};
use super::super::mark::{Mark, StoreMark};
use super::super::meter::Meter;
use super::super::source::Source;
use super::super::{Dumped, seal};
use super::tensors::{Part, Tensor, tensors};
use super::{HEADER_BYTES_MAX, LENGTH_BYTES, header_start};
use crate::exit::{Failure, Outcome};

/// Memory for what waits to be written, of all tensors together, in bytes.
const BUFFERS_BYTES: usize = 64 << 20;

/// Greatest buffer of one tensor, in bytes.
const BUFFER_BYTES_MAX: usize = 1 << 20;

pub(in super::super) fn write(source: &Source<'_>, to: &mut OutputFile) -> Outcome<Dumped> {
    let layout = Layout::of(source)?;
    let tensors = tensors(&layout);
    let rows = layout.rows.len() as u64;
    let mark = Mark::new(rows, layout.damaged, &layout.fields, StoreMark::of(source.store));
    let header = header(&mark, &tensors);
    let header_bytes = header.len() as u64;
    if header_bytes > HEADER_BYTES_MAX {
        return Err(Failure::could_not_look(format!(
            "the header takes {header_bytes} bytes, the limit of the format is {HEADER_BYTES_MAX}; choose fewer columns"
        )));
    }
    let buffer_bytes = (BUFFERS_BYTES / tensors.len()).min(BUFFER_BYTES_MAX);
    let (mut streams, mut at) = (Vec::with_capacity(tensors.len()), LENGTH_BYTES + header_bytes);
    for tensor in &tensors {
        streams.push(Stream::new(tensor, at, buffer_bytes));
        at += tensor.size_bytes();
    }
    let failed = |error: io::Error| to.failure(&error);
    let file = to.file();
    let meter = Meter::new("writing", rows);
    for (done, id) in (1..).zip(&layout.rows) {
        let rollout = source.again(*id)?;
        let cells = layout.cells(source, &rollout)?;
        for stream in &mut streams {
            stream.row(&rollout, &cells, file).map_err(failed)?;
        }
        meter.set(done);
    }
    let mut sum = crc32fast::Hasher::new();
    sum.update(&header_bytes.to_le_bytes());
    sum.update(header.as_bytes());
    for stream in streams {
        let (hasher, is_full) = stream.end(file).map_err(failed)?;
        if !is_full {
            return Err(Failure::could_not_look("the rollouts changed while they were dumped; dump them again"));
        }
        sum.combine(&hasher);
    }
    let crc32 = sum.finalize();
    let header = header.replacen(seal::ZEROS, &seal::digits(crc32), 1);
    file.write_all_at(&header_bytes.to_le_bytes(), 0).map_err(failed)?;
    file.write_all_at(header.as_bytes(), LENGTH_BYTES).map_err(failed)?;
    Ok(Dumped { rows, damaged: layout.damaged, crc32 })
}

/// The header, with zeros for the checksum: the metadata first, so that the digits lie at one place in every file.
fn header(mark: &Mark, tensors: &[Tensor]) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut header = format!("{}{}\",\"rollstore\":{}}}", header_start(), seal::ZEROS, quoted(&mark.to_json()));
    let mut begin = 0;
    for tensor in tensors {
        let end = begin + tensor.size_bytes();
        let (name, Tensor { dtype, len, .. }) = (quoted(&tensor.name), tensor);
        let _ =
            write!(header, ",{name}:{{\"dtype\":\"{dtype:?}\",\"shape\":[{len}],\"data_offsets\":[{begin},{end}]}}");
        begin = end;
    }
    header.push('}');
    // The first tensor is aligned for its type.
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    header
}

/// One tensor on its way to its place in the file.
struct Stream {
    part: Part,
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    buffer_bytes: usize,
    hasher: crc32fast::Hasher,
    /// Values of the rollouts so far, where they are counted.
    total: i64,
}

impl Stream {
    fn new(tensor: &Tensor, at: u64, buffer_bytes: usize) -> Self {
        let end = at + tensor.size_bytes();
        let (buffer, hasher) = (Vec::with_capacity(buffer_bytes), crc32fast::Hasher::new());
        let mut stream = Self { part: tensor.part, at, end, buffer, buffer_bytes, hasher, total: 0 };
        if tensor.part.is_offsets() {
            stream.buffer.extend(0_i64.to_le_bytes());
        }
        stream
    }

    /// Adds what the tensor holds of a rollout.
    fn row(&mut self, rollout: &Rollout, cells: &[Option<Cell<'_>>], file: &File) -> io::Result<()> {
        let cell = |field: usize| cells.get(field).and_then(Option::as_ref);
        let provenance = |field: usize| cell(field).map_or("", |cell| cell.provenance.as_str());
        match self.part {
            Part::Ids => self.push(&rollout.id().get().to_le_bytes(), file),
            Part::CreatedSteps => self.push(&rollout.created_step().to_le_bytes(), file),
            Part::BornSteps => self.push(&rollout.born_step().to_le_bytes(), file),
            Part::RefVersions => self.push(&rollout.ref_version().to_le_bytes(), file),
            Part::Groups => self.push(&rollout.group().unwrap_or_default().to_le_bytes(), file),
            Part::HasGroup => self.push(&[u8::from(rollout.group().is_some())], file),
            Part::Rewards => self.push(&rollout.reward().unwrap_or_default().to_le_bytes(), file),
            Part::HasReward => self.push(&[u8::from(rollout.reward().is_some())], file),
            Part::Advantages => self.push(&rollout.advantage().unwrap_or_default().to_le_bytes(), file),
            Part::HasAdvantage => self.push(&[u8::from(rollout.advantage().is_some())], file),
            Part::Keys => self.push(rollout.key().unwrap_or_default().as_bytes(), file),
            Part::KeyOffsets => self.count(rollout.key().map_or(0, str::len), file),
            Part::Metadata => self.push(rollout.metadata(), file),
            Part::MetadataOffsets => self.count(rollout.metadata().len(), file),
            Part::SpanVersions => {
                rollout.version_spans().iter().try_for_each(|(version, _)| self.push(&version.to_le_bytes(), file))
            }
            Part::SpanTokens => {
                rollout.version_spans().iter().try_for_each(|(_, tokens)| self.push(&tokens.to_le_bytes(), file))
            }
            Part::SpanOffsets => self.count(rollout.version_spans().len(), file),
            Part::Values(field) => cell(field).map_or(Ok(()), |cell| self.push(cell.values.as_bytes(), file)),
            Part::Offsets(field) => self.count(cell(field).map_or(0, |cell| cell.values.len()), file),
            Part::Has(field) => self.push(&[u8::from(cell(field).is_some())], file),
            Part::Versions(field) => {
                let version = cell(field).and(rollout.kl_ref_version()).unwrap_or_default();
                self.push(&version.to_le_bytes(), file)
            }
            Part::Provenance(field) => self.push(provenance(field).as_bytes(), file),
            Part::ProvenanceOffsets(field) => self.count(provenance(field).len(), file),
        }
    }

    fn count(&mut self, values: usize, file: &File) -> io::Result<()> {
        self.total = self.total.saturating_add(i64::try_from(values).unwrap_or(i64::MAX));
        self.push(&self.total.to_le_bytes(), file)
    }

    fn push(&mut self, bytes: &[u8], file: &File) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > self.buffer_bytes {
            self.flush(file)?;
        }
        if bytes.len() < self.buffer_bytes {
            self.buffer.extend_from_slice(bytes);
            return Ok(());
        }
        self.write(bytes, file)
    }

    fn flush(&mut self, file: &File) -> io::Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        self.write(&buffer, file)?;
        self.buffer = buffer;
        self.buffer.clear();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8], file: &File) -> io::Result<()> {
        self.hasher.update(bytes);
        // What does not fit is told at the end, and never written over a neighbour.
        if self.at + bytes.len() as u64 <= self.end {
            file.write_all_at(bytes, self.at)?;
        }
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Writes the rest; gives the checksum, and whether the tensor came out as long as was said.
    fn end(mut self, file: &File) -> io::Result<(crc32fast::Hasher, bool)> {
        self.flush(file)?;
        Ok((self.hasher, self.at == self.end))
    }
}
