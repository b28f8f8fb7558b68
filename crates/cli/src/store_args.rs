//! Which store gateways share, for the commands that use one.

use clap::Args;
use picktools_server::Store;

use crate::heading;

/// A store that several gateways share.
#[derive(Args)]
pub(super) struct StoreArgs {
    /// Keep what gateways share in this store, Redis or Valkey, in place of files: redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], or
    /// rediss:// for TLS (docs/gateway.md). A password belongs into the variable, where others do not see it.
    #[arg(long, value_name = "URL", env = "PICKTOOLS_STORE", hide_env_values = true, help_heading = heading::GATEWAY)]
    store: Option<String>,
    /// Whose gateway it is: tenants of a store share nothing. 1 to 64 of a-z, 0-9 and -.
    #[arg(long, value_name = "NAME", env = "PICKTOOLS_TENANT", default_value = "default", help_heading = heading::GATEWAY)]
    tenant: String,
}

impl StoreArgs {
    /// The store, where one is named.
    pub(super) fn open(&self) -> anyhow::Result<Option<Store>> {
        Ok(self.store.as_deref().map(|url| Store::open(url, &self.tenant)).transpose()?)
    }
}
