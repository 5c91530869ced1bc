//! JSON Lines, read.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;

use half::{bf16, f16};
use rollstore::{Column, ColumnValues, DType};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::file::File;
use super::super::mark::{MARK_BYTES_MAX, Mark, dtype_of};
use super::super::provenance::ProvenanceJson;
use super::super::reader::Sealed;
use super::super::row::{ColumnIn, Row};
use super::super::seal;
use super::super::values::{Float, float_of};
use super::super::view::MetadataJson;
use super::{MARK_MIDDLE, mark_start};

/// Greatest length of a line, in bytes: a record of 1 GiB in numbers of a dozen digits.
const LINE_BYTES_MAX: u64 = 4 << 30;

/// Finds the mark in the last line.
pub(in super::super) fn sealed(file: &File, len: u64) -> Result<Sealed, String> {
    let no_mark = || "its last line is no mark: it was cut, or is no dump".to_owned();
    // The last line is looked for in a piece of the end that grows: few marks are long.
    let mut piece_bytes = 64 << 10;
    let (line, at) = loop {
        let from = len.saturating_sub(piece_bytes);
        let mut piece = vec![0; usize::try_from(len - from).map_err(|_| no_mark())?];
        file.read_exact_at(&mut piece, from).map_err(|error| error.to_string())?;
        let body = piece.strip_suffix(b"\n").ok_or_else(no_mark)?;
        match body.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => break (body[end + 1..].to_vec(), from + end as u64 + 1),
            None if from == 0 => break (body.to_vec(), 0),
            None if piece_bytes >= MARK_BYTES_MAX => return Err(no_mark()),
            None => piece_bytes *= 4,
        }
    };
    let start = mark_start();
    let rest = line.strip_prefix(start.as_bytes()).and_then(|rest| rest.get(seal::DIGITS..)).ok_or_else(no_mark)?;
    let json = rest.strip_prefix(MARK_MIDDLE.as_bytes()).and_then(|json| json.strip_suffix(b"}"));
    Ok(Sealed { mark: Mark::parse(json.ok_or_else(no_mark)?)?, digits_at: at + start.len() as u64 })
}

/// The rollouts of a file, up to its mark. What could not be read when it was written is passed over.
#[derive(Debug)]
pub(in super::super) struct Lines {
    reader: BufReader<File>,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    pub(in super::super) fn new(reader: BufReader<File>) -> Self {
        Self { reader, line: Vec::new(), number: 0 }
    }

    fn row(&mut self) -> Result<Option<Row>, String> {
        loop {
            self.line.clear();
            self.number += 1;
            let read = (&mut self.reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line);
            read.map_err(|error| error.to_string())?;
            if !self.line.ends_with(b"\n") {
                return Err(format!("line {} has more than {LINE_BYTES_MAX} bytes, or no end", self.number));
            }
            if self.line.starts_with(mark_start().as_bytes()) {
                return Ok(None);
            }
            if let Some(row) = parse(&self.line).map_err(|what| format!("line {}: {what}", self.number))? {
                return Ok(Some(row));
            }
        }
    }
}

impl Iterator for Lines {
    type Item = Result<Row, String>;

    fn next(&mut self) -> Option<Self::Item> {
        self.row().transpose()
    }
}

/// A line, as it is written by [`RolloutJson`](super::super::view::RolloutJson) or in place of one.
#[derive(Debug, Deserialize)]
struct LineJson<'a> {
    id: String,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    key: Option<String>,
    group: Option<String>,
    #[serde(default)]
    created_step: u64,
    #[serde(default)]
    born_step: u64,
    #[serde(default)]
    ref_version: u64,
    reward: Option<Float>,
    advantage: Option<Float>,
    #[serde(default)]
    version_spans: Vec<(u64, u32)>,
    metadata: Option<MetadataJson>,
    #[serde(borrow, default)]
    columns: BTreeMap<String, ColumnJson<'a>>,
    #[serde(borrow)]
    first_old_logps: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct ColumnJson<'a> {
    dtype: String,
    version: Option<u64>,
    provenance: Option<ProvenanceJson<'a>>,
    #[serde(borrow)]
    values: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// The rollout of a line; `None` where it says that it could not be read.
fn parse(line: &[u8]) -> Result<Option<Row>, String> {
    let json: LineJson<'_> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if json.error.is_some() || json.columns.values().any(|column| column.error.is_some()) {
        return Ok(None);
    }
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text:?} is no id"));
    let mut row = Row {
        id: number(&json.id)?,
        key: json.key,
        group: json.group.as_deref().map(number).transpose()?,
        created_step: json.created_step,
        born_step: json.born_step,
        ref_version: json.ref_version,
        reward: json.reward.map(|reward| reward.0),
        advantage: json.advantage.map(|advantage| advantage.0),
        version_spans: json.version_spans,
        metadata: json.metadata.map(MetadataJson::into_bytes).transpose()?.unwrap_or_default(),
        ..Row::default()
    };
    for (name, column) in json.columns {
        let what = |what: String| format!("rollout {}: {name}: {what}", json.id);
        let raw = column.values.ok_or_else(|| what("there are no values".to_owned()))?;
        let values = values(dtype_of(&column.dtype).map_err(what)?, raw.get()).map_err(what)?;
        let provenance = column.provenance.map(ProvenanceJson::provenance).transpose().map_err(what)?;
        let column_of = Column::from_name(&name);
        if column_of == Column::KlRefLogps {
            row.kl_ref_version = column.version;
        }
        row.columns.push(ColumnIn { column: column_of, values, provenance });
    }
    row.first_old_logps = json.first_old_logps.map(|raw| list(raw.get(), float_of)).transpose()?;
    Ok(Some(row))
}

fn values(dtype: DType, json: &str) -> Result<ColumnValues<'static>, String> {
    Ok(match dtype {
        DType::F16 => ColumnValues::F16(list(json, |text| narrow(text, f16::from_f32, f16::from_bits))?.into()),
        DType::Bf16 => ColumnValues::Bf16(list(json, |text| narrow(text, bf16::from_f32, bf16::from_bits))?.into()),
        DType::I32 => ColumnValues::I32(list(json, |text| text.parse().ok())?.into()),
        DType::I64 => ColumnValues::I64(list(json, |text| text.parse().ok())?.into()),
        DType::U32 => ColumnValues::U32(list(json, |text| text.parse().ok())?.into()),
        DType::U8 => ColumnValues::U8(list(json, |text| text.parse().ok())?.into()),
        _ => ColumnValues::F32(list(json, float_of)?.into()),
    })
}

/// A value of two bytes: the f32 that it equals, or the bits of a NaN.
fn narrow<T>(text: &str, value: fn(f32) -> T, of_bits: fn(u16) -> T) -> Option<T> {
    match super::super::values::nan_bits(text) {
        Some(bits) => u16::try_from(bits).ok().map(of_bits),
        None => float_of(text).map(value),
    }
}

/// The elements of a list of numbers and of strings without commas: it is JSON already, so that it can be split at them.
fn list<T>(json: &str, element: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, String> {
    let inner = json.trim().strip_prefix('[').and_then(|json| json.strip_suffix(']'));
    let inner = inner.ok_or("the values are no list")?.trim();
    if inner.is_empty() {
        return Ok(Vec::new());
    }
    let parsed = inner.split(',').enumerate().map(|(at, text)| {
        element(text.trim()).ok_or_else(|| format!("value {at} is {}, which its type does not have", text.trim()))
    });
    parsed.collect()
}
