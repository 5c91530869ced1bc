//! The values of a column, as JSON and as text.
//!
//! May touch nothing. Knows nothing of rollouts.
//!
//! Always true:
//! - V1. A finite f32 is written with the fewest digits that give the same f32 back; f16 and bf16 as the f32 that they
//!   equal.
//! - V2. NaN, Infinity and -Infinity are strings of that name in JSON, which has no numbers for them.
//! - V3. A NaN with other bits than the usual ones has them behind its name, as C writes them: `NaN(0x7fc00001)`. Bits of f16
//!   and bf16 are their own sixteen.

use std::borrow::Cow;

use half::{bf16, f16};
use rollstore::ColumnView;
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, SerializeSeq, Serializer};

/// A column's values as a JSON array.
#[derive(Debug)]
pub(crate) struct Values<'a>(pub(crate) ColumnView<'a>);

/// One f32 as JSON.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Float(pub(crate) f32);

impl Serialize for Float {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match name_of(self.0) {
            Some(name) => serializer.serialize_str(&name),
            None => serializer.serialize_f32(self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<serde_json::value::RawValue>::deserialize(deserializer)?;
        let value = float_of(raw.get());
        value.map(Self).ok_or_else(|| D::Error::custom(format_args!("{} is no float", raw.get())))
    }
}

/// A value of two bytes as JSON: the f32 that it equals, or a NaN by its own bits.
struct Narrow {
    value: f32,
    bits: u16,
    usual_nan: u16,
}

impl Narrow {
    fn new((value, bits, usual_nan): (f32, u16, u16)) -> Self {
        Self { value, bits, usual_nan }
    }
}

impl Serialize for Narrow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value.is_nan() && self.bits != self.usual_nan {
            true => serializer.serialize_str(&nan(self.bits.into())),
            // Widening keeps the bits of a NaN: the usual one of either type is told apart from no other.
            false if self.value.is_nan() => serializer.serialize_str("NaN"),
            false => Float(self.value).serialize(serializer),
        }
    }
}

/// The f32 that a piece of JSON stands for; `None` where it is none.
pub(crate) fn float_of(json: &str) -> Option<f32> {
    match json {
        "\"NaN\"" => Some(f32::NAN),
        "\"Infinity\"" => Some(f32::INFINITY),
        "\"-Infinity\"" => Some(f32::NEG_INFINITY),
        // Parsed as f32, and not as the f64 that is nearest: rounding twice may give a neighbour.
        _ if json.starts_with(|first: char| first == '-' || first.is_ascii_digit()) => json.parse().ok(),
        _ => nan_bits(json).map(f32::from_bits).filter(|value| value.is_nan()),
    }
}

/// The bits in a piece of JSON that is a NaN with bits.
pub(crate) fn nan_bits(json: &str) -> Option<u32> {
    let digits = json.strip_prefix("\"NaN(0x")?.strip_suffix(")\"")?;
    u32::from_str_radix(digits, 16).ok()
}

fn nan(bits: u32) -> String {
    format!("NaN({bits:#x})")
}

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            ColumnView::F32(values) => sequence(serializer, values.iter().map(|value| Float(*value))),
            ColumnView::F16(values) => {
                let narrow = |value: &f16| (value.to_f32(), value.to_bits(), f16::NAN.to_bits());
                sequence(serializer, values.iter().map(narrow).map(Narrow::new))
            }
            ColumnView::Bf16(values) => {
                let narrow = |value: &bf16| (value.to_f32(), value.to_bits(), bf16::NAN.to_bits());
                sequence(serializer, values.iter().map(narrow).map(Narrow::new))
            }
            ColumnView::I32(values) => sequence(serializer, values.iter()),
            ColumnView::I64(values) => sequence(serializer, values.iter()),
            ColumnView::U32(values) => sequence(serializer, values.iter()),
            ColumnView::U8(values) => sequence(serializer, values.iter()),
        }
    }
}

/// Calls `line` with the text of each value.
pub(crate) fn each<E>(values: &ColumnView<'_>, mut line: impl FnMut(String) -> Result<(), E>) -> Result<(), E> {
    match *values {
        ColumnView::F32(values) => values.iter().try_for_each(|value| line(float(*value))),
        ColumnView::F16(values) => values.iter().try_for_each(|value| line(float(value.to_f32()))),
        ColumnView::Bf16(values) => values.iter().try_for_each(|value| line(float(value.to_f32()))),
        ColumnView::I32(values) => values.iter().try_for_each(|value| line(value.to_string())),
        ColumnView::I64(values) => values.iter().try_for_each(|value| line(value.to_string())),
        ColumnView::U32(values) => values.iter().try_for_each(|value| line(value.to_string())),
        ColumnView::U8(values) => values.iter().try_for_each(|value| line(value.to_string())),
    }
}

/// One f32 as text for people, who have no use for the bits of a NaN.
pub(crate) fn float(value: f32) -> String {
    let value = if value.is_nan() { f32::NAN } else { value };
    name_of(value).map_or_else(|| format!("{value:?}"), Cow::into_owned)
}

fn name_of(value: f32) -> Option<Cow<'static, str>> {
    match value {
        _ if value.is_nan() && value.to_bits() != f32::NAN.to_bits() => Some(nan(value.to_bits()).into()),
        _ if value.is_nan() => Some("NaN".into()),
        f32::INFINITY => Some("Infinity".into()),
        f32::NEG_INFINITY => Some("-Infinity".into()),
        _ => None,
    }
}

fn sequence<S: Serializer>(
    serializer: S,
    values: impl ExactSizeIterator<Item = impl Serialize>,
) -> Result<S::Ok, S::Error> {
    let mut sequence = serializer.serialize_seq(Some(values.len()))?;
    for value in values {
        sequence.serialize_element(&value)?;
    }
    sequence.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f32_comes_back_from_its_json_bit_for_bit() {
        let values = [-0.0, 1e-45, 0.1, -17.000_002, f32::MAX, f32::MIN_POSITIVE, 1.0, -1e-8];
        let json = serde_json::to_string(&Values(ColumnView::F32(&values))).unwrap();
        let read: Vec<f32> = serde_json::from_str(&json).unwrap();
        assert!(values.iter().zip(&read).all(|(a, b)| a.to_bits() == b.to_bits()), "{json}");
        for value in values {
            assert_eq!(float(value).parse::<f32>().unwrap().to_bits(), value.to_bits());
        }
        assert!(json.starts_with("[-0.0,1e-45,0.1,-17.000002,"), "{json}");
    }

    #[test]
    fn what_is_no_number_is_a_string() {
        let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        let json = serde_json::to_string(&Values(ColumnView::F32(&values))).unwrap();
        assert_eq!(json, r#"["NaN","Infinity","-Infinity"]"#);
        assert_eq!(values.map(float), ["NaN", "Infinity", "-Infinity"]);
    }

    #[test]
    fn every_nan_comes_back_with_its_bits() {
        let bits = [0x7fc0_0000, 0x7fc0_0001, 0xffc0_0000, 0x7f80_0001];
        let json = serde_json::to_string(&Values(ColumnView::F32(&bits.map(f32::from_bits)))).unwrap();
        assert_eq!(json, r#"["NaN","NaN(0x7fc00001)","NaN(0xffc00000)","NaN(0x7f800001)"]"#);
        let read: Vec<Float> = serde_json::from_str(&json).unwrap();
        assert!(read.iter().zip(bits).all(|(value, bits)| value.0.to_bits() == bits), "{read:?}");
        let narrow = [0x7e00, 0x7e01, 0xfe00].map(f16::from_bits);
        let json = serde_json::to_string(&Values(ColumnView::F16(&narrow))).unwrap();
        assert_eq!(json, r#"["NaN","NaN(0x7e01)","NaN(0xfe00)"]"#);
    }

    #[test]
    fn what_stands_for_no_float_is_none() {
        for json in ["\"nan\"", "nan", "inf", "null", "true", "\"NaN(0x0)\"", "\"NaN(0x)\"", "\"1\"", ""] {
            assert_eq!(float_of(json), None, "{json}");
        }
    }

    #[test]
    fn whole_numbers_keep_all_their_bits() {
        let json = serde_json::to_string(&Values(ColumnView::I64(&[i64::MIN, i64::MAX]))).unwrap();
        assert_eq!(json, "[-9223372036854775808,9223372036854775807]");
        let json = serde_json::to_string(&Values(ColumnView::U32(&[65_535, 65_536, u32::MAX]))).unwrap();
        assert_eq!(json, "[65535,65536,4294967295]");
    }
}
