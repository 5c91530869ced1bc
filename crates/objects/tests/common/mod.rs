//! A real S3 server on loopback, over a directory, whose requests are seen and which can be killed; and stores to send to it.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rollstore::{NewRollout, RolloutStore, inspect};
use rollstore_objects::Options;
use rollstore_testkit::scratch::Scratch;
use rollstore_testkit::store::rollout;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// Where checkpoints go.
pub(crate) const URL: &str = "s3://bucket/run";

pub(crate) const ACCESS_KEY: &str = "AKIDPLANTEDACCESSKEY";
pub(crate) const SECRET_KEY: &str = "planted/secret+key=of the server";

/// Called with each request before it is served: how many there were, and `"PUT /bucket/key"`.
pub(crate) type Hook = Arc<dyn Fn(usize, &str) + Send + Sync>;

/// A server. Killed when dropped.
pub(crate) struct Server {
    root: PathBuf,
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
    hook: Hook,
    runtime: Option<Runtime>,
    /// Whether this start of it was killed.
    is_dead: Arc<AtomicBool>,
}

impl Server {
    /// A server with one empty bucket, `bucket`, in a directory of its own.
    pub(crate) fn start(scratch: &Scratch) -> Self {
        Self::start_with(scratch, Arc::new(|_, _| {}))
    }

    pub(crate) fn start_with(scratch: &Scratch, hook: Hook) -> Self {
        Self::over(scratch.path("server"), hook)
    }

    /// A server with the bucket `bucket` in a directory.
    pub(crate) fn over(root: PathBuf, hook: Hook) -> Self {
        std::fs::create_dir_all(root.join("bucket")).unwrap();
        let mut server = Self { root, port: 0, seen: Arc::default(), hook, runtime: None, is_dead: Arc::default() };
        server.run();
        server
    }

    /// Starts it, or starts it again at the same address.
    pub(crate) fn run(&mut self) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = loop {
            match runtime.block_on(TcpListener::bind(("127.0.0.1", self.port))) {
                Ok(listener) => break listener,
                // One that was killed lets go of its address when its threads have seen it.
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => std::thread::yield_now(),
                Err(error) => panic!("no address: {error}"),
            }
        };
        self.port = listener.local_addr().unwrap().port();
        let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(&self.root).unwrap());
        builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        self.is_dead = Arc::default();
        let watch =
            Watch { seen: Arc::clone(&self.seen), hook: Arc::clone(&self.hook), is_dead: Arc::clone(&self.is_dead) };
        runtime.spawn(serve(listener, builder.build(), watch));
        self.runtime = Some(runtime);
    }

    /// Ends it as a crash would: no connection is closed in order, nothing under way comes to its end.
    pub(crate) fn kill(&mut self) {
        self.is_dead.store(true, Ordering::SeqCst);
        self.runtime.take().unwrap().shutdown_background();
    }

    /// Requests since the last call.
    pub(crate) fn seen(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.seen))
    }

    /// Looks at the requests since then.
    pub(crate) fn peek<T>(&self, look: impl FnOnce(&[String]) -> T) -> T {
        look(&lock(&self.seen))
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What a program's environment needs for this server.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let pairs = [
            ("AWS_ENDPOINT_URL", self.endpoint().as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        pairs.to_vec()
    }

    /// Options with this server's credentials.
    pub(crate) fn options(&self) -> Options {
        let variables = self.variables();
        let pairs: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        Options::default().environment(&pairs)
    }

    /// Files of the bucket below a key, as the server keeps them, sorted.
    pub(crate) fn files(&self, under: &str) -> Vec<PathBuf> {
        fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                if entry.path().is_dir() { walk(&entry.path(), found) } else { found.push(entry.path()) }
            }
        }
        let mut found = Vec::new();
        walk(&self.root.join("bucket").join(under), &mut found);
        found.sort();
        found
    }
}

/// What is seen of requests, and done to them.
#[derive(Clone)]
struct Watch {
    seen: Arc<Mutex<Vec<String>>>,
    hook: Hook,
    is_dead: Arc<AtomicBool>,
}

async fn serve(listener: TcpListener, service: S3Service, watch: Watch) {
    while let Ok((socket, _)) = listener.accept().await {
        let (service, watch) = (service.clone(), watch.clone());
        let watched = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
            let told = format!("{} {}{query}", request.method(), request.uri().path());
            let count = {
                let mut seen = lock(&watch.seen);
                seen.push(told.clone());
                seen.len()
            };
            // It may wait, for a test or a process that is killed.
            tokio::task::block_in_place(|| (watch.hook)(count, &told));
            let (answer, is_dead) = (Service::call(&service, request), Arc::clone(&watch.is_dead));
            async move {
                let answer = answer.await;
                // One that is killed must say nothing of the files that it could not open any more.
                if is_dead.load(Ordering::SeqCst) {
                    std::future::pending::<()>().await;
                }
                answer
            }
        });
        tokio::spawn(async move {
            let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(TokioIo::new(socket), watched).await;
        });
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts rollouts of these ids into a store.
pub(crate) fn fill(store: &RolloutStore, ids: std::ops::Range<u64>) {
    let mut batch = store.batch();
    ids.for_each(|id| batch.insert(rollout(id, 3, 0)).unwrap());
    batch.cursor(b"where the loader is");
    batch.commit().unwrap();
}

/// Puts one rollout of so many bytes, about, into a store.
pub(crate) fn fill_large(store: &RolloutStore, id: u64, bytes: usize) {
    let values: Vec<u32> =
        (0..bytes / 4).map(|place| u32::try_from(place).unwrap().wrapping_mul(0x9E37_79B9)).collect();
    store.insert(NewRollout::new(id, 3).completion_ids(values)).unwrap();
}

/// Asserts that two directories hold the same store: nothing differs, and segments are equal bit for bit.
#[track_caller]
pub(crate) fn assert_equal(a: &Path, b: &Path) {
    let differences = inspect::diff(a, b).unwrap();
    assert!(differences.is_empty(), "{differences:?}");
    let (ours, theirs) = (inspect::parts(a).unwrap().unwrap(), inspect::parts(b).unwrap().unwrap());
    assert_eq!(ours.run, theirs.run);
    let mut compared = 0;
    for part in ours.segments.iter().filter(|part| part.bytes > 0) {
        let [a, b] = [a, b].map(|dir| std::fs::read(dir.join(part.file_name())).unwrap());
        assert!(a == b, "{} differs", part.file_name());
        compared += 1;
    }
    assert!(compared > 0);
}

/// Names beside the store that an upload or a restore made.
pub(crate) fn left_over(scratch: &Scratch) -> Vec<String> {
    let names = std::fs::read_dir(scratch.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter_map(|name| name.into_string().ok()).filter(|name| name.contains("ing")).collect()
}
