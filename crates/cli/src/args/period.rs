//! How often something is done: `2s`, `500ms`, `1m`.
//!
//! May touch nothing.

use std::str::FromStr;
use std::time::Duration;

/// A length of time that was given with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period(pub Duration);

/// The shortest that is taken: a shorter one would keep a processor busy with looking.
const SHORTEST: Duration = Duration::from_millis(50);
/// The longest: a day.
const LONGEST: Duration = Duration::from_hours(24);

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unit_at = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_at);
        let none = || format!("{text:?} is no length of time; give a whole number with its unit: 500ms, 2s, 1m");
        let number: u64 = number.parse().map_err(|_| none())?;
        let milliseconds = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            _ => return Err(none()),
        };
        let period = Duration::from_millis(number.saturating_mul(milliseconds));
        if !(SHORTEST..=LONGEST).contains(&period) {
            return Err(format!("{text} is out of range; give 50ms to 1440m"));
        }
        Ok(Self(period))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_has_a_number_and_a_unit() {
        for (text, milliseconds) in [("500ms", 500), ("2s", 2_000), ("1m", 60_000)] {
            assert_eq!(text.parse(), Ok(Period(Duration::from_millis(milliseconds))), "{text}");
        }
    }

    #[test]
    fn what_is_no_period_says_what_one_is() {
        for text in ["2", "s", "", "1.5s", "-1s", "2 s", "2h", "99999999999999999999s"] {
            assert!(text.parse::<Period>().unwrap_err().contains("500ms, 2s, 1m"), "{text}");
        }
        for text in ["0s", "49ms", "1441m", "18446744073709551615s"] {
            assert!(text.parse::<Period>().unwrap_err().contains("50ms to 1440m"), "{text}");
        }
    }
}
