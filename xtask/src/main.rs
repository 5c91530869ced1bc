//! The project's chores, one word each: `cargo xtask test`, `cargo xtask fuzz`, `cargo xtask filesystems`.
//!
//! May touch cargo. Needs nothing but a Rust toolchain, and Python for the Python package; fuzzing installs its own tool.

mod bench;
mod bugs;
mod counts;
mod coverage;
mod filesystems;
mod python;
mod ray;
mod report;
mod trl;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const USAGE: &str = "\
usage: cargo xtask test [ARGUMENTS OF CARGO TEST]
       cargo xtask test-python [ARGUMENTS OF PYTEST]
       cargo xtask test-trl [ARGUMENTS OF PYTEST]
       cargo xtask test-ray [ARGUMENTS OF PYTEST]
       cargo xtask test-report [ARGUMENTS OF PYTEST]
       cargo xtask bench-python
       cargo xtask bench-python-peers [--quick] [--save]
       cargo xtask bench [--quick] [--save] [BENCH ...]
       cargo xtask counts [--save]
       cargo xtask soak
       cargo xtask bugs
       cargo xtask shuttle
       cargo xtask coverage
       cargo xtask fuzz TARGET SECONDS
       cargo xtask filesystems [NAME ...]

test  Runs every test: units, suites, documentation examples, the programs in examples/, and the Python package's tests.
      ROLLSTORE_TEST_SCALE=N makes the long suites N times as long (default 1).
test-python
      Builds the Python package and its wheel, runs its tests and examples, and checks its types, in an environment of its
      own under target/. It takes CPython 3.10 or newer (ROLLSTORE_PYTHON names another than python3), and fails without one unless
      ROLLSTORE_NO_PYTHON=1.
test-trl
      Builds the Python package and tests its trainer for TRL with the real torch, transformers, accelerate and trl, on the CPU,
      in another environment under target/: about 600 MB are installed once. It fails where it cannot install; on Linux
      it takes a C compiler and readelf, too. ROLLSTORE_TRL names another version of trl than the one that is known to do.
test-ray
      Builds the Python package and tests what runs on Ray, the storage backend for TransferQueue and the sharded service, with the
      real ray, torch and TransferQueue, on the CPU, in another environment under target/: about 900 MB are installed once. It takes
      what test-trl takes.
test-report
      Opens the pages of \"rollstore report\" in chromium, headless, and checks what is drawn. It installs chromium and its
      driver by apt-get where they are missing, and fails where it cannot.
bench-python
      Builds the Python package as it is released and prints what its calls cost, as ratios, in another environment under
      target/: about 500 MB are installed once.
bench-python-peers
      The same beside torchrl, lmdb, sqlite3, torch.save, safetensors and pickle. Takes Linux and a C compiler. --save keeps
      docs/benchmarks/python.md.
bench Runs the benchmarks of benches/ and compares what each costs, against a raw baseline of the same minute, with the committed
      result, docs/benchmarks/criterion.json; or says that the machine is too noisy to judge. --quick shows that they run.
counts
      Counts the instructions of the hot paths, with valgrind, and compares them with docs/benchmarks/counts.json. It installs
      valgrind by apt-get where it is missing, and fails where it cannot unless ROLLSTORE_NO_COUNTS=1.
soak  A long run in full, in release: a trainer of 1,000 steps that is killed 30 times, the memory of a million rollouts, and
      what opening them reads. `cargo xtask test` has it scaled down.
bugs  Plants one bug after the other and runs the test that must fail over it: the suites can fail.
shuttle
      Runs the store under a scheduler that tries many orders of its threads' steps, and plants the bugs that only an
      order shows.
coverage
      Runs the suites with counters in the code, and prints the lines of src/format, src/log and src/recovery that were
      run and those that were not; with cargo-llvm-cov, which is installed where it is missing.
fuzz  Fuzzes one target of fuzz/ (segment, manifest, frame, ops, trace) for so many seconds, with cargo-fuzz, which is
      installed where it is missing. An input that fails is kept in fuzz/artifacts/; it belongs into fuzz/corpus/ then.
filesystems
      Runs the suites that use real files on tmpfs, ext4, xfs, btrfs, overlayfs and sshfs, as far as this machine
      can mount them (it takes root): the others are named as skipped.";

/// The variable that the long suites read.
const SCALE: &str = "ROLLSTORE_TEST_SCALE";

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let result = match arguments.next().as_deref() {
        Some("test") => test(&arguments.collect::<Vec<_>>()),
        Some("test-python") => python::test(&arguments.collect::<Vec<_>>()),
        Some("test-trl") => trl::test(&arguments.collect::<Vec<_>>()),
        Some("test-ray") => ray::test(&arguments.collect::<Vec<_>>()),
        Some("test-report") => report::test(&arguments.collect::<Vec<_>>()),
        Some("bench-python") => python::bench(),
        Some("bench-python-peers") => python::bench_peers(&arguments.collect::<Vec<_>>()),
        Some("bench") => bench::run_benches(&arguments.collect::<Vec<_>>()),
        Some("counts") => counts::run_counts(&arguments.collect::<Vec<_>>()),
        Some("soak") => soak(),
        Some("bugs") => bugs::run(),
        Some("shuttle") => bugs::run_shuttle(),
        Some("coverage") => coverage::coverage(),
        Some("fuzz") => fuzz(&arguments.collect::<Vec<_>>()),
        Some("filesystems") => filesystems::run(&arguments.collect::<Vec<_>>()),
        Some("help" | "--help" | "-h") => {
            eprintln!("{USAGE}");
            Ok(())
        }
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// What is built for tests: one choice for all chores, since Cargo builds libraries anew where another choice of packages
/// asks for other features of them. The Python package has no test of Cargo's, so nothing of it is built.
const TESTED: [&str; 3] = ["--workspace", "--exclude", "bench-peers"];

/// The workspace is tested, and the Python package by its own tools. The `dev` profile is optimised.
fn test(extra: &[String]) -> Result<(), String> {
    let scale = env::var(SCALE).unwrap_or_else(|_| "1".to_owned());
    if scale.parse::<u32>().map_or(true, |scale| scale == 0) {
        return Err(format!("{SCALE} is {scale:?}, expected a whole number above 0"));
    }
    let root = root();
    let mut tests = Command::new(cargo_program());
    // Who asks for some of the tests chooses among the default members.
    tests.arg("test").args(if extra.is_empty() { &TESTED[..] } else { &[] }).args(extra);
    run(tests.env(SCALE, &scale).current_dir(&root))?;
    if !extra.is_empty() {
        // The caller asked for some of the tests, so the examples were not meant.
        return Ok(());
    }
    for example in examples(&root)? {
        run(Command::new(target().join("debug/examples").join(example)).env(SCALE, &scale).current_dir(&root))?;
    }
    python::test(&[])
}

/// The suites of long runs, whole. Their figures are printed.
fn soak() -> Result<(), String> {
    let mut command = Command::new(cargo_program());
    command.args(["test", "--release", "--package", "rollstore", "--no-fail-fast"]);
    command.args(["--test", "soak", "--test", "memory", "--test", "reopening", "--", "--nocapture"]);
    run(command.env("ROLLSTORE_SOAK", "1").current_dir(root()))
}

/// Fuzzes one target. What is found on the way stays in the build directory: the corpus holds what was chosen.
fn fuzz(arguments: &[String]) -> Result<(), String> {
    /// Memory of the fuzzer that is too much: an input that takes more is one whose length was believed.
    const RSS_MIB_MAX: u32 = 2048;
    /// Time for one input that is too long.
    const INPUT_SECONDS_MAX: u32 = 20;
    let [target, seconds] = arguments else { return Err(USAGE.to_owned()) };
    let seconds: u32 = seconds.parse().map_err(|error| format!("{seconds:?} seconds: {error}"))?;
    let root = root();
    if !root.join("fuzz/fuzz_targets").join(target).with_extension("rs").exists() {
        return Err(format!("there is no target {target:?}\n{USAGE}"));
    }
    if !runs(Command::new(cargo_program()).args(["fuzz", "--version"])) {
        run(Command::new(cargo_program()).args(["install", "cargo-fuzz", "--locked"]))?;
    }
    let found = root.join("fuzz/target/found").join(target);
    std::fs::create_dir_all(&found).map_err(|error| format!("could not create {}: {error}", found.display()))?;
    let corpus = root.join("fuzz/corpus").join(target);
    // cargo-fuzz needs options of the compiler that stable refuses: nightly has them, and so has this variable.
    let has_nightly = runs(Command::new("cargo").args(["+nightly", "--version"]));
    let mut command = Command::new(if has_nightly { "cargo".into() } else { cargo_program() });
    if has_nightly {
        command.arg("+nightly");
    } else {
        command.env("RUSTC_BOOTSTRAP", "1");
    }
    // Cargo tells its children which toolchain they are of; the fuzzer's may be another.
    command.env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
    command.args(["fuzz", "run", target]).args([&found, &corpus]).arg("--");
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-rss_limit_mb={RSS_MIB_MAX}"));
    command.arg(format!("-timeout={INPUT_SECONDS_MAX}")).arg("-max_len=16384").arg("-print_final_stats=1");
    run(command.current_dir(&root))
}

/// Whether a command is there and succeeds; its output is nobody's.
fn runs(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn run(command: &mut Command) -> Result<(), String> {
    eprintln!("+ {command:?}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("could not start {command:?}: {error}")),
    }
}

/// What a command prints, where it succeeds.
fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("could not start {command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// Asks the system's package installer for packages; whoever needs them looks whether they came.
fn install_packages(packages: &[&str]) {
    let apt = |arguments: &[&str]| {
        let is_root = output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
        let mut command = Command::new(if is_root { "apt-get" } else { "sudo" });
        command.args(if is_root { &[][..] } else { &["--non-interactive", "apt-get"] });
        run(command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    if runs(Command::new("apt-get").arg("--version")) {
        let install = [&["install", "--yes", "--no-install-recommends"], packages].concat();
        // The list of packages may be missing or old.
        let _ = apt(&install).or_else(|_| apt(&["update"]).and_then(|()| apt(&install)));
    }
}

fn cargo_program() -> std::ffi::OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The names of the programs in `examples/`, in order.
fn examples(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join("examples");
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let failed = |error| format!("could not list {}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in folder.read_dir().map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
        }
    }
    names.sort();
    Ok(names)
}

/// The build directory: the caller may have moved it.
fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The workspace's root: the folder above this package.
fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_owned()
}
