//! The objects under a prefix: put, get, list, delete, with the library's errors.
//!
//! Knows nothing of what is in them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{Error as StoreError, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use rollstore::{Error, Result};

use crate::connect::connect;
use crate::failure::Failures;
use crate::options::Options;
use crate::place::{Place, Scheme};

/// A prefix that a client speaks to.
#[derive(Clone)]
pub(crate) struct Remote {
    store: Arc<dyn ObjectStore>,
    place: Place,
    failures: Failures,
    pub(crate) options: Options,
}

/// One object of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    /// The key below the prefix.
    pub(crate) key: String,
    pub(crate) bytes: u64,
    /// When it was put, by the service's own clock.
    pub(crate) put_at: SystemTime,
}

impl Remote {
    /// Speaks to no one yet.
    pub(crate) fn new(url: &str, options: &Options) -> Result<Self> {
        let place = Place::parse(url)?;
        let failures = Failures::new(&place, &options.environment);
        let store = connect(&place, options, &failures)?;
        Ok(Self { store, place, failures, options: options.clone() })
    }

    /// The URL of an object, for messages; of the prefix itself for an empty key.
    pub(crate) fn url(&self, key: &str) -> String {
        let slash = if key.is_empty() { "" } else { "/" };
        self.failures.scrubbed(&format!("{}{slash}{key}", self.place.url))
    }

    /// The directory that is a key, where the service is a file system.
    pub(crate) fn directory(&self, key: &str) -> Option<PathBuf> {
        let is_file = self.place.scheme == Scheme::File;
        is_file.then(|| LocalFileSystem::new().path_to_filesystem(&self.path(key)).ok()).flatten()
    }

    fn path(&self, key: &str) -> Path {
        key.split('/').fold(self.place.prefix.clone(), Path::join)
    }

    /// Puts an object, in one step; one of that key is replaced.
    pub(crate) async fn put(&self, key: &str, bytes: Vec<u8>) -> Result<()> {
        let put = self.store.put(&self.path(key), PutPayload::from(bytes)).await;
        put.map(drop).map_err(|error| self.failures.of(&format!("write {key}"), &error))
    }

    /// Puts an object where there is none of that key: false where there is one. A service that knows no such condition puts it.
    pub(crate) async fn put_new(&self, key: &str, bytes: Vec<u8>) -> Result<bool> {
        let payload = PutPayload::from(bytes);
        let mut put = self.store.put_opts(&self.path(key), payload.clone(), PutMode::Create.into()).await;
        if let Err(StoreError::NotImplemented { .. } | StoreError::NotSupported { .. }) = put {
            put = self.store.put(&self.path(key), payload).await;
        }
        match put {
            Ok(_) => Ok(true),
            Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => Ok(false),
            Err(error) => Err(self.failures.of(&format!("write {key}"), &error)),
        }
    }

    /// Begins an object that is put in parts.
    pub(crate) async fn put_parts(&self, key: &str) -> Result<Box<dyn MultipartUpload>> {
        let begun = self.store.put_multipart(&self.path(key)).await;
        begun.map_err(|error| self.failures.of(&format!("begin to write {key}"), &error))
    }

    /// An error of an object that is put in parts.
    pub(crate) fn part_failed(&self, key: &str, error: &StoreError) -> Error {
        self.failures.of(&format!("write {key}"), error)
    }

    /// A whole object; `None` where there is none.
    pub(crate) async fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let got = async { self.store.get(&self.path(key)).await?.bytes().await };
        match got.await {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(error @ StoreError::NotFound { .. }) if !self.is_no_bucket(&error) => Ok(None),
            Err(error) => Err(self.failures.of(&format!("read {key}"), &error)),
        }
    }

    /// Bytes `at ..` of an object, fewer where it ends before.
    pub(crate) async fn get_range(&self, key: &str, at: std::ops::Range<u64>) -> Result<Vec<u8>> {
        let got = self.store.get_range(&self.path(key), at).await;
        got.map(Vec::from).map_err(|error| self.failures.of(&format!("read {key}"), &error))
    }

    /// Everything below a key.
    pub(crate) async fn list(&self, under: &str) -> Result<Vec<Listed>> {
        let at = self.path(under);
        let relative = |path: &Path| {
            let parts: Vec<_> = path.parts().skip(self.place.prefix.parts_count()).collect();
            parts.iter().map(AsRef::as_ref).collect::<Vec<_>>().join("/")
        };
        let listed = self.store.list(Some(&at)).try_collect::<Vec<_>>().await;
        match listed {
            Ok(objects) => Ok(objects
                .into_iter()
                .map(|object| Listed {
                    key: relative(&object.location),
                    bytes: object.size,
                    put_at: object.last_modified.into(),
                })
                .collect()),
            // A directory that nothing was put into.
            Err(StoreError::NotFound { .. }) if self.place.bucket.is_empty() => Ok(Vec::new()),
            Err(error) => Err(self.failures.of(&format!("list {under}"), &error)),
        }
    }

    /// Deletes objects; those that are not there are passed over.
    pub(crate) async fn delete(&self, keys: Vec<String>) -> Result<()> {
        let paths: Vec<_> = keys.iter().map(|key| Ok(self.path(key))).collect();
        let mut deleted = self.store.delete_stream(stream::iter(paths).boxed());
        while let Some(deleted) = deleted.next().await {
            match deleted {
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(self.failures.of("delete what is no longer needed", &error)),
            }
        }
        Ok(())
    }

    fn is_no_bucket(&self, error: &StoreError) -> bool {
        !self.place.bucket.is_empty() && error.to_string().contains("NoSuchBucket")
    }
}

/// How much later `now` is; nothing where it is earlier.
pub(crate) fn later(now: SystemTime, than: SystemTime) -> Duration {
    now.duration_since(than).unwrap_or_default()
}
