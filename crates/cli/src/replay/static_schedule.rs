//! The static schedule to compare with: `if step % N == 0: recompute all`.
//!
//! May touch the totals. Knows nothing of windows and staleness: that is its trouble.

use super::progress::Totals;

/// What is live when the schedule looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Live {
    pub(super) rows: u64,
    pub(super) tokens: u64,
}

/// Whether the schedule recomputes everything when the policy reaches version `v`.
pub(super) fn is_due(v: u64, every: u64) -> bool {
    v.is_multiple_of(every)
}

/// Counts what one recompute of everything costs.
pub(super) fn recompute_all(totals: &mut Totals, live: Live) {
    totals.static_modulo_rows += live.rows;
    totals.static_modulo_tokens += live.tokens;
    totals.static_modulo_peak_rows = totals.static_modulo_peak_rows.max(live.rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_live_is_computed_whenever_the_version_divides() {
        let mut totals = Totals::default();
        for (v, rows) in [(1, 5), (2, 9), (3, 7), (4, 8), (6, 2)] {
            if is_due(v, 3) {
                recompute_all(&mut totals, Live { rows, tokens: rows * 100 });
            }
        }
        assert_eq!((totals.static_modulo_rows, totals.static_modulo_tokens), (9, 900));
        assert_eq!(totals.static_modulo_peak_rows, 7);
    }
}
