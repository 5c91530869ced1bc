//! `rollstore rewind`: back to an older step, without a checkpoint of the store.

use rollstore::Rewind;

use super::{contents, open};
use crate::args::RewindArgs;
use crate::exit::{Outcome, Verdict};
use crate::output::Output;
use crate::text;

pub(crate) fn run(args: &RewindArgs, out: &mut Output) -> Outcome<Verdict> {
    let store = open(&args.store)?;
    let before = store.len();
    let version = store.rewind(args.step, if args.drop { Rewind::Drop } else { Rewind::Keep })?;
    let dropped = text::counted(u64::try_from(before - store.len()).unwrap_or(u64::MAX), "rollout");
    let contents = contents(&store);
    store.close()?;
    out.line(out.bold(&format!(" {}", text::path(&args.store))))?;
    out.line(format_args!(" rewound    {contents}"))?;
    out.line(format_args!(" dropped    {dropped} created after step {}", args.step))?;
    out.line(format_args!(
        " version    {version}, which no old log-probs have: all are computed again before they are served"
    ))?;
    Ok(Verdict::Sound)
}
