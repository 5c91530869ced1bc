//! A hook that gives way around each operation on the log, so that a scheduler can run other threads there.

use std::io;

use crate::hooked::{Hook, Operation};

/// Calls its function before and after each write and sync of a segment.
#[expect(missing_debug_implementations, reason = "a function has nothing to show")]
pub struct Yielding<F>(pub F);

impl<F: Fn() + Send + Sync> Hook for Yielding<F> {
    fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        self.after(operation, true);
        Ok(())
    }

    fn after(&self, operation: Operation<'_>, _succeeded: bool) {
        if operation.is_of_log() {
            (self.0)();
        }
    }
}
