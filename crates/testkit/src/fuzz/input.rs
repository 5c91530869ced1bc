//! Choices from the bytes of an input.
//!
//! Always true:
//! - Every input means something: where it ends, all further choices are 0.

/// The bytes of an input that are not used up.
#[derive(Debug, Clone)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// Choices from these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is left.
    #[must_use]
    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `end`, from one byte.
    pub fn below(&mut self, end: u64) -> u64 {
        u64::from(self.byte()) % end.max(1)
    }

    /// A number of two bytes.
    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// Yes or no.
    pub fn coin(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// One of these.
    ///
    /// # Panics
    /// Where there are none.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }
}
