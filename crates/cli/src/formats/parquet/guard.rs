//! The guard around every call into the Parquet reader: a file made to harm may make it panic.
//!
//! Always true: no panic passes, and none prints anything beside the program's one line of error.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// What the call gives, or that it gave up.
pub(super) fn guarded<T>(call: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                usual(panic);
            }
        }));
    });
    GUARDED.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(call));
    GUARDED.set(false);
    result.unwrap_or_else(|_| Err("its pages contradict themselves: the reader gave up".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_refusal_and_the_next_call_is_as_any_other() {
        let refused = guarded(|| -> Result<u8, String> { panic!("a page of minus one bytes") });
        assert!(refused.is_err_and(|what| what.contains("the reader gave up")));
        assert_eq!(guarded(|| Ok(7)), Ok(7));
    }
}
