//! The Python package's tests, in an environment that this chore makes itself.
//!
//! May touch Python, its package installer and the build directory. Needs `CPython` 3.10 or newer.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{root, run, runs, target, trl};

/// The variable that says that there is no Python here, and that this is right.
const NO_PYTHON: &str = "ROLLSTORE_NO_PYTHON";

/// The variable that names the interpreter to use.
const PYTHON: &str = "ROLLSTORE_PYTHON";

/// The variable that tells the tests where the wheel is that they install.
const WHEEL: &str = "ROLLSTORE_WHEEL";

/// What the tests need beside the package.
const PACKAGES: [&str; 6] =
    ["maturin>=1.9,<2", "numpy>=1.24", "pytest>=8", "ml_dtypes>=0.4", "pyarrow>=14", "pyright[nodejs]>=1.1.400"];

/// Builds the package, runs its tests, examples and benchmark, and checks its types. `extra` goes to pytest, alone then.
pub(crate) fn test(extra: &[String]) -> Result<(), String> {
    if env::var_os(NO_PYTHON).is_some_and(|set| set == "1") {
        eprintln!("{NO_PYTHON} is 1: the Python package is not tested");
        return Ok(());
    }
    let package = root().join("python");
    let environment = Environment::prepare(&target().join("python-tests"), &PACKAGES)?;
    environment.install(&package, &["--profile", "dev"])?;
    let wheel = wheel(&environment, &package)?;
    let mut tests = environment.command("python");
    tests.env(WHEEL, wheel).args(["-m", "pytest"]).args(extra);
    run(tests.current_dir(&package))?;
    if !extra.is_empty() {
        return Ok(());
    }
    for example in files(&package.join("examples"), "py")? {
        run(environment.command("python").arg(&example).current_dir(&package))?;
    }
    // Named, since otherwise a file of settings in any folder above comes first.
    environment.check_types(&package, "pyproject.toml")
}

/// Builds a wheel, and returns its path.
fn wheel(environment: &Environment, package: &Path) -> Result<PathBuf, String> {
    let dir = environment.dir.join("wheels");
    if dir.exists() {
        fs::remove_dir_all(&dir).map_err(|error| format!("could not remove {}: {error}", dir.display()))?;
    }
    let mut build = environment.command("maturin");
    build.args(["build", "--profile", "dev", "--interpreter"]).arg(environment.program("python"));
    run(build.arg("--out").arg(&dir).current_dir(package))?;
    files(&dir, "whl")?.pop().ok_or_else(|| format!("there is no wheel in {}", dir.display()))
}

/// What the benchmarks need, of the package's own calls and beside other stores. torch is the one of the trainer's tests.
const PEERS: [&str; 7] = [
    "torch==2.15.0",
    "torchrl==0.14.1",
    "tensordict==0.14.3",
    "lmdb==3.0.0",
    "safetensors==0.8.0",
    "numpy>=1.24",
    "maturin>=1.9,<2",
];

/// Builds the package as it is released, and prints what its calls cost as ratios.
pub(crate) fn bench() -> Result<(), String> {
    let (environment, package) = released()?;
    run(environment.command("python").arg("benches/ratios.py").current_dir(&package))
}

/// Builds the package as it is released, and measures it beside what Python programs keep rollouts in. `arguments` go to the
/// benchmark.
pub(crate) fn bench_peers(arguments: &[String]) -> Result<(), String> {
    let (environment, package) = released()?;
    // Put before the C library, it counts syncs, whoever makes them.
    let counter = environment.dir.join("count_syncs.so");
    let compile = ["-O2", "-shared", "-fPIC", "benches/count_syncs.c", "-ldl", "-o"];
    run(Command::new("cc").args(compile).arg(&counter).current_dir(&package))?;
    let mut peers = environment.command("python");
    peers.arg("benches/peers.py").args(arguments).env("LD_PRELOAD", counter);
    run(peers.current_dir(&package))
}

/// The package as it is released in the environment of the benchmarks, and where its sources are.
fn released() -> Result<(Environment, PathBuf), String> {
    let package = root().join("python");
    let check = "import torchrl, lmdb, safetensors; print('torchrl', torchrl.__version__, 'lmdb', lmdb.__version__)";
    let environment = trl::prepare(&target().join("python-peers"), &PEERS, check)?;
    environment.install(&package, &["--release", "--quiet"])?;
    Ok((environment, package))
}

/// An interpreter's environment of our own, kept between runs.
pub(crate) struct Environment {
    pub(crate) dir: PathBuf,
}

impl Environment {
    /// Makes the environment, or takes the one of an earlier run where the packages are still the same.
    pub(crate) fn prepare(dir: &Path, packages: &[&str]) -> Result<Self, String> {
        let environment = Self { dir: dir.to_owned() };
        let stamp = dir.join("packages");
        let wanted = packages.join("\n");
        if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(environment);
        }
        let python = interpreter()?;
        if dir.exists() {
            fs::remove_dir_all(dir).map_err(|error| format!("could not remove {}: {error}", dir.display()))?;
        }
        if runs(Command::new("uv").arg("--version")) {
            run(Command::new("uv").args(["venv", "--quiet", "--python"]).arg(&python).arg(dir))?;
            let mut install = Command::new("uv");
            install.args(["pip", "install", "--quiet", "--python"]).arg(environment.program("python"));
            run(install.args(packages))?;
        } else {
            run(Command::new(&python).args(["-m", "venv"]).arg(dir))?;
            let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
            run(environment.command("python").args(install).args(packages))?;
        }
        fs::write(&stamp, wanted).map_err(|error| format!("could not write {}: {error}", stamp.display()))?;
        Ok(environment)
    }

    /// Builds the package and installs it here. `options` say how it is built; in the profile of the tests, what they share with the
    /// library's own is built once.
    pub(crate) fn install(&self, package: &Path, options: &[&str]) -> Result<(), String> {
        run(self.command("maturin").arg("develop").args(options).current_dir(package))
    }

    /// Checks types by the settings of a project.
    pub(crate) fn check_types(&self, package: &Path, project: &str) -> Result<(), String> {
        let mut types = self.command("pyright");
        types.arg("--pythonpath").arg(self.program("python")).args(["--project", project]);
        run(types.current_dir(package))
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.dir.join("bin").join(name)
    }

    pub(crate) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.program(name));
        command.env("VIRTUAL_ENV", &self.dir).env_remove("PYTHONPATH").env_remove("PYTHONHOME");
        command
    }
}

/// The first interpreter that is new enough.
pub(crate) fn interpreter() -> Result<OsString, String> {
    const NEW_ENOUGH: &str =
        "import sys, venv; sys.exit(sys.version_info < (3, 10) or sys.implementation.name != 'cpython')";
    let named = env::var_os(PYTHON);
    let known = ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10"];
    let candidates = named.map_or_else(|| known.map(OsString::from).to_vec(), |named| vec![named]);
    let found = candidates.into_iter().find(|python| runs(Command::new(python).args(["-c", NEW_ENOUGH])));
    found.ok_or_else(|| {
        format!(
            "there is no CPython 3.10 or newer with venv; install one, name one in {PYTHON}, or set {NO_PYTHON}=1 to leave the \
             Python package untested"
        )
    })
}

/// The files of this kind in a folder, in order.
fn files(folder: &Path, kind: &str) -> Result<Vec<PathBuf>, String> {
    let failed = |error| format!("could not list {}: {error}", folder.display());
    let mut found = Vec::new();
    for entry in folder.read_dir().map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == kind) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
