//! How much may be computed at once.

use std::time::Duration;

/// A limit on one call's recompute: the spike is spread over calls.
///
/// No limit is exceeded, except by the first rollout: it is always handed out unless the limit is 0, so that a huge one
/// cannot starve. A plan ends before the first rollout that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    pub(crate) rollouts: u64,
    pub(crate) tokens: u64,
    pub(crate) time: Option<Duration>,
}

impl Budget {
    /// At most so many rollouts.
    #[must_use]
    pub const fn rollouts(rollouts: u64) -> Self {
        Self { rollouts, ..Self::unlimited() }
    }

    /// At most so many tokens, prompt and completion: what a forward pass costs.
    #[must_use]
    pub const fn tokens(tokens: u64) -> Self {
        Self { tokens, ..Self::unlimited() }
    }

    /// At most so much time, checked between micro-batches by a monotonic clock.
    #[must_use]
    pub const fn time(time: Duration) -> Self {
        Self { time: Some(time), ..Self::unlimited() }
    }

    /// No limit.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self { rollouts: u64::MAX, tokens: u64::MAX, time: None }
    }

    /// How many of the rollouts with these token counts fit, in order.
    pub(crate) fn fitting(&self, token_counts: impl IntoIterator<Item = u32>) -> usize {
        if self.rollouts == 0 || self.tokens == 0 || self.time == Some(Duration::ZERO) {
            return 0;
        }
        let (mut count, mut tokens) = (0, 0_u64);
        for token_count in token_counts {
            tokens = tokens.saturating_add(u64::from(token_count));
            if count > 0 && (tokens > self.tokens || count as u64 >= self.rollouts) {
                break;
            }
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rollout_is_handed_out_however_large() {
        assert_eq!(Budget::tokens(10).fitting([1_000, 1]), 1);
    }

    #[test]
    fn a_budget_of_zero_hands_out_nothing() {
        for budget in [Budget::tokens(0), Budget::rollouts(0), Budget::time(Duration::ZERO)] {
            assert_eq!(budget.fitting([1, 1]), 0, "{budget:?}");
        }
    }

    #[test]
    fn a_plan_ends_before_the_first_that_does_not_fit() {
        assert_eq!(Budget::tokens(10).fitting([4, 6, 1]), 2);
        assert_eq!(Budget::tokens(10).fitting([4, 7, 1]), 1, "a later one that fits is not taken out of order");
        assert_eq!(Budget::rollouts(2).fitting([1, 1, 1]), 2);
        assert_eq!(Budget::unlimited().fitting([1; 5]), 5);
    }
}
