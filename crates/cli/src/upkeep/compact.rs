//! `rollstore compact`: gives back the space of rollouts that ended.

use rollstore::CompactBudget;

use super::{contents, open};
use crate::args::CompactArgs;
use crate::exit::{Outcome, Verdict};
use crate::output::Output;
use crate::text;

pub(crate) fn run(args: &CompactArgs, out: &mut Output) -> Outcome<Verdict> {
    let store = open(&args.store)?;
    let done = store.compact(CompactBudget::all())?;
    let (contents, log_bytes) = (contents(&store), store.stats()?.log_bytes);
    store.close()?;
    out.line(out.bold(&format!(" {}", text::path(&args.store))))?;
    let dropped = text::counted(done.segments_dropped, "segment");
    out.line(format_args!(" dropped    {} in {dropped}", text::bytes(done.freed_bytes)))?;
    out.line(format_args!(" copied     {} that are alive", text::bytes(done.copied_bytes)))?;
    out.line(format_args!(" left       {}, {contents}", text::bytes(log_bytes)))?;
    Ok(Verdict::Sound)
}
