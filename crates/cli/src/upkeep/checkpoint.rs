//! `rollstore checkpoint`: a store as of now, in a directory of its own or in object storage.

use rollstore::Checkpointed;

use super::{contents, open};
use crate::args::CheckpointArgs;
use crate::exit::{Failure, Outcome, Verdict};
use crate::objects;
use crate::output::Output;
use crate::text;

pub(crate) fn run(args: &CheckpointArgs, out: &mut Output) -> Outcome<Verdict> {
    if let Some(url) = objects::url(&args.dir) {
        return objects::checkpoint(args, url, out);
    }
    if args.keep.is_some() {
        return Err(Failure::could_not_look("--keep is for checkpoints under a URL; a directory is one checkpoint"));
    }
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
