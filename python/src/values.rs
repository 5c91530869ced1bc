//! Types that buffers are made of: their padding, and their way to `NumPy`.

use half::{bf16, f16};
use numpy::PyArray1;
use pyo3::prelude::*;
use rollstore::{DType, Element, Error, Result};

/// Values that become an array without a copy. Those of 16-bit floats become `uint16`: the Python half names their type.
pub(crate) trait IntoArray {
    /// The values as an array.
    fn into_array(self: Box<Self>, py: Python<'_>) -> Bound<'_, PyAny>;
}

/// A type that a buffer may be of.
pub(crate) trait Target: Element {
    /// The padding, exactly.
    fn pad(pad: f64) -> Result<Self>;

    /// The values, to become an array later.
    fn boxed(values: Vec<Self>) -> Box<dyn IntoArray + Send>;
}

/// The whole number that a padding is.
fn whole(pad: f64, dtype: DType) -> Result<i64> {
    /// Every whole number up to here is a float of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if pad.fract() != 0.0 || pad.abs() > EXACT {
        return Err(no_pad(pad, dtype));
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is whole, and within the range")]
    let whole = pad as i64;
    Ok(whole)
}

fn no_pad(pad: f64, dtype: DType) -> Error {
    Error::invalid(format!("pad is {pad}, which is no {dtype} value"))
}

macro_rules! whole {
    ($($type:ty: $pad:expr),*) => {$(
        impl Target for $type {
            fn pad(pad: f64) -> Result<Self> {
                let convert: fn(i64) -> Option<Self> = $pad;
                convert(whole(pad, Self::DTYPE)?).ok_or_else(|| no_pad(pad, Self::DTYPE))
            }

            fn boxed(values: Vec<Self>) -> Box<dyn IntoArray + Send> {
                Box::new(values)
            }
        }

        impl IntoArray for Vec<$type> {
            fn into_array(self: Box<Self>, py: Python<'_>) -> Bound<'_, PyAny> {
                PyArray1::from_vec(py, *self).into_any()
            }
        }
    )*};
}

whole! {
    i64: Some,
    i32: |whole| Self::try_from(whole).ok(),
    u32: |whole| Self::try_from(whole).ok(),
    u8: |whole| Self::try_from(whole).ok()
}

impl Target for f32 {
    #[expect(clippy::cast_possible_truncation, reason = "padding is rounded as any literal is")]
    fn pad(pad: f64) -> Result<Self> {
        Ok(pad as Self)
    }

    fn boxed(values: Vec<Self>) -> Box<dyn IntoArray + Send> {
        Box::new(values)
    }
}

impl IntoArray for Vec<f32> {
    fn into_array(self: Box<Self>, py: Python<'_>) -> Bound<'_, PyAny> {
        PyArray1::from_vec(py, *self).into_any()
    }
}

macro_rules! half {
    ($($type:ty),*) => {$(
        impl Target for $type {
            fn pad(pad: f64) -> Result<Self> {
                Ok(Self::from_f64(pad))
            }

            fn boxed(values: Vec<Self>) -> Box<dyn IntoArray + Send> {
                Box::new(Halves(bytemuck::cast_vec(values)))
            }
        }
    )*};
}

half! { f16, bf16 }

/// The bits of 16-bit floats.
struct Halves(Vec<u16>);

impl IntoArray for Halves {
    fn into_array(self: Box<Self>, py: Python<'_>) -> Bound<'_, PyAny> {
        PyArray1::from_vec(py, self.0).into_any()
    }
}
