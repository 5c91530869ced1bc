//! The URL of a prefix in object storage: what it may be, and how it is shown.
//!
//! Knows nothing of clients.
//!
//! Always true:
//! - U1. A URL that may hold a secret is refused, and no part of it is repeated.

use object_store::path::Path;
use rollstore::{Error, Result};
use url::Url;

/// A prefix under which checkpoints are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) scheme: Scheme,
    /// The bucket or container; empty for a directory and for memory.
    pub(crate) bucket: String,
    /// The keys below which everything lies.
    pub(crate) prefix: Path,
    /// The URL as it was given, without a slash at its end.
    pub(crate) url: String,
}

/// Which service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    S3,
    Gcs,
    Azure,
    File,
    /// This process's own memory: for trying things out.
    Memory,
}

const FORMS: &str = "s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or file:///directory";

impl Place {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let parsed =
            Url::parse(url).map_err(|error| Error::invalid(format!("this is no URL ({error}); use {FORMS}")))?;
        let has_user = !parsed.username().is_empty() || parsed.password().is_some();
        if has_user || parsed.query().is_some() || parsed.fragment().is_some() {
            let has = if has_user { "a user name or password" } else { "a query or fragment" };
            let message = format!(
                "the URL has {has}, where secrets stand; credentials come from the environment alone: use {FORMS}"
            );
            return Err(Error::invalid(message));
        }
        let shown = url.trim_end_matches('/').to_owned();
        let scheme = match parsed.scheme() {
            "s3" | "s3a" => Scheme::S3,
            "gs" => Scheme::Gcs,
            "az" | "azure" => Scheme::Azure,
            "file" => Scheme::File,
            "memory" => Scheme::Memory,
            other => {
                return Err(Error::invalid(format!("\"{other}://\" is no object storage that is known; use {FORMS}")));
            }
        };
        let bucket = parsed.host_str().unwrap_or_default().to_owned();
        let needs_bucket = !matches!(scheme, Scheme::File | Scheme::Memory);
        if bucket.is_empty() == needs_bucket {
            let what = if needs_bucket { "names no bucket" } else { "has two slashes where three are needed" };
            return Err(Error::invalid(format!("{shown} {what}; use {FORMS}")));
        }
        let prefix = Path::from_url_path(parsed.path())
            .map_err(|error| Error::invalid(format!("{shown} is no prefix: {error}; use {FORMS}")))?;
        Ok(Self { scheme, bucket, prefix, url: shown })
    }
}

/// Whether a text is a URL, and not a path: it has `://` behind letters, digits, `+`, `-` or `.` alone.
///
/// # Is this a directory?
/// ```
/// use rollstore_objects::is_url;
/// assert!(is_url("s3://bucket/run") && !is_url("run/rollouts") && !is_url("./odd://name"));
/// ```
#[must_use]
pub fn is_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_may_hold_a_secret_is_refused_and_not_repeated() {
        for url in
            ["s3://key:hush@bucket/run", "s3://hush@bucket", "az://c/run?sig=hush", "gs://b/run#hush", "s3://b /hush"]
        {
            let error = Place::parse(url).unwrap_err().to_string();
            assert!(!error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn a_url_is_a_service_a_bucket_and_a_prefix() {
        let place = Place::parse("s3://bucket/run/shard%2D1/").unwrap();
        assert_eq!((place.scheme, &*place.bucket, place.prefix.as_ref()), (Scheme::S3, "bucket", "run/shard-1"));
        assert_eq!(Place::parse("gs://bucket").unwrap().prefix.as_ref(), "");
        assert_eq!(Place::parse("file:///tmp/x").unwrap().prefix.as_ref(), "tmp/x");
        for url in
            ["s3:///run", "file://run/x", "ftp://host/x", "https://bucket.s3.amazonaws.com/run", "run/rollouts", ""]
        {
            assert!(Place::parse(url).is_err(), "{url}");
        }
    }
}
