//! Text for people: escaped, grouped, with units.
//!
//! May touch nothing. Knows nothing of stores or traces.
//!
//! Always true:
//! - T1. What [`escape`] returns holds no control character and none that changes the direction of text.
//! - T2. Escaping twice gives the same as escaping once.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;

/// The text with every character that could steer a terminal written as `\n`, `\t`, `\r` or `\u{1b}`.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    push_escaped(&mut escaped, text);
    escaped
}

/// As [`escape`], for bytes that may not be UTF-8: other bytes are written as `\xff`.
pub(crate) fn escape_bytes(bytes: &[u8]) -> String {
    let mut escaped = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        push_escaped(&mut escaped, chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(escaped, "\\x{byte:02x}");
        }
    }
    escaped
}

/// A path, escaped.
pub(crate) fn path(path: &Path) -> String {
    os(path.as_os_str())
}

/// Text from the operating system, escaped.
pub(crate) fn os(text: &OsStr) -> String {
    escape_bytes(text.as_encoded_bytes())
}

/// The text, cut after `chars_max` characters with an ellipsis in place of the rest.
pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// A count with its thousands grouped: `1,184`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A bound in steps or versions; the greatest number means that there is none.
pub(crate) fn bound(number: u64) -> String {
    if number == u64::MAX { "unbounded".to_owned() } else { number.to_string() }
}

/// `1 checkpoint`, `2 checkpoints`: a count with its noun, whose plural takes an s.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// A size in IEC units with one decimal: `1.5 KiB`.
pub(crate) fn bytes(size_bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut scale: u128 = 1024;
    for unit in UNITS {
        // Tenths, rounded to the nearest: integers alone, so that no size is shown as 1024.0 of a unit.
        let tenths = (u128::from(size_bytes) * 10 + scale / 2) / scale;
        if size_bytes >= 1024 && tenths < 10_240 {
            return format!("{}.{} {unit}", tenths / 10, tenths % 10);
        }
        scale *= 1024;
    }
    format!("{size_bytes} B")
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

/// The bytes of hexadecimal digits; `None` where they are none.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    rest.is_empty().then(|| bytes.collect()).flatten()
}

fn push_escaped(escaped: &mut String, text: &str) {
    for character in text.chars() {
        if steers_a_terminal(character) {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
}

/// Whether a terminal may act on the character: C0, DEL and C1 controls, line separators, and the marks that turn the
/// direction of text.
fn steers_a_terminal(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_direction_characters_are_escaped() {
        let hostile = "\u{1b}]0;title\u{7}\u{1b}[2J\n\t\0\u{9b}\u{202e}abc";
        assert_eq!(escape(hostile), r"\u{1b}]0;title\u{7}\u{1b}[2J\n\t\u{0}\u{9b}\u{202e}abc");
    }

    #[test]
    fn wide_characters_and_joined_emoji_stay() {
        let kept = "日本語 👩\u{200d}👩\u{200d}👧 é \\ \"";
        assert_eq!(escape(kept), kept);
    }

    #[test]
    fn escaping_twice_is_escaping_once() {
        let once = escape_bytes(b"\x1b[31m\xff\\n\n");
        assert_eq!(once, r"\u{1b}[31m\xff\n\n");
        assert_eq!(escape(&once), once);
    }

    #[test]
    fn cutting_never_splits_a_character() {
        assert_eq!(cut("日本語", 2), "日本…");
        assert_eq!(cut("日本語", 3), "日本語");
        assert_eq!(cut("", 0), "");
    }

    #[test]
    fn counts_are_grouped_in_threes() {
        let cases = [(0, "0"), (999, "999"), (1_000, "1,000"), (u64::MAX, "18,446,744,073,709,551,615")];
        for (number, text) in cases {
            assert_eq!(count(number), text);
        }
        assert_eq!(counted(1, "crash"), "1 crash");
        assert_eq!(counted(0, "kill"), "0 kills");
    }

    #[test]
    fn sizes_carry_iec_units_and_round_to_the_next_one() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (size_bytes, text) in cases {
            assert_eq!(bytes(size_bytes), text);
        }
    }
}
