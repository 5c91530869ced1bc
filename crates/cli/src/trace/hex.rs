//! Log-probs in a trace: hex digits of little-endian f32, eight a value.
//!
//! May touch nothing. Knows nothing of events or lines.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// Hex digits of one value.
const DIGITS: usize = 8;

/// Log-probs as a trace holds them, one a completion token.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Logps(pub Vec<f32>);

impl<'de> Deserialize<'de> for Logps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(HexVisitor)
    }
}

struct HexVisitor;

impl Visitor<'_> for HexVisitor {
    type Value = Logps;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string of hex digits, eight for each little-endian f32")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Logps, E> {
        decode(text.as_bytes()).map(Logps).map_err(E::custom)
    }
}

fn decode(text: &[u8]) -> Result<Vec<f32>, String> {
    let (values, rest) = text.as_chunks::<DIGITS>();
    if !rest.is_empty() {
        return Err(format!("{} hex digits are not a whole number of f32 (eight digits each)", text.len()));
    }
    let decoded = values.iter().enumerate().map(|(index, digits)| {
        decode_one(*digits).ok_or_else(|| {
            format!("value {index} is \"{}\", which is not eight hex digits", String::from_utf8_lossy(digits))
        })
    });
    decoded.collect()
}

fn decode_one(digits: [u8; DIGITS]) -> Option<f32> {
    let mut bits = 0_u32;
    for digit in digits {
        bits = (bits << 4) | char::from(digit).to_digit(16)?;
    }
    // The digits give the bytes in the order in which they lie in memory, lowest first.
    Some(f32::from_bits(bits.swap_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_little_endian_bytes_and_keep_every_bit() {
        let values = decode(b"0000803f0000C0FF010000000000008030f948bf").unwrap();
        let bits: Vec<u32> = values.iter().map(|value| value.to_bits()).collect();
        assert_eq!(bits, [1.0_f32.to_bits(), 0xffc0_0000, 1, 0x8000_0000, 0xbf48_f930]);
        assert!(decode(b"").unwrap().is_empty());
    }

    #[test]
    fn a_cut_value_and_a_wrong_digit_are_named() {
        assert_eq!(
            decode(b"0000803f00").unwrap_err(),
            "10 hex digits are not a whole number of f32 (eight digits each)"
        );
        let error = decode(b"0000803f+000803f").unwrap_err();
        assert_eq!(error, "value 1 is \"+000803f\", which is not eight hex digits");
    }
}
