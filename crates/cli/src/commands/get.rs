//! `rollstore get`: one rollout at a glance, or the values of one of its columns.

use std::path::Path;

use comfy_table::{CellAlignment, LineStyle, Table, presets};
use rollstore::{Column, ColumnInfo, Provenance, Rollout, RolloutId, RolloutStore};
use serde::Serialize;

use super::{Step, not_live, open, tokens};
use crate::args::GetArgs;
use crate::exit::{Failure, Outcome, Verdict, note};
use crate::formats::values::{Values, each, float};
use crate::formats::view::{RolloutJson, kind_name};
use crate::output::Output;
use crate::text;

/// Longest metadata that is shown, in characters; `--json` shows all of it.
const METADATA_CHARS: usize = 400;

pub(crate) fn run(args: &GetArgs, out: &mut Output) -> Outcome<Verdict> {
    let store = open(&args.store, None)?;
    let rollout = find(&store, &args.store, &args.id)?;
    if args.tokens {
        return tokens::print(&rollout, args.json, out);
    }
    match &args.column {
        Some(name) => print_column(&rollout, name, args.json, out),
        None if args.json => print_json(&rollout, out),
        None => print(&store, &rollout, out),
    }
}

/// One column: the interface of `get --column NAME --json`.
#[derive(Debug, Serialize)]
struct ValuesJson<'a> {
    id: String,
    column: &'a str,
    dtype: String,
    version: Option<u64>,
    values: Values<'a>,
}

/// The rollout with this number or, where none is live and the text is no number, with this key.
fn find(store: &RolloutStore, path: &Path, text: &str) -> Outcome<Rollout> {
    let id = text.parse().unwrap_or_else(|_| RolloutId::from_key(text));
    if let Some(rollout) = store.get(id)? {
        return Ok(rollout);
    }
    // A key may be made of digits.
    store.get(RolloutId::from_key(text))?.ok_or_else(|| not_live(path, text))
}

fn print_column(rollout: &Rollout, name: &str, as_json: bool, out: &mut Output) -> Outcome<Verdict> {
    let columns = rollout.columns();
    let Some(info) = columns.iter().find(|info| info.column.name() == name) else {
        let names: Vec<&str> = columns.iter().map(|info| info.column.name()).collect();
        let (id, names) = (rollout.id(), names.join(", "));
        return Err(Failure::could_not_look(format!("rollout {id} has no column {name:?}; it has {names}")));
    };
    let values = rollout.values(&info.column)?;
    if as_json {
        let (id, dtype) = (rollout.id().to_string(), info.dtype.to_string());
        out.json(&ValuesJson { id, column: name, dtype, version: info.version, values: Values(values) })?;
    } else {
        each(&values, |value| out.line(value))?;
    }
    Ok(Verdict::Sound)
}

fn print_json(rollout: &Rollout, out: &mut Output) -> Outcome<Verdict> {
    let json = RolloutJson::new(rollout)?;
    let mut verdict = Verdict::Sound;
    for (column, error) in json.damage() {
        note(&format!("rollout {}: {column}: {error}", rollout.id()));
        verdict = Verdict::Damaged;
    }
    out.json(&json)?;
    Ok(verdict)
}

fn print(store: &RolloutStore, rollout: &Rollout, out: &mut Output) -> Outcome<Verdict> {
    let at = Step::of(store, None)?;
    let optional = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    out.line(out.bold(&format!(" rollout {}", rollout.id())))?;
    let rows = [
        ("key", optional(rollout.key().map(text::escape))),
        ("group", optional(rollout.group().map(|group| group.to_string()))),
        ("created", format!("step {}", rollout.created_step())),
        ("born", format!("step {}", rollout.born_step())),
        ("version", rollout.ref_version().to_string()),
        ("state", state(store, rollout, at)),
        ("reward", optional(rollout.reward().map(float))),
        ("advantage", optional(rollout.advantage().map(float))),
        ("tokens", text::count(rollout.token_count().into())),
        ("metadata", metadata(rollout.metadata())),
    ];
    for (name, told) in rows {
        out.line(format_args!(" {name:<10} {told}"))?;
    }
    out.line("")?;
    let (table, verdict) = columns(rollout)?;
    out.line(table.trim_fmt())?;
    Ok(verdict)
}

fn state(store: &RolloutStore, rollout: &Rollout, at: Step) -> String {
    let staleness = rollout.staleness(at.step);
    let flags = super::row::flags(&staleness);
    let (window, lag) = (text::bound(store.window()), text::bound(store.max_version_lag()));
    let Step { step, origin } = at;
    format!("{flags} at step {step} ({origin}), window {window} and lag {lag} (as last used)")
}

fn metadata(bytes: &[u8]) -> String {
    if bytes.is_empty() { "-".to_owned() } else { text::cut(&text::escape_bytes(bytes), METADATA_CHARS) }
}

/// The columns with the range of their values; a damaged one shows its error and does not hide the others.
fn columns(rollout: &Rollout) -> Outcome<(Table, Verdict)> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING.header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_header(["column", "type", "values", "version", "made by", "first values"]);
    let mut verdict = Verdict::Sound;
    for info in rollout.columns() {
        let first = match first_values(rollout, &info.column) {
            Ok(first) => first,
            Err(Failure::Found(error)) => {
                note(&format!("rollout {}: {}: {error}", rollout.id(), info.column.name()));
                verdict = Verdict::Damaged;
                "damaged".to_owned()
            }
            Err(other) => return Err(other),
        };
        table.add_row(row(&info, first));
    }
    for column in table.column_iter_mut().skip(2).take(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    Ok((table, verdict))
}

fn row(info: &ColumnInfo, first: String) -> [String; 6] {
    let made_by = info.provenance.as_ref().map_or_else(|| "-".to_owned(), made_by);
    let version = info.version.map_or_else(|| "-".to_owned(), |version| version.to_string());
    let name = text::escape(info.column.name());
    [name, info.dtype.to_string(), text::count(u64::try_from(info.len).unwrap_or(u64::MAX)), version, made_by, first]
}

/// Engine, kind and sampling settings: `vllm 0.11, processed, temperature 0.7, top_p 0.9`.
fn made_by(provenance: &Provenance) -> String {
    let Provenance { engine, kind, temperature, top_p, top_k } = provenance;
    let (temperature, top_p) = (float(*temperature), float(*top_p));
    let (engine, kind) = (text::escape(engine), kind_name(*kind));
    format!("{engine}, {kind}, temperature {temperature}, top_p {top_p}, top_k {top_k}")
}

/// The first three values of a column.
fn first_values(rollout: &Rollout, column: &Column) -> Outcome<String> {
    let mut first = Vec::new();
    let mut more = false;
    // The walk ends by an error after the values that are shown.
    let _ = each(&rollout.values(column)?, |value| {
        more = first.len() == 3;
        if more {
            return Err(());
        }
        first.push(value);
        Ok(())
    });
    let ellipsis = if more { " …" } else { "" };
    Ok(format!("{}{ellipsis}", first.join(" ")))
}
