//! `rollstore restore`: a checkpoint's state, in a fresh directory or in place of a store's.

use rollstore::RolloutStore;

use super::contents;
use crate::args::RestoreArgs;
use crate::exit::{Outcome, Verdict};
use crate::output::Output;
use crate::text;

pub(crate) fn run(args: &RestoreArgs, out: &mut Output) -> Outcome<Verdict> {
    RolloutStore::restore(&args.checkpoint, &args.dir)?;
    let store = RolloutStore::options().read_only(true).open(&args.dir)?;
    out.line(out.bold(&format!(" {}", text::path(&args.dir))))?;
    out.line(format_args!(" restored   {}", contents(&store)))?;
    out.line(" fresh      what was fresh at the checkpoint, and nothing that came after it")?;
    Ok(Verdict::Sound)
}
