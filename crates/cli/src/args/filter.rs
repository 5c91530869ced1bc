//! Which rollouts a command is about: the same options wherever rollouts are listed.
//!
//! May touch nothing. Knows nothing of stores.

use std::str::FromStr;

use clap::Args;

/// Which rollouts. Of the states any is enough; all else must hold.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Filter {
    /// Only rollouts more than the lag behind the reference version (of several states: any)
    #[arg(long)]
    pub stale: bool,
    /// Only rollouts whose age is above the window
    #[arg(long)]
    pub out_of_window: bool,
    /// Only rollouts without old log-probs
    #[arg(long)]
    pub missing: bool,
    /// Only rollouts of this group
    #[arg(long, value_name = "G")]
    pub group: Option<u64>,
    /// Only ids from A to B, both included; A.. and ..B are open on one side
    #[arg(long, value_name = "A..B")]
    pub id: Option<Span>,
    /// Only rollouts sampled at steps from A to B
    #[arg(long, value_name = "A..B")]
    pub created: Option<Span>,
    /// Only rollouts whose old log-probs are of versions from A to B
    #[arg(long, value_name = "A..B")]
    pub version: Option<Span>,
}

/// Numbers from one to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    first: u64,
    last: u64,
}

impl Span {
    /// Whether a number lies within.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        (self.first..=self.last).contains(&number)
    }
}

/// `A..B`, `A..`, `..B`, or one number.
impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let number = |text: &str, open: u64| match text {
            "" => Ok(open),
            _ => text.parse().map_err(|_| format!("{text:?} is no number; a range is A..B, A.. or ..B")),
        };
        if first.is_empty() && last.is_empty() {
            return Err("a range has a number on one side at least: A..B, A.. or ..B".to_owned());
        }
        let (first, last) = (number(first, 0)?, number(last, u64::MAX)?);
        if first > last {
            return Err(format!("{first} lies behind {last}; a range is A..B with A first"));
        }
        Ok(Self { first, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_within_and_either_may_be_open() {
        for (text, within, outside) in [
            ("3..5", vec![3, 4, 5], vec![2, 6]),
            ("3..", vec![3, u64::MAX], vec![2]),
            ("..5", vec![0, 5], vec![6]),
            ("7", vec![7], vec![6, 8]),
        ] {
            let span: Span = text.parse().unwrap();
            assert!(within.iter().all(|number| span.contains(*number)), "{text}");
            assert!(!outside.iter().any(|number| span.contains(*number)), "{text}");
        }
    }

    #[test]
    fn what_is_no_range_says_what_one_is() {
        for (text, told) in [
            ("..", "a number on one side"),
            ("", "a number on one side"),
            ("a..5", "\"a\" is no number"),
            ("5..3", "5 lies behind 3"),
            ("1..=2", "\"=2\" is no number"),
            ("18446744073709551616", "is no number"),
        ] {
            let error = text.parse::<Span>().unwrap_err();
            assert!(error.contains(told), "{text:?}: {error}");
        }
    }
}
