//! Reading needs no write permission anywhere and touches nothing.
//!
//! Method: a child process opens the store in a tree without a single write permission; names, bytes and times of
//! change are compared before and after. The superuser may write whatever the permissions say, so that a child of its
//! is made another user first.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use rollstore::{Budget, ErrorKind, NewRollout, Options, Reads, Reason, Results, RolloutStore};
use rollstore_testkit::child;
use rollstore_testkit::values::logp;

/// A user without rights on anything of the tests.
const NOBODY: u32 = 65_534;
const ROLLOUTS: u64 = 100;

fn options() -> Options {
    RolloutStore::options().window(8).segment_bytes(64 << 10)
}

/// A store with sealed segments, a retirement, a recompute and an advance.
fn fill(dir: &Path) -> RolloutStore {
    let store = options().open(dir).unwrap();
    for id in 0..ROLLOUTS {
        store.insert(NewRollout::new(id, 1).old_logps(vec![logp(id); 1_000], 0)).unwrap();
    }
    store.advance_ref_version(2, None).unwrap();
    let half = |work: &rollstore::Plan| {
        Ok::<_, rollstore::Error>(work.ids().map(|id| (id, vec![-0.5; 1_000])).collect::<Results>())
    };
    store.recompute(2, Budget::rollouts(ROLLOUTS / 2), half).unwrap();
    store.retire(&[0.into()], Reason::Trained).unwrap();
    store
}

/// What the store of [`fill`] must show to a reader.
fn check(store: &RolloutStore) {
    assert_eq!((store.len() as u64, store.ref_version()), (ROLLOUTS - 1, 1));
    assert_eq!(store.count_stale(), ROLLOUTS / 2);
    assert!(store.get(0.into()).unwrap().is_none());
    for id in 1..ROLLOUTS {
        let expected = if id < ROLLOUTS / 2 { -0.5 } else { logp(id) };
        assert_eq!(store.get(id.into()).unwrap().unwrap().old_logps().unwrap(), [expected; 1_000]);
    }
}

fn check_refuses_writes(store: &RolloutStore) {
    let errors = [
        store.insert(NewRollout::new(1_000, 1)).unwrap_err(),
        store.retire(&[1.into()], Reason::Other).unwrap_err(),
        store.advance_ref_version(3, None).unwrap_err(),
        store.set_cursor(b"no").unwrap_err(),
        store.allocate_ids(1).map(drop).unwrap_err(),
        store.weight_update(3, || Ok::<_, rollstore::Error>(())).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("read-only"), "{error}");
    }
}

/// The other party, without rights: `read` reads, `write` tries to open for writing, `create` to make a store.
#[test]
fn reader_without_rights() {
    let Some((role, dir)) = child::role() else { return };
    match role.as_str() {
        "read" => {
            for reads in [Reads::Mapped, Reads::Copied] {
                let store = RolloutStore::options().read_only(true).reads(reads).open(&dir).unwrap();
                check(&store);
                check_refuses_writes(&store);
                store.stats().unwrap();
                store.close().unwrap();
            }
        }
        "write" => {
            let error = options().open(&dir).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io, "neither damage nor a lock: {error}");
            let owner = std::fs::metadata(&dir).unwrap().uid();
            let named = error.path().unwrap();
            assert!(named.starts_with(&dir), "{error} names {}", named.display());
            let message = error.to_string();
            for part in [dir.to_str().unwrap(), &format!("uid {owner}"), "mode 0"] {
                assert!(message.contains(part), "{part:?} is missing: {message}");
            }
        }
        other => panic!("no role of that name: {other}"),
    }
}

/// A copy of this binary and a store, in a tree that others can read.
struct Tree {
    root: tempfile::TempDir,
}

impl Tree {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        // The build directory may be closed to other users; this one is not.
        std::fs::copy(std::env::current_exe().unwrap(), root.path().join("reader")).unwrap();
        set_mode(root.path(), 0o755);
        Self { root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Runs the other party in a role on `dir` while nothing in the tree may be written to.
    fn run(&self, role: &str, dir: &Path) {
        let modes = take_write_permission(self.root.path());
        let before = snapshot(self.root.path());
        let as_told = child::command("reader_without_rights", role, dir);
        let mut command = Command::new(self.path("reader"));
        command.args(as_told.get_args()).current_dir("/");
        for (name, value) in as_told.get_envs() {
            command.env(name, value.unwrap());
        }
        if is_superuser() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = command.output().unwrap();
        let after = snapshot(self.root.path());
        for (path, mode) in modes {
            set_mode(&path, mode);
        }
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        assert_eq!(before, after, "something was created or touched");
    }
}

fn is_superuser() -> bool {
    // Whoever owns a file that it just made is the user that it runs as.
    tempfile::NamedTempFile::new().unwrap().as_file().metadata().unwrap().uid() == 0
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn walk(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    if path.is_dir() {
        let children = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        found.extend(children.flat_map(|child| walk(&child)));
    }
    found
}

/// `chmod -R a-w`; returns the modes from before.
fn take_write_permission(root: &Path) -> Vec<(PathBuf, u32)> {
    let modes: Vec<_> = walk(root).into_iter().map(|path| (path.clone(), path.metadata().unwrap().mode())).collect();
    for (path, mode) in &modes {
        set_mode(path, mode & 0o555);
    }
    modes
}

type Seen = (SystemTime, i64, u64);

/// Names, times of change of bytes and of attributes, and a digest of the bytes.
fn snapshot(root: &Path) -> BTreeMap<PathBuf, Seen> {
    let see = |path: PathBuf| {
        let metadata = path.metadata().unwrap();
        let mut hasher = DefaultHasher::new();
        if metadata.is_file() {
            std::fs::read(&path).unwrap().hash(&mut hasher);
        }
        (path, (metadata.modified().unwrap(), metadata.mtime_nsec(), hasher.finish()))
    };
    walk(root).into_iter().map(see).collect()
}

#[test]
fn a_closed_store_is_read_without_any_write_permission() {
    let tree = Tree::new();
    fill(&tree.path("rollouts")).close().unwrap();
    tree.run("read", &tree.path("rollouts"));
    options().open(tree.path("rollouts")).unwrap().insert(NewRollout::new(1_000, 1)).unwrap();
}

#[test]
fn a_crashed_store_is_read_as_it_lies() {
    let tree = Tree::new();
    fill(&tree.path("rollouts")).abandon();
    tree.run("read", &tree.path("rollouts"));
    // Its owner recovers it afterwards.
    check(&options().open(tree.path("rollouts")).unwrap());
}

#[test]
fn a_store_without_its_index_is_read_too() {
    let tree = Tree::new();
    let dir = tree.path("rollouts");
    fill(&dir).close().unwrap();
    std::fs::remove_file(dir.join("index.redb")).unwrap();
    tree.run("read", &dir);
    assert!(!dir.join("index.redb").exists());
}

#[test]
fn a_store_that_is_being_written_is_read_and_its_writer_goes_on() {
    let tree = Tree::new();
    let store = fill(&tree.path("rollouts"));
    tree.run("read", &tree.path("rollouts"));
    store.insert(NewRollout::new(1_000, 1)).unwrap();
    store.close().unwrap();
}

#[test]
fn a_checkpoint_is_read_as_it_lies() {
    let tree = Tree::new();
    fill(&tree.path("rollouts")).checkpoint(tree.path("saved")).unwrap();
    tree.run("read", &tree.path("saved"));
}

#[test]
fn a_writer_without_rights_is_told_file_owner_and_mode() {
    let tree = Tree::new();
    fill(&tree.path("rollouts")).close().unwrap();
    tree.run("write", &tree.path("rollouts"));
    // A store that is not there yet cannot be made either.
    std::fs::create_dir(tree.path("empty")).unwrap();
    tree.run("write", &tree.path("empty"));
}

#[test]
fn a_reader_follows_a_writer_that_rolls_segments() {
    let root = tempfile::tempdir().unwrap();
    let store = options().open(root.path()).unwrap();
    store.set_cursor(b"0").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut id = 0;
            // Until the readers are done: they are counted, not the rollouts.
            while !stop.load(Ordering::Acquire) {
                let mut batch = store.batch();
                for _ in 0..2 {
                    batch.insert(NewRollout::new(id, 1).old_logps(vec![logp(id); 1_000], 0)).unwrap();
                    id += 1;
                }
                batch.cursor(id.to_string().as_bytes());
                batch.commit().unwrap();
                // The store stays small, so that each reading takes about as long.
                if id > 40 {
                    store.retire(&[(id - 40).into(), (id - 39).into()], Reason::Trained).unwrap();
                }
            }
        });
        let read = scope.spawn(|| read_again_and_again(root.path())).join();
        stop.store(true, Ordering::Release);
        writer.join().unwrap();
        read.unwrap();
    });
}

/// Opens the store a hundred times; each opening shows whole batches, and never less than the one before.
fn read_again_and_again(dir: &Path) {
    let mut last = 0;
    for reading in 0..100 {
        let seen = RolloutStore::options().read_only(true).open(dir);
        let seen = seen.unwrap_or_else(|error| panic!("reading {reading}: {error:?}"));
        let end: u64 = std::str::from_utf8(&seen.cursor().unwrap()).unwrap().parse().unwrap();
        assert!(end >= last, "a later reading saw less: {end} after {last}");
        assert_eq!(seen.len() % 2, 0, "half a batch is seen");
        for id in seen.ids() {
            assert!(id.get() < end, "a batch without its cursor");
            assert_eq!(seen.get(id).unwrap().unwrap().old_logps().unwrap(), [logp(id.get()); 1_000]);
        }
        last = end;
    }
}
