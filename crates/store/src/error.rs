//! What can go wrong with a store.

use picktools::shard::IndexError;

/// An error of a shared store. The store's address is given without its password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The address cannot be read.
    #[error(
        "{address:?} is no address of a store: {reason}; write redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]"
    )]
    Address {
        /// The address, without its password.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A tenant is not called so.
    #[error(
        "{tenant:?} is no name of a tenant: use 1 to 64 lower-case letters, digits and hyphens"
    )]
    Tenant {
        /// The name.
        tenant: String,
    },
    /// The store cannot be reached, is too slow, or refuses what is asked of it.
    #[error("the store {address}: {reason}")]
    Unavailable {
        /// The address, without its password.
        address: String,
        /// What happened.
        reason: String,
    },
    /// Nothing was published.
    #[error(
        "the store {address} holds no catalog of the tenant {tenant:?}; publish one with: picktools index --store"
    )]
    Empty {
        /// The address, without its password.
        address: String,
        /// The tenant.
        tenant: String,
    },
    /// What lies in the store is not what was published.
    #[error(
        "the store {address}: {place} is damaged: {reason}; publish the catalog again, with `index --store … --anew`"
    )]
    Damaged {
        /// The address, without its password.
        address: String,
        /// The key.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The snapshot was published with models that this engine does not have.
    #[error(
        "the catalog was published with {published}, and this engine has {here}; open it with the same model"
    )]
    Models {
        /// Those of the snapshot.
        published: String,
        /// Those of the engine.
        here: String,
    },
    /// Somebody else publishes, or has published since this publication began. Nothing has changed.
    #[error(
        "the store {address}: {reason}; try again when that is done, or in a minute, should it have been cut off"
    )]
    Busy {
        /// The address, without its password.
        address: String,
        /// What is going on.
        reason: String,
    },
    /// A catalog that cannot be published.
    #[error("the catalog cannot be published: {reason}")]
    Catalog {
        /// Why not.
        reason: String,
    },
    /// What came from the store cannot be indexed.
    #[error(transparent)]
    Index(#[from] IndexError),
}
