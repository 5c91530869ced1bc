//! The progress bar: on standard error, and only where that is a terminal.
//!
//! May touch standard error. Knows nothing of what is measured.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar that is gone when it is dropped.
#[derive(Debug)]
pub(super) struct Meter(ProgressBar);

impl Meter {
    pub(super) fn new(length: u64) -> Self {
        // A bar that draws to standard error hides itself where that is no terminal.
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{msg} {bar:40} {percent:>3} %  {elapsed}") {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.set_message("replay");
        Self(bar)
    }

    pub(super) fn set(&mut self, position: u64) {
        self.0.set_position(position);
    }

    /// Says how often the child was killed so far.
    pub(super) fn set_kills(&mut self, kills: u32) {
        self.0.set_message(format!("replay, killed {kills}x"));
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
