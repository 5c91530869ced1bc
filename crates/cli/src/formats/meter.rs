//! How far a dump or a load has come, on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar with rate and time left; nothing where standard error is no terminal.
#[derive(Debug)]
pub(crate) struct Meter(ProgressBar);

impl Meter {
    /// A bar for `rows` rollouts, of which this is done.
    pub(crate) fn new(doing: &'static str, rows: u64) -> Self {
        Self::of(doing, rows, "{msg:8} {wide_bar} {human_pos}/{human_len} rollouts, {per_sec}, {eta} left")
    }

    /// A bar for bytes.
    pub(crate) fn of_bytes(doing: &'static str, bytes: u64) -> Self {
        Self::of(
            doing,
            bytes,
            "{msg:8} {wide_bar} {binary_bytes}/{binary_total_bytes}, {binary_bytes_per_sec}, {eta} left",
        )
    }

    fn of(doing: &'static str, total: u64, template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar.set_message(doing);
        Self(bar)
    }

    pub(crate) fn set(&self, position: u64) {
        self.0.set_position(position);
    }

    /// Something is told beside the bar, or it has done its work.
    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.clear();
    }
}
