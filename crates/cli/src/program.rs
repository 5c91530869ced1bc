//! How this program starts itself again, for a command that runs a child.
//!
//! Knows nothing of what the child does.

use std::ffi::OsString;
use std::io;
use std::process::Command;
use std::sync::OnceLock;

static STARTED_BY: OnceLock<Vec<OsString>> = OnceLock::new();

/// Says how the program is started; nothing means as the executable of this process. The first call counts.
pub(crate) fn set(started_by: &[OsString]) {
    STARTED_BY.get_or_init(|| started_by.to_vec());
}

/// The command that starts this program, without arguments.
pub(crate) fn command() -> io::Result<Command> {
    match STARTED_BY.get().map(Vec::as_slice) {
        Some([program, arguments @ ..]) => {
            let mut command = Command::new(program);
            command.args(arguments);
            Ok(command)
        }
        _ => std::env::current_exe().map(Command::new),
    }
}
