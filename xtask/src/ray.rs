//! What runs on Ray: the storage backend for `TransferQueue` and the sharded service, tested with the real ray, torch and
//! `TransferQueue`, on the CPU, in an environment of its own.
//!
//! May touch Python, its package installers, a C compiler and the build directory. Starts Ray on this machine, and leaves none of it.
//!
//! Always true: what cannot be installed is a failure, never a skipped test.

use std::process::Command;

use crate::{cargo_program, root, run, target, trl};

/// The set of versions that is tested. A newer `TransferQueue` is a change of its own: what its controller holds is promised nowhere.
const PACKAGES: [&str; 10] = [
    "torch==2.15.0",
    "ray==2.60.0",
    "TransferQueue==0.1.11",
    "numpy>=1.24",
    "ml_dtypes>=0.4",
    "pyarrow>=14",
    "psutil>=5.9",
    "pytest>=8",
    "maturin>=1.9,<2",
    "pyright[nodejs]>=1.1.400",
];

/// Names the S3 server that the tests start.
const S3_SERVER: &str = "ROLLSTORE_TEST_S3_SERVER";

/// Builds the package, runs the tests of what runs on Ray, and checks its types. `extra` goes to pytest, alone then.
pub(crate) fn test(extra: &[String]) -> Result<(), String> {
    let package = root().join("python");
    let check =
        "import ray, torch, transfer_queue; print('ray', ray.__version__, 'TransferQueue', transfer_queue.__version__)";
    let environment = trl::prepare(&target().join("ray-tests"), &PACKAGES, check)?;
    environment.install(&package, &["--profile", "dev"])?;
    let mut server = Command::new(cargo_program());
    run(server.args(["build", "--package", "rollstore-objects", "--example", "s3_server"]).current_dir(root()))?;
    let mut tests = trl::interpreter(&environment);
    tests.env(S3_SERVER, target().join("debug/examples/s3_server"));
    run(tests.args(["-m", "pytest", "tests_ray"]).args(extra).current_dir(&package))?;
    if !extra.is_empty() {
        return Ok(());
    }
    environment.check_types(&package, "tests_ray")
}
