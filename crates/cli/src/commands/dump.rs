//! `rollstore dump`: rollouts with all their columns, as JSON Lines or in a file of another format.

use super::chosen::chosen;
use super::{Step, open};
use crate::args::{DumpArgs, DumpFormat};
use crate::exit::{Failure, Outcome, Verdict, note};
use crate::formats::{Dumped, Source, write_file, write_lines};
use crate::output::{self, Output};
use crate::text;

pub(crate) fn run(args: &DumpArgs, out: &mut Output) -> Outcome<Verdict> {
    let format = format(args)?;
    let store = open(&args.store, args.at.window)?;
    let at = Step::of(&store, args.at.step)?;
    let ids = chosen(&store, &args.filter, at.step);
    let source = Source::new(&store, ids, args.columns.as_deref());
    let dumped = match &args.output {
        None => write_lines(&source, out.writer(), &output::failure)?,
        Some(path) => {
            let dumped = write_file(&source, format, args.compression, path)?;
            let Dumped { rows, damaged, crc32 } = dumped;
            let left_out = if damaged > 0 { format!(", {damaged} left out as damaged") } else { String::new() };
            out.line(out.bold(&format!(" {}", text::path(path))))?;
            out.line(format_args!(" dumped     {}{left_out}", text::counted(rows, "rollout")))?;
            out.line(format_args!(" checksum   {crc32:#010x}"))?;
            dumped
        }
    };
    for name in source.unmet() {
        note(&format!("no rollout of these has a column \"{}\"", text::escape(name)));
    }
    Ok(if dumped.damaged > 0 { Verdict::Damaged } else { Verdict::Sound })
}

/// The format that was asked for, or that the file's ending names. A binary one needs a file.
fn format(args: &DumpArgs) -> Outcome<DumpFormat> {
    let Some(path) = &args.output else {
        return match args.format {
            None | Some(DumpFormat::Jsonl) => Ok(DumpFormat::Jsonl),
            Some(_) => Err(Failure::could_not_look("this format is no stream of lines; name a file with -o FILE")),
        };
    };
    let guessed = args.format.or_else(|| DumpFormat::of_ending(path));
    guessed.ok_or_else(|| {
        Failure::could_not_look(format!(
            "{} has no ending that tells a format; name one with --format jsonl, parquet or safetensors",
            text::path(path)
        ))
    })
}
