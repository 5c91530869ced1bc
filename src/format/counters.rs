//! What a store counts over the life of its lineage.
//!
//! May touch nothing.

/// Number of reasons for the end of a rollout's life that are counted apart.
pub(crate) const REASONS: usize = 8;

/// Counters of rollouts, each of which only grows until a restore takes it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counters {
    /// Logps asked for: ids given to a plan, a gather or `get_or_compute`.
    pub(crate) asked: u64,
    /// Of those, served without a computation.
    pub(crate) served: u64,
    /// Results that were committed.
    pub(crate) computed: u64,
    /// Results that came too late and were dropped.
    pub(crate) dropped: u64,
    pub(crate) inserted: u64,
    /// Retired before anyone asked for them.
    pub(crate) retired_unused: u64,
    /// Retired, by the number of the reason.
    pub(crate) retired: [u64; REASONS],
}

impl Counters {
    /// The counters in the order of the format.
    pub(crate) fn to_values(self) -> Vec<u64> {
        let Self { asked, served, computed, dropped, inserted, retired_unused, retired } = self;
        let mut values = vec![asked, served, computed, dropped, inserted, retired_unused];
        values.extend(retired);
        values
    }

    /// The counters, from the order of the format. More values than these are a newer writer's and are passed over;
    /// `None` where there are fewer.
    pub(crate) fn from_values(values: impl IntoIterator<Item = u64>) -> Option<Self> {
        let mut values = values.into_iter();
        let mut counters = Self {
            asked: values.next()?,
            served: values.next()?,
            computed: values.next()?,
            dropped: values.next()?,
            inserted: values.next()?,
            retired_unused: values.next()?,
            retired: [0; REASONS],
        };
        for retired in &mut counters.retired {
            *retired = values.next()?;
        }
        Some(counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each_different() -> Counters {
        Counters {
            asked: 1,
            served: 2,
            computed: 3,
            dropped: 4,
            inserted: 5,
            retired_unused: 6,
            retired: [7, 8, 9, 10, 11, 12, 13, 14],
        }
    }

    #[test]
    fn the_order_of_the_format_is_fixed() {
        assert_eq!(each_different().to_values(), (1..=14).collect::<Vec<_>>());
        assert_eq!(Counters::from_values(1..=14), Some(each_different()));
    }

    #[test]
    fn counters_of_a_newer_writer_are_passed_over_and_missing_ones_refused() {
        assert_eq!(Counters::from_values(1..=20), Some(each_different()));
        assert_eq!(Counters::from_values(1..=13), None);
    }
}
