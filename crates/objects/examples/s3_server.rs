//! A real S3 server on loopback, over a directory: for tests in other languages, and to try object storage without an account.
//!
//! ```sh
//! cargo run -p rollstore-objects --example s3_server -- /tmp/buckets
//! ```
//!
//! It makes one bucket, `bucket`, and prints the variables that a client's environment needs, a line each, then an empty line. It ends
//! with its standard input.

#[path = "../tests/common/mod.rs"]
mod common;

use std::io::{Read, Write};
use std::sync::Arc;

use common::Server;

fn main() -> std::io::Result<()> {
    let Some(root) = std::env::args_os().nth(1) else {
        return Err(std::io::Error::other("give a directory for its buckets"));
    };
    let server = Server::over(root.into(), Arc::new(|_, _| {}));
    let mut out = std::io::stdout().lock();
    for (name, value) in server.variables() {
        writeln!(out, "{name}={value}")?;
    }
    writeln!(out)?;
    out.flush()?;
    std::io::stdin().read_to_end(&mut Vec::new()).map(drop)
}
