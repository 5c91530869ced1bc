//! Types that buffers are made of: their padding, and their way to `NumPy`.

use half::{bf16, f16};
use numpy::PyArray1;
use pyo3::prelude::*;
use rollstore::{Element, Error, Result};

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

fn no_pad<T: Element>(pad: f64) -> Error {
    Error::invalid(format!("pad is {pad}, which is no {} value", T::DTYPE))
}

macro_rules! whole {
    ($($type:ty),*) => {$(
        impl Target for $type {
            fn pad(pad: f64) -> Result<Self> {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "compared right after", )]
                let value = pad as Self;
                #[expect(clippy::cast_precision_loss, clippy::cast_lossless, reason = "a pad that is lost is refused")]
                let back = value as f64;
                if back == pad { Ok(value) } else { Err(no_pad::<Self>(pad)) }
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

whole! { i32, i64, u32, u8 }

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
