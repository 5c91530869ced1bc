//! A client of the service that a URL names, with credentials from the environment.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, Checksum};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};
use rollstore::Result;

use crate::failure::Failures;
use crate::options::Options;
use crate::place::{Place, Scheme};

pub(crate) fn connect(place: &Place, options: &Options, failures: &Failures) -> Result<Arc<dyn ObjectStore>> {
    static MEMORY: OnceLock<Arc<InMemory>> = OnceLock::new();
    choose_cryptography();
    let made = match place.scheme {
        Scheme::S3 => s3(place, options).map(|store| Arc::new(store) as Arc<dyn ObjectStore>),
        Scheme::Gcs => gcs(place, options).map(|store| Arc::new(store) as _),
        Scheme::Azure => azure(place, options).map(|store| Arc::new(store) as _),
        // A checkpoint there survives power loss, as one of the library's own does.
        Scheme::File => Ok(Arc::new(LocalFileSystem::new().with_fsync(true)) as _),
        Scheme::Memory => Ok(Arc::clone(MEMORY.get_or_init(Arc::default)) as _),
    };
    made.map_err(|error| failures.of("connect", &error))
}

/// A builder with what the environment says to it, and what is the same for all of them.
macro_rules! configured {
    ($builder:expr, $options:expr) => {{
        let variables = $options.environment.variables().into_iter();
        let known = variables.filter_map(|(name, value)| Some((name.to_ascii_lowercase().parse().ok()?, value)));
        known.fold($builder, |builder, (key, value)| builder.with_config(key, value)).with_retry(retry($options))
    }};
}

fn s3(place: &Place, options: &Options) -> object_store::Result<impl ObjectStore> {
    // Every request is signed over its bytes; this header has the service keep the checksum with the object too.
    let builder = AmazonS3Builder::new().with_checksum_algorithm(Checksum::SHA256);
    configured!(builder, options).with_bucket_name(&place.bucket).build()
}

fn gcs(place: &Place, options: &Options) -> object_store::Result<impl ObjectStore> {
    configured!(GoogleCloudStorageBuilder::new(), options).with_bucket_name(&place.bucket).build()
}

fn azure(place: &Place, options: &Options) -> object_store::Result<impl ObjectStore> {
    configured!(MicrosoftAzureBuilder::new(), options).with_container_name(&place.bucket).build()
}

/// A service that was restarted answers within seconds: the longest pause is one that nobody minds waiting behind it.
fn retry(options: &Options) -> RetryConfig {
    let backoff =
        BackoffConfig { init_backoff: Duration::from_millis(100), max_backoff: Duration::from_secs(5), base: 2.0 };
    // The time bounds them, not their number.
    RetryConfig { backoff, max_retries: 1000, retry_timeout: options.retry_for }
}

/// Gives the process's TLS its cryptography, unless the program chose one.
fn choose_cryptography() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may have been faster: it chose one too.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
