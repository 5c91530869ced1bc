//! `rollstore checkpoint`: a store as of now, in a directory of its own.

use rollstore::Checkpointed;

use super::{contents, open};
use crate::args::CheckpointArgs;
use crate::exit::{Outcome, Verdict};
use crate::output::Output;
use crate::text;

pub(crate) fn run(args: &CheckpointArgs, out: &mut Output) -> Outcome<Verdict> {
    let store = open(&args.store)?;
    let made = match store.checkpoint(&args.dir)? {
        Checkpointed::Linked => "hard links: no data was copied".to_owned(),
        Checkpointed::Copied { bytes } => format!("{} copied, since the file system cannot link", text::bytes(bytes)),
    };
    let contents = contents(&store);
    store.close()?;
    out.line(out.bold(&format!(" {}", text::path(&args.dir))))?;
    out.line(format_args!(" saved      {contents}"))?;
    out.line(format_args!(" made by    {made}"))?;
    Ok(Verdict::Sound)
}
