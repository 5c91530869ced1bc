//! The trainer for TRL, tested with the real torch, transformers, accelerate and trl, on the CPU, in an environment of its own.
//!
//! May touch Python, its package installers, a C compiler and the build directory.
//!
//! Always true: what cannot be installed is a failure, never a skipped test.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::python::{self, Environment};
use crate::{root, run, target};

/// The set of versions that is tested. TRL's trainer is subclassed where it promises nothing, so a newer one is a change of its own.
const PACKAGES: [&str; 15] = [
    "torch==2.15.0",
    "transformers==5.24.0",
    "accelerate==1.15.0",
    "datasets==5.2.0",
    "peft==0.21.2",
    // Older versions of trl import it without asking for it.
    "requests>=2",
    "numpy>=1.24",
    // What reads the dumps of a store.
    "pyarrow>=21",
    "pandas>=2.2",
    "duckdb>=1.3",
    "safetensors>=0.6",
    "ml_dtypes>=0.4",
    "pytest>=8",
    "maturin>=1.9,<2",
    "pyright[nodejs]>=1.1.400",
];

/// The version of trl that is tested where none is named.
const TRL_TESTED: &str = "1.16.0";

/// The variable that names another version of trl to test.
const TRL: &str = "ROLLSTORE_TRL";

/// What torch's wheel for Linux asks for and a CPU never uses: gigabytes.
const LEFT_OUT: [&str; 7] = [
    "cuda-toolkit",
    "cuda-bindings",
    "nvidia-cudnn-cu13",
    "nvidia-cusparselt-cu13",
    "nvidia-nccl-cu13",
    "nvidia-nvshmem-cu13",
    "triton",
];

/// The one library of CUDA that torch calls without a GPU, and so must be itself.
const CUDA_RUNTIME: &str = "nvidia-cuda-runtime==13.2.86";

/// Makes the other libraries of CUDA that torch is linked against.
const STAND_INS: &str = include_str!("cuda_stand_ins.py");

/// Builds the package, runs the tests of `rollstore.trl`, those of dumps by the programs that read them, and its example. `extra` goes to pytest, alone then.
pub(crate) fn test(extra: &[String]) -> Result<(), String> {
    let package = root().join("python");
    let (name, version) = match env::var(TRL) {
        Ok(version) => (format!("trl-{version}-tests"), version),
        Err(_) => ("trl-tests".to_owned(), TRL_TESTED.to_owned()),
    };
    let trl = format!("trl=={version}");
    let check = "import torch, trl; print('torch', torch.__version__, 'trl', trl.__version__)";
    let packages = [&PACKAGES[..], &[&trl]].concat();
    let environment = prepare(&target().join(name), &packages, check)?;
    environment.install(&package, &["--profile", "dev"])?;
    let all = if extra.is_empty() { &["tests_trl", "tests_dump", "tests/test_torch.py"][..] } else { &["tests_trl"] };
    run(interpreter(&environment).args(["-m", "pytest"]).args(all).args(extra).current_dir(&package))?;
    if !extra.is_empty() {
        return Ok(());
    }
    run(interpreter(&environment).arg("examples/trl/quickstart.py").current_dir(&package))?;
    environment.check_types(&package, "examples/trl")
}

/// Compiled modules are kept: compiling those of torch and transformers takes longer than most tests.
pub(crate) fn interpreter(environment: &Environment) -> Command {
    let mut command = environment.command("python");
    command.env_remove("PYTHONDONTWRITEBYTECODE");
    command
}

/// Makes an environment with torch for the CPU, or takes the one of an earlier run where the packages are still the same.
/// `check` is a program that shows that they can be used.
pub(crate) fn prepare(dir: &Path, packages: &[&str], check: &str) -> Result<Environment, String> {
    let environment = Environment { dir: dir.to_owned() };
    let stamp = dir.join("packages");
    let wanted = [packages, &LEFT_OUT[..], &[CUDA_RUNTIME, STAND_INS]].concat().join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(environment);
    }
    if dir.exists() {
        fs::remove_dir_all(dir).map_err(|error| format!("could not remove {}: {error}", dir.display()))?;
    }
    run(Command::new(python::interpreter()?).args(["-m", "venv"]).arg(dir))?;
    // pip cannot leave a dependency out; uv can.
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "uv"];
    run(environment.command("python").args(pip))?;
    let left_out = dir.join("left-out.txt");
    write(&left_out, &LEFT_OUT.map(|name| format!("{name} ; python_version < '3'")).join("\n"))?;
    run(install(&environment).arg("--override").arg(&left_out).args(packages))?;
    if cfg!(target_os = "linux") {
        run(install(&environment).arg("--no-deps").arg(CUDA_RUNTIME))?;
        let script: PathBuf = dir.join("cuda_stand_ins.py");
        write(&script, STAND_INS)?;
        run(environment.command("python").arg(&script))?;
    }
    run(interpreter(&environment).args(["-c", check]))?;
    write(&stamp, &wanted)?;
    Ok(environment)
}

fn install(environment: &Environment) -> Command {
    let mut command = environment.command("uv");
    command.args(["pip", "install", "--quiet", "--python"]).arg(environment.program("python"));
    command
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("could not write {}: {error}", path.display()))
}
