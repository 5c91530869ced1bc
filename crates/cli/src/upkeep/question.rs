//! A question to the person at the terminal.
//!
//! May touch standard error and standard input.

use std::io::{self, IsTerminal, Write};

/// Whether there is a person to ask: one who can see the question and answer it.
pub(super) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Shows lines that belong to a question. Nobody can be told that standard error itself fails, so that is passed over.
pub(super) fn show(lines: &[String]) {
    let mut stderr = io::stderr().lock();
    for line in lines {
        let _ = writeln!(stderr, "{line}");
    }
}

/// Asks, and takes nothing but a yes for one.
pub(super) fn ask(question: &str) -> bool {
    let _ = write!(io::stderr().lock(), "{question} [y/N] ");
    let mut answer = String::new();
    // An input that ends or fails is no yes.
    let _ = io::stdin().read_line(&mut answer);
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}
