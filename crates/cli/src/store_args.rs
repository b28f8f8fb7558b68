//! Which store is shared with others, for the commands that use one.

use anyhow::bail;
use clap::Args;
use picktools_state::Store;
use picktools_store::{RedisOptions, RedisStore};

use crate::args::first_variable;
use crate::heading;

/// The variables in which the address of a store and a tenant may stand.
const ADDRESS: &str = "PICKTOOLS_STORE";
const TENANT: &str = "PICKTOOLS_TENANT";

/// A store that several processes share.
#[derive(Args)]
#[command(next_help_heading = heading::STORE)]
pub(super) struct StoreArgs {
    /// A Redis 8, or a Redis or Valkey with RediSearch, that several share (docs/scale.md):
    /// redis://USER:PASSWORD@HOST:PORT/DATABASE, of which only the host must be there, or rediss://
    /// for TLS; or `env` for the address in PICKTOOLS_STORE, where others do not see its password.
    #[arg(long, value_name = "URL|env")]
    store: Option<String>,
    /// Whose part of the store: tenants share nothing. 1 to 64 of a-z, 0-9 and -. Else what
    /// PICKTOOLS_TENANT says, or `default`.
    #[arg(long, value_name = "NAME", requires = "store")]
    tenant: Option<String>,
}

impl StoreArgs {
    /// The store of a catalog, where one is named.
    pub(super) fn catalog_store(&self) -> anyhow::Result<Option<RedisStore>> {
        self.store_of(self.tenant()?)
    }

    /// Where sets are published to be measured: in a part of the store that nothing else is in.
    pub(super) fn store_of_sets(&self) -> anyhow::Result<Option<RedisStore>> {
        self.store_of(format!("{}-eval", self.tenant()?))
    }

    fn store_of(&self, tenant: String) -> anyhow::Result<Option<RedisStore>> {
        let Some(address) = self.address()? else {
            return Ok(None);
        };
        Ok(Some(RedisStore::new(RedisOptions {
            tenant,
            ..RedisOptions::new(address)
        })?))
    }

    /// The store of what gateways keep, where one is named.
    pub(super) fn open(&self) -> anyhow::Result<Option<Store>> {
        let Some(address) = self.address()? else {
            return Ok(None);
        };
        Ok(Some(Store::open(&address, &self.tenant()?)?))
    }

    /// Whether a store is named.
    pub(super) fn is_named(&self) -> bool {
        self.store.is_some()
    }

    fn address(&self) -> anyhow::Result<Option<String>> {
        match self.store.as_deref() {
            Some("env") => {
                match first_variable([ADDRESS].into_iter())?.filter(|address| !address.is_empty()) {
                    Some(address) => Ok(Some(address)),
                    None => bail!("--store env reads {ADDRESS}, which is not set, or empty"),
                }
            }
            address => Ok(address.map(str::to_owned)),
        }
    }

    fn tenant(&self) -> anyhow::Result<String> {
        let named = match &self.tenant {
            Some(tenant) => Some(tenant.clone()),
            None => first_variable([TENANT].into_iter())?,
        };
        Ok(named.unwrap_or_else(|| "default".to_owned()))
    }
}
