//! The values of a column, as JSON and as text.
//!
//! May touch nothing. Knows nothing of rollouts.
//!
//! Always true:
//! - V1. A finite f32 is written with the fewest digits that give the same f32 back; f16 and bf16 as the f32 that they
//!   equal.
//! - V2. NaN, Infinity and -Infinity are strings of that name in JSON, which has no numbers for them.

use rollstore::ColumnView;
use serde::ser::{Serialize, SerializeSeq, Serializer};

/// A column's values as a JSON array.
#[derive(Debug)]
pub(super) struct Values<'a>(pub(super) ColumnView<'a>);

/// One f32 as JSON.
#[derive(Debug, Clone, Copy)]
pub(super) struct Float(pub(super) f32);

impl Serialize for Float {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match name_of(self.0) {
            Some(name) => serializer.serialize_str(name),
            None => serializer.serialize_f32(self.0),
        }
    }
}

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            ColumnView::F32(values) => sequence(serializer, values.iter().map(|value| Float(*value))),
            ColumnView::F16(values) => sequence(serializer, values.iter().map(|value| Float(value.to_f32()))),
            ColumnView::Bf16(values) => sequence(serializer, values.iter().map(|value| Float(value.to_f32()))),
            ColumnView::I32(values) => sequence(serializer, values.iter()),
            ColumnView::I64(values) => sequence(serializer, values.iter()),
            ColumnView::U32(values) => sequence(serializer, values.iter()),
            ColumnView::U8(values) => sequence(serializer, values.iter()),
        }
    }
}

/// Calls `line` with the text of each value.
pub(super) fn each<E>(values: &ColumnView<'_>, mut line: impl FnMut(String) -> Result<(), E>) -> Result<(), E> {
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

/// One f32 as text.
pub(super) fn float(value: f32) -> String {
    name_of(value).map_or_else(|| format!("{value:?}"), str::to_owned)
}

fn name_of(value: f32) -> Option<&'static str> {
    match value {
        _ if value.is_nan() => Some("NaN"),
        f32::INFINITY => Some("Infinity"),
        f32::NEG_INFINITY => Some("-Infinity"),
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
    fn whole_numbers_keep_all_their_bits() {
        let json = serde_json::to_string(&Values(ColumnView::I64(&[i64::MIN, i64::MAX]))).unwrap();
        assert_eq!(json, "[-9223372036854775808,9223372036854775807]");
        let json = serde_json::to_string(&Values(ColumnView::U32(&[65_535, 65_536, u32::MAX]))).unwrap();
        assert_eq!(json, "[65535,65536,4294967295]");
    }
}
