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

    /// Both limits: whichever is reached first.
    ///
    /// # How do I bound both work and time?
    /// ```
    /// use std::time::Duration;
    /// use rollstore::Budget;
    /// let budget = Budget::tokens(1 << 20).and(Budget::time(Duration::from_secs(2)));
    /// assert_eq!(budget.and(Budget::tokens(1 << 10)), budget.and(Budget::tokens(1 << 10)).and(budget), "the smaller one counts");
    /// ```
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            rollouts: self.rollouts.min(other.rollouts),
            tokens: self.tokens.min(other.tokens),
            time: self.time.into_iter().chain(other.time).min(),
        }
    }

    /// How many of the rollouts with these token counts fit, in order.
    pub(crate) fn fitting(self, token_counts: impl IntoIterator<Item = u32>) -> usize {
        let mut meter = Meter::new(self);
        token_counts.into_iter().take_while(|token_count| meter.take(*token_count)).count()
    }
}

/// What of a budget was spent: rollouts and tokens that were handed out.
#[derive(Debug)]
pub(crate) struct Meter {
    budget: Budget,
    rollouts: u64,
    tokens: u64,
}

impl Meter {
    /// Nothing was spent yet.
    pub(crate) fn new(budget: Budget) -> Self {
        Self { budget, rollouts: 0, tokens: 0 }
    }

    /// Whether nothing may be handed out at all.
    pub(crate) fn is_nothing(&self) -> bool {
        let Budget { rollouts, tokens, time } = self.budget;
        rollouts == 0 || tokens == 0 || time == Some(Duration::ZERO)
    }

    /// Hands out a rollout of so many tokens, if it fits or is the first.
    pub(crate) fn take(&mut self, token_count: u32) -> bool {
        let tokens = self.tokens.saturating_add(u64::from(token_count));
        let fits = tokens <= self.budget.tokens && self.rollouts < self.budget.rollouts;
        let taken = !self.is_nothing() && (fits || self.rollouts == 0);
        if taken {
            (self.rollouts, self.tokens) = (self.rollouts + 1, tokens);
        }
        taken
    }

    /// Takes back a rollout that could not be handed out after all.
    pub(crate) fn give_back(&mut self, token_count: u32) {
        self.rollouts = self.rollouts.saturating_sub(1);
        self.tokens = self.tokens.saturating_sub(u64::from(token_count));
    }

    /// How many rollouts may be handed out at most from here on.
    pub(crate) fn rollouts_left(&self) -> u64 {
        self.budget.rollouts.saturating_sub(self.rollouts)
    }

    /// Whether so much time since the beginning is too much.
    pub(crate) fn is_over(&self, elapsed: Duration) -> bool {
        self.budget.time.is_some_and(|time| elapsed >= time)
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

    #[test]
    fn of_several_limits_the_one_reached_first_counts() {
        let both = Budget::rollouts(3).and(Budget::tokens(10));
        assert_eq!(both.fitting([1; 9]), 3, "rollouts");
        assert_eq!(both.fitting([6; 9]), 1, "tokens");
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(2));
        assert_eq!(Budget::time(long).and(both).and(Budget::time(short)), both.and(Budget::time(short)));
        assert_eq!(both.and(Budget::unlimited()), both);
    }
}
