//! rollstore beside its peers; see the library of this package.

use std::process::ExitCode;

fn main() -> ExitCode {
    bench_peers::run(std::env::args_os())
}
