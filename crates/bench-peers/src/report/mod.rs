//! What was measured, as medians, bars, tables and plots.
//!
//! May touch results and the files that are asked for. Knows nothing of how anything is measured.

mod bars;
mod docs;
mod html;
mod machine;
mod metrics;
mod plots;
mod results;
mod svg;
mod tables;
mod text;

pub(crate) use docs::docs;
pub(crate) use html::html;
pub(crate) use machine::Machine;
pub(crate) use results::{Results, Run};
pub(crate) use text::text;

use crate::outcome::Outcome;

/// Prints to standard output; a reader that is gone is no error.
pub(crate) fn print(text: &str) -> Outcome {
    use std::io::{ErrorKind, Write};
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
