//! Goal: no credential is in an error, its debug form, a log line or an object. Method: keys and tokens are planted, requests fail in
//! every way that a server can make them fail, and all that comes out is searched.

mod common;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{ACCESS_KEY, SECRET_KEY, Server, fill, lock};
use rollstore::{Error, ErrorKind};
use rollstore_objects::{Options, checkpoint, list, restore, retain, verify};
use rollstore_testkit::scratch::{Scratch, assert_says};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

const TOKEN: &str = "planted+session/token==";
const PLANTED: [&str; 4] = [ACCESS_KEY, SECRET_KEY, TOKEN, "planted"];

/// Keeps every line of this process's log, at every level, of every crate.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        if !is_servers(attributes.metadata()) {
            attributes.record(&mut Writer(&self.0));
        }
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        if !is_servers(event.metadata()) {
            event.record(&mut Writer(&self.0));
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// Whether the server said it, which is the other party and runs in this process.
fn is_servers(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("s3s")
}

struct Writer<'a>(&'a Mutex<String>);

impl Visit for Writer<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        writeln!(lock(self.0), "{field}: {value:?}").unwrap();
    }
}

#[track_caller]
fn assert_clean(text: &str) {
    for secret in PLANTED {
        let encoded: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        assert!(!text.contains(secret) && !text.contains(&encoded), "{secret:?} is in {text}");
    }
}

/// What an error shows, in every form, with its sources.
fn shown(error: &Error) -> String {
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        write!(text, " {error} {error:?}").unwrap();
        source = error.source();
    }
    text
}

/// Options for a server, with some variables changed.
fn with(server: &Server, changed: &[(&str, &str)]) -> Options {
    let variables = server.variables();
    let kept = variables.iter().filter(|(name, _)| changed.iter().all(|(other, _)| other != name));
    let mut pairs: Vec<_> = kept.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    pairs.extend(changed);
    Options::default().environment(&pairs).retry_for(Duration::from_millis(50))
}

#[test]
fn planted_secrets_are_in_nothing_that_comes_out() {
    let log = Log::default();
    tracing::subscriber::set_global_default(log.clone()).unwrap();
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let store = scratch.open();
    fill(&store, 0..10);
    let wrong = [
        with(&server, &[("AWS_SECRET_ACCESS_KEY", "planted but wrong")]),
        with(&server, &[("AWS_ACCESS_KEY_ID", "planted, unknown"), ("AWS_SESSION_TOKEN", TOKEN)]),
        with(&server, &[("AWS_ENDPOINT_URL", "http://127.0.0.1:1"), ("AWS_SESSION_TOKEN", TOKEN)]),
        with(&server, &[("AWS_ALLOW_HTTP", "planted")]),
        with(&server, &[("AWS_ALLOW_HTTP", "false")]),
        with(&server, &[("AWS_CONDITIONAL_PUT", "planted+session/token==")]),
    ];
    let mut errors = 0;
    for options in &wrong {
        assert_clean(&format!("{options:?}"));
        for url in ["s3://bucket/run", "s3://none/run"] {
            let again = scratch.path("again");
            let results = [
                checkpoint(&store, url, Some(1), options).map(drop),
                list(url, options).map(drop),
                restore(url, &again, None, options).map(drop),
                verify(url, options).map(drop),
                retain(url, 1, options).map(drop),
            ];
            for error in results.into_iter().filter_map(Result::err) {
                assert_clean(&shown(&error));
                errors += 1;
            }
        }
    }
    assert_eq!(errors, wrong.len() * 10, "everything fails");
    checkpoint(&store, "s3://bucket/run", Some(1), &server.options()).unwrap();
    for path in server.files("") {
        assert_clean(&String::from_utf8_lossy(&std::fs::read(path).unwrap()));
    }
    let log = lock(&log.0);
    assert!(!log.is_empty(), "something is logged");
    log.lines().for_each(assert_clean);
}

#[test]
fn a_url_with_a_secret_is_refused_without_it() {
    let scratch = Scratch::new();
    let store = scratch.open();
    for url in
        ["s3://planted:planted@bucket/run", "s3://bucket/run?token=planted", "az://c/run#planted", "s3://planted@b/run"]
    {
        for error in [
            checkpoint(&store, url, None, &Options::default()).map(drop),
            restore(url, scratch.path("again"), None, &Options::default()).map(drop),
            list(url, &Options::default()).map(drop),
        ] {
            let error = error.unwrap_err();
            assert_says(&error, ErrorKind::Invalid, &["credentials come from the environment"]);
            assert_clean(&shown(&error));
        }
    }
}
