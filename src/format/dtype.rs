//! The element types of columns, and the only conversions between them.
//!
//! May touch bytemuck and half. Nothing is ever narrowed unless a caller asks by name.

use std::fmt;

use half::{bf16, f16};

/// The element type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum DType {
    /// IEEE 754 single precision.
    F32 = 1,
    /// IEEE 754 half precision.
    F16 = 2,
    /// The upper half of single precision ("brain float").
    Bf16 = 3,
    /// Signed, 32 bits.
    I32 = 4,
    /// Signed, 64 bits.
    I64 = 5,
    /// Unsigned, 32 bits.
    U32 = 6,
    /// Unsigned, 8 bits.
    U8 = 7,
}

impl DType {
    /// Bytes of one value.
    #[must_use]
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::I64 => 8,
        }
    }

    /// The name, as `NumPy` and `PyTorch` spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
            Self::I32 => "int32",
            Self::I64 => "int64",
            Self::U32 => "uint32",
            Self::U8 => "uint8",
        }
    }

    /// The number on disk.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::F32 => 1,
            Self::F16 => 2,
            Self::Bf16 => 3,
            Self::I32 => 4,
            Self::I64 => 5,
            Self::U32 => 6,
            Self::U8 => 7,
        }
    }

    /// The type with this number on disk.
    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::F32,
            2 => Self::F16,
            3 => Self::Bf16,
            4 => Self::I32,
            5 => Self::I64,
            6 => Self::U32,
            7 => Self::U8,
            _ => return None,
        })
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that columns are made of. Sealed: the types are those of [`DType`].
pub trait Element: bytemuck::Pod + Send + Sync + sealed::Sealed {
    /// The element type on disk.
    const DTYPE: DType;
}

mod sealed {
    /// Keeps [`super::Element`] to the types of this module.
    pub trait Sealed {}
}

macro_rules! elements {
    ($($type:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $type {}

        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
        }

        const _: () = assert!(size_of::<$type>() == DType::$dtype.size_bytes(), "a value is as long as its type says");
    )*};
}

elements! { f32 => F32, f16 => F16, bf16 => Bf16, i32 => I32, i64 => I64, u32 => U32, u8 => U8 }

/// A finite value that a narrower type can only hold as an infinity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NarrowOverflow {
    /// Position of the value in the slice.
    pub index: usize,
    /// The value.
    pub value: f32,
    /// The type that was asked for.
    pub dtype: DType,
}

impl fmt::Display for NarrowOverflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, value, dtype } = self;
        write!(f, "value {value} at index {index} is beyond the range of {dtype}; keep the column as float32")
    }
}

impl std::error::Error for NarrowOverflow {}

/// The values in half precision, each rounded to the nearest. NaN and infinities stay what they are.
///
/// # Errors
/// A finite value above 65,504 in magnitude (after rounding) is refused with its index.
pub fn narrow_f16(values: &[f32]) -> Result<Vec<f16>, NarrowOverflow> {
    narrow(values, f16::from_f32, f16::is_infinite)
}

/// The values in bfloat16, each rounded to the nearest. NaN and infinities stay what they are.
///
/// # Errors
/// A finite value that rounds to an infinity is refused with its index.
pub fn narrow_bf16(values: &[f32]) -> Result<Vec<bf16>, NarrowOverflow> {
    narrow(values, bf16::from_f32, bf16::is_infinite)
}

fn narrow<T: Element>(
    values: &[f32],
    convert: impl Fn(f32) -> T,
    is_infinite: impl Fn(T) -> bool,
) -> Result<Vec<T>, NarrowOverflow> {
    let convert_one = |(index, &value): (usize, &f32)| {
        let narrow = convert(value);
        let overflows = value.is_finite() && is_infinite(narrow);
        if overflows { Err(NarrowOverflow { index, value, dtype: T::DTYPE }) } else { Ok(narrow) }
    };
    values.iter().enumerate().map(convert_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_types_name_each_other() {
        let known: Vec<DType> = (0..=u8::MAX).filter_map(DType::from_code).collect();
        assert_eq!(known.len(), 7);
        for dtype in known {
            assert_eq!(DType::from_code(dtype.code()), Some(dtype));
        }
        assert_eq!(DType::F32.code(), 1, "codes on disk never change");
        assert_eq!(DType::U8.code(), 7, "codes on disk never change");
    }

    #[test]
    fn narrowing_keeps_what_fits_and_what_was_infinite() {
        let narrow = narrow_f16(&[-0.5, 65504.0, f32::NEG_INFINITY]).unwrap();
        assert_eq!(narrow, [f16::from_f32(-0.5), f16::MAX, f16::NEG_INFINITY]);
        assert!(narrow_f16(&[f32::NAN]).unwrap().iter().all(|value| value.is_nan()));
    }

    #[test]
    fn narrowing_refuses_a_finite_value_that_would_become_infinite() {
        let refused = narrow_f16(&[0.0, 65520.0]).unwrap_err();
        assert_eq!(refused, NarrowOverflow { index: 1, value: 65520.0, dtype: DType::F16 });
        let refused = narrow_bf16(&[f32::MAX]).unwrap_err();
        assert_eq!((refused.index, refused.dtype), (0, DType::Bf16));
        assert_eq!(
            refused.to_string(),
            format!("value {} at index 0 is beyond the range of bfloat16; keep the column as float32", f32::MAX)
        );
    }
}
