//! The HTTP client and the TLS backend of every crate that connects to others.
//!
//! [`client_builder`] makes asynchronous clients. [`fetch`] and [`Download`] wait for an answer on
//! the calling thread, which may have a runtime of its own or none. `RedisConnection` (feature
//! `redis`) is a connection to a shared store with a deadline.

mod blocking;
mod error;
#[cfg(feature = "redis")]
mod redis_connection;

use std::sync::{Arc, LazyLock};

use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

pub use blocking::{Download, FetchedResponse, fetch};
pub use error::{FetchError, FetchErrorKind};
#[cfg(feature = "redis")]
pub use redis_connection::{RedisConnection, RedisLimits};

/// The user agent of all clients.
pub const USER_AGENT: &str = concat!("picktools/", env!("CARGO_PKG_VERSION"));

static TLS: LazyLock<Result<ClientConfig, String>> = LazyLock::new(client_config);

/// Makes the TLS backend the default of this process, for libraries that look for a default. If a
/// default exists already, it stays.
pub fn install_tls_backend() {
    drop(rustls::crypto::ring::default_provider().install_default());
}

/// Returns a builder of HTTP clients that follow no redirects. A key therefore reaches only the
/// configured server.
///
/// # Errors
///
/// The reason why the TLS backend cannot be set up.
pub fn client_builder() -> Result<reqwest::ClientBuilder, String> {
    let tls = TLS.clone()?;
    let builder = reqwest::Client::builder();
    Ok(builder
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(USER_AGENT))
}

/// Returns a configuration that trusts the certificates of the system, or those of Mozilla if the
/// system has none.
fn client_config() -> Result<ClientConfig, String> {
    let provider: Arc<CryptoProvider> = Arc::new(rustls::crypto::ring::default_provider());
    let setup_error = |error: rustls::Error| format!("cannot set up TLS: {error}");
    let builder = || {
        ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
    };
    match builder().map_err(setup_error)?.with_platform_verifier() {
        Ok(verified) => Ok(verified.with_no_client_auth()),
        Err(_) => {
            let roots = RootCertStore {
                roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
            };
            Ok(builder()
                .map_err(setup_error)?
                .with_root_certificates(roots)
                .with_no_client_auth())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_builds_without_a_default_tls_backend() {
        client_builder()
            .expect("TLS is set up")
            .build()
            .expect("the client is complete");
    }
}
