//! Errors of a shared store.

use picktools::shard::IndexError;

/// An error of a shared store. Messages contain the store's address without its password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The address is invalid.
    #[error(
        "invalid store address {address:?}: {reason}; \
         write redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]"
    )]
    Address {
        /// The address, without its password.
        address: String,
        /// The cause.
        reason: String,
    },
    /// The name of the tenant is invalid.
    #[error("invalid tenant name {tenant:?}; use 1 to 64 lower-case letters, digits and hyphens")]
    Tenant {
        /// The name.
        tenant: String,
    },
    /// The store cannot be reached, is too slow, or refuses a command.
    #[error("the store {address} cannot be used: {reason}")]
    Unavailable {
        /// The address, without its password.
        address: String,
        /// The cause.
        reason: String,
    },
    /// The store has no catalog of the tenant.
    #[error(
        "the store {address} has no catalog of the tenant {tenant:?}; \
         publish one with: picktools index --store"
    )]
    Empty {
        /// The address, without its password.
        address: String,
        /// The tenant.
        tenant: String,
    },
    /// The data in the store differs from the published data.
    #[error(
        "the store {address}: {place} is damaged: {reason}; \
         publish the catalog again, with `index --store … --anew`"
    )]
    Damaged {
        /// The address, without its password.
        address: String,
        /// The damaged key or object.
        place: String,
        /// The cause.
        reason: String,
    },
    /// The snapshot was published with other models than those of this engine.
    #[error(
        "the catalog was published with {published}, but this engine has {here}; \
         open it with the same model"
    )]
    Models {
        /// The models of the snapshot.
        published: String,
        /// The models of the engine.
        here: String,
    },
    /// Another publisher is active, or has published since this publication began.
    ///
    /// Nothing has changed.
    #[error(
        "the store {address} is busy: {reason}; \
         try again later (the lock of an interrupted publisher expires after a minute)"
    )]
    Busy {
        /// The address, without its password.
        address: String,
        /// The cause.
        reason: String,
    },
    /// The catalog cannot be published.
    #[error("the catalog cannot be published: {reason}")]
    Catalog {
        /// The cause.
        reason: String,
    },
    /// The rows of the store cannot be indexed.
    #[error(transparent)]
    Index(#[from] IndexError),
}
