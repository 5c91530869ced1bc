//! `rollstore restore`: a checkpoint's state, in a fresh directory or in place of a store's.

use rollstore::RolloutStore;

use super::contents;
use crate::args::RestoreArgs;
use crate::exit::{Failure, Outcome, Verdict};
use crate::objects;
use crate::output::Output;
use crate::text;

pub(crate) fn run(args: &RestoreArgs, out: &mut Output) -> Outcome<Verdict> {
    match objects::url(&args.checkpoint) {
        Some(url) => objects::restore(args, url)?,
        None if args.number.is_some() => {
            return Err(Failure::could_not_look(
                "--number is for checkpoints under a URL; a directory is one checkpoint",
            ));
        }
        None => RolloutStore::restore(&args.checkpoint, &args.dir)?,
    }
    let store = RolloutStore::options().read_only(true).open(&args.dir)?;
    out.line(out.bold(&format!(" {}", text::path(&args.dir))))?;
    out.line(format_args!(" restored   {}", contents(&store)))?;
    out.line(" fresh      what was fresh at the checkpoint, and nothing that came after it")?;
    Ok(Verdict::Sound)
}
