//! The suites that use real files, on other file systems than the one that happens to be under `/tmp`.
//!
//! Each file system is mounted in a mount namespace of this process's own, so that nothing stays mounted whatever happens.
//! What the machine does not allow or has no tools for is skipped, said with its reason, and never counted as passed.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::{TESTED, cargo_program, root, runs, target};

/// Set in the process that has a mount namespace of its own.
const IN_NAMESPACE: &str = "ROLLSTORE_XTASK_MOUNTS";

/// Rounds of kill -9 on each file system.
const KILL_ROUNDS: &str = "12";

/// Suites of the library that take their directory from `TMPDIR`.
const SUITES: [&str; 11] = [
    "brought_store",
    "checkpoints",
    "fencing",
    "forked_child",
    "full_file_system",
    "kill_nine",
    "mapped_end",
    "one_writer",
    "restore",
    "verify",
    "zero_copy",
];

/// Suites of the program.
const PROGRAM_SUITES: [&str; 1] = ["replay_kill"];

/// Mounts a file system on the second directory; the first one is for images and layers.
type Mount = fn(work: &Path, on: &Path, suites: &[Suite]) -> Result<Option<Server>, Skip>;

/// A file system to run on.
struct FileSystem {
    name: &'static str,
    mount: Mount,
    /// Whether it is small enough to be filled.
    is_small: bool,
}

const FILE_SYSTEMS: [FileSystem; 6] = [
    FileSystem { name: "tmpfs", mount: tmpfs, is_small: true },
    FileSystem { name: "ext4, 64 MB", mount: |work, on, _| image(work, on, "ext4", 64, &["-q", "-F"]), is_small: true },
    FileSystem { name: "xfs", mount: |work, on, _| image(work, on, "xfs", 320, &["-q"]), is_small: false },
    FileSystem { name: "btrfs", mount: |work, on, _| image(work, on, "btrfs", 256, &["-q"]), is_small: false },
    FileSystem { name: "overlayfs", mount: overlay, is_small: false },
    FileSystem { name: "sshfs", mount: sshfs, is_small: false },
];

/// Why a file system was not run on.
struct Skip(String);

/// A server that a mount needs; ended when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Something mounted, and what lies under it; undone when dropped.
struct Mounted {
    on: PathBuf,
    work: PathBuf,
    _server: Option<Server>,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if !runs(Command::new("umount").arg(&self.on)) {
            // A process that was killed may still be going.
            let _ = runs(Command::new("umount").arg("--lazy").arg(&self.on));
        }
        let _ = fs::remove_dir_all(&self.work);
    }
}

/// Runs the suites on each file system. `only` names some of them.
pub(crate) fn run(only: &[String]) -> Result<(), String> {
    if std::env::var_os(IN_NAMESPACE).is_none() && runs(Command::new("unshare").args(["--mount", "true"])) {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]).arg(program).arg("filesystems").args(only);
        let status = command.env(IN_NAMESPACE, "1").status().map_err(|error| error.to_string())?;
        return if status.success() { Ok(()) } else { Err(format!("file systems: {status}")) };
    }
    let suites = build()?;
    let (mut passed, mut skipped, mut failed) = (0, 0, 0);
    let mut report = Vec::new();
    let chosen = |name: &str| only.is_empty() || only.iter().any(|only| name.starts_with(only.as_str()));
    for file_system in FILE_SYSTEMS.iter().filter(|file_system| chosen(file_system.name)) {
        let said = match file_system.run(&suites) {
            Ok(Ok(())) => {
                passed += 1;
                "passed".to_owned()
            }
            Ok(Err(why)) => {
                failed += 1;
                format!("FAILED: {why}")
            }
            Err(Skip(why)) => {
                skipped += 1;
                format!("skipped: {why}")
            }
        };
        report.push(format!("{:<12} {said}", file_system.name));
    }
    eprintln!("\n{}", report.join("\n"));
    eprintln!("file systems: {passed} passed, {skipped} skipped, {failed} failed");
    if failed == 0 { Ok(()) } else { Err(format!("{failed} file systems failed")) }
}

impl FileSystem {
    /// Mounts it and runs every suite; the inner result is the suites'.
    fn run(&self, suites: &[Suite]) -> Result<Result<(), String>, Skip> {
        let letters: String = self.name.chars().take_while(char::is_ascii_alphanumeric).collect();
        let work = target().join("filesystems").join(letters);
        let on = work.join("mounted");
        let _ = fs::remove_dir_all(&work);
        fs::create_dir_all(&on).map_err(|error| Skip(format!("{}: {error}", on.display())))?;
        eprintln!("\n=== {} on {}", self.name, on.display());
        let server = (self.mount)(&work, &on, suites).inspect_err(|_| {
            let _ = fs::remove_dir_all(&work);
        })?;
        let mounted = Mounted { on, work, _server: server };
        // A file system of its own, or nothing was mounted.
        if !runs(Command::new("mountpoint").arg(&mounted.on)) {
            return Err(Skip("nothing was mounted".to_owned()));
        }
        Ok(self.run_all(suites, &mounted.on))
    }

    fn run_all(&self, suites: &[Suite], on: &Path) -> Result<(), String> {
        let mut environment = vec![("TMPDIR", on.as_os_str()), ("ROLLSTORE_TEST_ROUNDS", OsStr::new(KILL_ROUNDS))];
        if on.join("rollouts").exists() {
            environment.push(("ROLLSTORE_TEST_BROUGHT", on.as_os_str()));
        }
        if self.is_small {
            environment.push(("ROLLSTORE_TEST_FULL_DIR", on.as_os_str()));
        }
        let failed = suites.iter().filter(|suite| !suite.run(&[], &environment)).map(|suite| suite.name);
        let failed: Vec<&str> = failed.collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join(", ")) }
    }
}

/// Builds the tests and tells where each lies: they are run as they are, so that nothing is compiled in between.
fn build() -> Result<Vec<Suite>, String> {
    let mut command = Command::new(cargo_program());
    command.args(["test", "--no-run"]).args(TESTED);
    for suite in SUITES.iter().chain(&PROGRAM_SUITES) {
        command.args(["--test", suite]);
    }
    eprintln!("+ {command:?}");
    let output = command.current_dir(root()).stdout(Stdio::null()).stderr(Stdio::piped()).output();
    let output = output.map_err(|error| format!("could not start cargo: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{said}\ncargo: {}", output.status));
    }
    let of = |name: &'static str, package: PathBuf| {
        let found = said.lines().find(|line| line.contains("Executable") && line.contains(&format!("tests/{name}.rs")));
        let path = found.and_then(|line| line.split_once('(')).and_then(|(_, path)| path.strip_suffix(')'));
        let program =
            path.map(|path| root().join(path)).ok_or_else(|| format!("cargo does not say where {name} is"))?;
        Ok(Suite { name, program, package })
    };
    let library = SUITES.iter().map(|name| of(name, root()));
    library.chain(PROGRAM_SUITES.iter().map(|name| of(name, root().join("crates/cli")))).collect()
}

/// A test program.
struct Suite {
    name: &'static str,
    program: PathBuf,
    /// Where its tests expect to be run.
    package: PathBuf,
}

impl Suite {
    /// Runs the tests that `arguments` name; true where they passed.
    fn run(&self, arguments: &[&str], environment: &[(&str, &OsStr)]) -> bool {
        let mut command = Command::new(&self.program);
        command.arg("--quiet").args(arguments).current_dir(&self.package).envs(environment.iter().copied());
        crate::run(&mut command).is_ok()
    }
}

/// Runs a command of the system that makes a file system; its failure is a reason to skip.
fn tool(program: &str, arguments: &[&OsStr]) -> Result<(), Skip> {
    match Command::new(program).args(arguments).stdout(Stdio::null()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(Skip(format!("{program}: {}", said.lines().next().unwrap_or("failed"))))
        }
        Err(error) => Err(Skip(format!("{program} cannot be run: {error}"))),
    }
}

fn mount(arguments: &[&OsStr]) -> Result<(), Skip> {
    tool("mount", arguments)
}

fn tmpfs(_work: &Path, on: &Path, _suites: &[Suite]) -> Result<Option<Server>, Skip> {
    mount(&["-t".as_ref(), "tmpfs".as_ref(), "-o".as_ref(), "size=96m".as_ref(), "tmpfs".as_ref(), on.as_ref()])?;
    Ok(None)
}

/// An image of so many MB in a file.
fn image(work: &Path, on: &Path, kind: &str, megabytes: u64, options: &[&str]) -> Result<Option<Server>, Skip> {
    let path = work.join("image");
    tool("truncate", &["-s".as_ref(), format!("{megabytes}M").as_ref(), path.as_ref()])?;
    let options: Vec<&OsStr> = options.iter().map(OsStr::new).chain([path.as_os_str()]).collect();
    tool(&format!("mkfs.{kind}"), &options)?;
    mount(&["-t".as_ref(), kind.as_ref(), "-o".as_ref(), "loop".as_ref(), path.as_ref(), on.as_ref()])?;
    Ok(None)
}

/// An overlay whose lower layer holds a store already.
fn overlay(work: &Path, on: &Path, suites: &[Suite]) -> Result<Option<Server>, Skip> {
    let layers = ["lower", "upper", "scratch"].map(|name| work.join(name));
    for layer in &layers {
        fs::create_dir_all(layer).map_err(|error| Skip(format!("{}: {error}", layer.display())))?;
    }
    let lower = [("ROLLSTORE_TEST_BROUGHT", layers[0].as_os_str())];
    let mut makers = suites.iter().filter(|suite| suite.name == "brought_store");
    if !makers.all(|suite| suite.run(&["--exact", "make_a_store_to_be_brought"], &lower)) {
        return Err(Skip("no store could be made for the lower layer".to_owned()));
    }
    let [lower, upper, scratch] = layers.map(|layer| layer.display().to_string());
    let options = format!("lowerdir={lower},upperdir={upper},workdir={scratch}");
    mount(&["-t".as_ref(), "overlay".as_ref(), "-o".as_ref(), options.as_ref(), "overlay".as_ref(), on.as_ref()])?;
    Ok(None)
}

/// A directory of this machine, reached as that of another one: over SSH, with a server and keys of its own.
fn sshfs(work: &Path, on: &Path, _suites: &[Suite]) -> Result<Option<Server>, Skip> {
    /// Far from what is in use; one run at a time has it.
    const PORT: &str = "42022";
    let path = |name: &str| work.join(name);
    let skip = |error: std::io::Error| Skip(format!("sshfs: {error}"));
    fs::create_dir_all(path("served")).map_err(skip)?;
    for key in ["host", "user"] {
        let file = path(key);
        tool(
            "ssh-keygen",
            &[
                "-q".as_ref(),
                "-t".as_ref(),
                "ed25519".as_ref(),
                "-N".as_ref(),
                "".as_ref(),
                "-f".as_ref(),
                file.as_ref(),
            ],
        )?;
    }
    fs::create_dir_all("/run/sshd").map_err(skip)?;
    let (host, user) = (path("host").display().to_string(), path("user").display().to_string());
    let settings = format!(
        "Port {PORT}\nListenAddress 127.0.0.1\nHostKey {host}\nAuthorizedKeysFile {user}.pub\nStrictModes no\n\
         PasswordAuthentication no\nUsePAM no\nPermitRootLogin yes\nPidFile none\nSubsystem sftp internal-sftp\n"
    );
    fs::write(path("settings"), settings).map_err(skip)?;
    let program = ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].into_iter().find(|program| Path::new(program).exists());
    let Some(program) = program else { return Err(Skip("sshd is not installed".to_owned())) };
    let server = Command::new(program).args(["-D", "-e", "-f"]).arg(path("settings")).stderr(Stdio::null()).spawn();
    let server = Server(server.map_err(skip)?);
    let source = format!("127.0.0.1:{}", path("served").display());
    let options =
        format!("port={PORT},IdentityFile={user},StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null,BatchMode=yes");
    let mut said = Err(Skip(String::new()));
    // The server needs a moment until it listens.
    for _ in 0..50 {
        said = tool("sshfs", &[source.as_ref(), on.as_ref(), "-o".as_ref(), options.as_ref()]);
        if said.is_ok() {
            return Ok(Some(server));
        }
        thread::sleep(Duration::from_millis(100));
    }
    said.map(|()| None)
}
