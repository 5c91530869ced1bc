//! The `rollstore` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    rollstore_cli::run(std::env::args_os())
}
