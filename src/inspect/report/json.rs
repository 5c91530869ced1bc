//! Numbers of a report that JSON would lose.
//!
//! Always true:
//! - J1. NaN and the infinities, which JSON has no numbers for, are strings of that name.
//! - J2. Ids are strings: many readers keep 53 bits of a number.

use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};

use crate::ids::RolloutId;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
pub(super) fn as_text<S: Serializer>(id: &RolloutId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
pub(super) fn float<S: Serializer>(value: &f32, serializer: S) -> Result<S::Ok, S::Error> {
    Float(*value).serialize(serializer)
}

pub(super) fn floats<S: Serializer>(values: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
    let mut sequence = serializer.serialize_seq(Some(values.len()))?;
    values.iter().try_for_each(|value| sequence.serialize_element(&Float(*value)))?;
    sequence.end()
}

struct Float(f32);

impl Serialize for Float {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            value if value.is_nan() => serializer.serialize_str("NaN"),
            f32::INFINITY => serializer.serialize_str("Infinity"),
            f32::NEG_INFINITY => serializer.serialize_str("-Infinity"),
            value => serializer.serialize_f32(value),
        }
    }
}
