//! What failed in object storage, as one line that names what, where and the next step, and no secret.
//!
//! Always true:
//! - F1. No value of a variable that may be a secret, no query of a URL and no request of a client is in a message. An error has no
//!   source: what the client says comes through here or nowhere.

use object_store::Error as StoreError;
use rollstore::{Error, ErrorKind};

use crate::options::Environment;
use crate::place::{Place, Scheme};

/// Longest part of a service's own words that is repeated, in characters.
const WORDS_CHARS: usize = 400;

/// What is asked by who has no credentials: the machine's own service for them.
const NO_CREDENTIALS: [&str; 5] =
    ["169.254.169.254", "latest/api/token", "latest/meta-data", "metadata.google.internal", "redential"];

/// Makes the library's errors of a service's, for one place.
#[derive(Clone)]
pub(crate) struct Failures {
    place: Place,
    secrets: Vec<String>,
}

impl Failures {
    pub(crate) fn new(place: &Place, environment: &Environment) -> Self {
        let mut secrets: Vec<String> = environment.secrets().collect();
        // A secret that holds another one is taken out first.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { place: place.clone(), secrets }
    }

    /// `what` is what was being done: `"list the checkpoints"`.
    pub(crate) fn of(&self, what: &str, error: &StoreError) -> Error {
        let Place { url, bucket, .. } = &self.place;
        let text = chain(error);
        let (kind, cause) = match error {
            _ if text.contains("NoSuchBucket") || text.contains("ContainerNotFound") => {
                (ErrorKind::NotFound, format!("there is no bucket \"{bucket}\"; check its name, {}", self.endpoint()))
            }
            StoreError::NotFound { .. } => (ErrorKind::NotFound, format!("it is not there: {}", self.words(&text))),
            _ if self.place.scheme == Scheme::File => (file_kind(&text), self.words(&text)),
            StoreError::Generic { store: "Config", .. } | StoreError::UnknownConfigurationKey { .. } => {
                let variables = self.variables();
                (
                    ErrorKind::Invalid,
                    format!("a variable of the environment has a value that it must not have; check {variables}"),
                )
            }
            StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => {
                (ErrorKind::Io, format!("access is refused ({}); check {}", self.words(&text), self.credentials()))
            }
            _ if NO_CREDENTIALS.iter().any(|mark| text.contains(mark)) => {
                (ErrorKind::Io, format!("there are no credentials ({}); set {}", self.words(&text), self.credentials()))
            }
            _ if text.contains("URL scheme is not allowed") => (
                ErrorKind::Io,
                "the endpoint is http and not https; set AWS_ALLOW_HTTP=true where that is meant".to_owned(),
            ),
            _ => {
                (ErrorKind::Io, format!("{}; check the network, {}, and try again", self.words(&text), self.endpoint()))
            }
        };
        Error::new(kind, format!("could not {what} at {}: {cause}", self.scrubbed(url)))
    }

    fn credentials(&self) -> &'static str {
        match self.place.scheme {
            Scheme::S3 => "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment",
            Scheme::Gcs => "GOOGLE_APPLICATION_CREDENTIALS in the environment",
            Scheme::Azure => "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY in the environment",
            Scheme::File | Scheme::Memory => "the permissions of the directory",
        }
    }

    fn variables(&self) -> &'static str {
        match self.place.scheme {
            Scheme::S3 => "those that begin with AWS_",
            Scheme::Gcs => "those that begin with GOOGLE_",
            Scheme::Azure => "those that begin with AZURE_",
            Scheme::File | Scheme::Memory => "the URL",
        }
    }

    fn endpoint(&self) -> &'static str {
        match self.place.scheme {
            Scheme::S3 => "AWS_REGION and AWS_ENDPOINT_URL",
            Scheme::Azure => "AZURE_STORAGE_ACCOUNT_NAME",
            Scheme::Gcs | Scheme::File | Scheme::Memory => "the URL",
        }
    }

    /// The service's own words, cut to what a person needs: of an answer in XML its code and message, else the text.
    fn words(&self, text: &str) -> String {
        let tag = |name: &str| Some(text.split_once(&format!("<{name}>"))?.1.split_once(&format!("</{name}>"))?.0);
        let told = match (tag("Code"), tag("Message")) {
            (Some(code), message) => format!("{code}: {}", message.unwrap_or_default()),
            _ => text.to_owned(),
        };
        let told = self.scrubbed(&told).split_whitespace().map(without_query).collect::<Vec<_>>().join(" ");
        told.chars().take(WORDS_CHARS).collect()
    }

    /// The text without any secret.
    pub(crate) fn scrubbed(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
    }
}

/// An error and what it was caused by, which its own text may leave out.
fn chain(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        let told = error.to_string();
        if !text.contains(&told) {
            text.push_str(": ");
            text.push_str(&told);
        }
        source = error.source();
    }
    text
}

/// A word of a message; a URL loses its query, which may be signed.
fn without_query(word: &str) -> &str {
    match word.split_once('?') {
        Some((url, _)) if url.contains("://") => url,
        _ => word,
    }
}

fn file_kind(text: &str) -> ErrorKind {
    let full = text.contains("No space left") || text.contains("quota");
    if full { ErrorKind::Full } else { ErrorKind::Io }
}
