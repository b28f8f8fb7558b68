//! Arguments that select a shared store.

use anyhow::bail;
use clap::Args;
use picktools_state::StateStore;
use picktools_store::{RedisOptions, RedisStore};

use crate::args::first_variable;
use crate::heading;

/// The variables that may contain the address of a store and the tenant.
const ADDRESS: &str = "PICKTOOLS_STORE";
const TENANT: &str = "PICKTOOLS_TENANT";

/// A store that several processes share.
#[derive(Args)]
#[command(next_help_heading = heading::STORE)]
pub(super) struct StoreArgs {
    /// Shared store: the URL of a Redis or Valkey database, or `env`.
    ///
    /// The URL has the form redis://USER:PASSWORD@HOST:PORT/DATABASE. Only the host is required.
    /// For TLS, write rediss://. `env` reads the URL from PICKTOOLS_STORE, so that other users of
    /// the machine do not see the password. Without --store, PICKTOOLS_STORE is ignored.
    ///
    /// `picktools index` publishes a catalog in the store. `pick` and gateways read it there. A
    /// store with a catalog needs Redis 8. An older Redis, or Valkey, needs RediSearch 2.10 or newer
    /// (docs/operations/scale.md). Gateways also keep their state in the store: approvals, pending
    /// calls and sessions. A store without a catalog needs Redis 7 or newer, or Valkey.
    #[arg(long, value_name = "URL|env")]
    store: Option<String>,
    /// Tenant: a separate area of the store.
    ///
    /// 1 to 64 characters of a-z, 0-9 and -. A tenant sees no data of another. The default is
    /// PICKTOOLS_TENANT, or else `default`.
    #[arg(long, value_name = "NAME", requires = "store")]
    tenant: Option<String>,
}

impl StoreArgs {
    /// Returns the store of a catalog, or `None` if no store is named.
    pub(super) fn catalog_store(&self) -> anyhow::Result<Option<RedisStore>> {
        self.open_for_tenant(self.tenant()?)
    }

    /// Returns the store in which evaluation sets are published, a separate part of the store.
    pub(super) fn evaluation_store(&self) -> anyhow::Result<Option<RedisStore>> {
        self.open_for_tenant(format!("{}-eval", self.tenant()?))
    }

    fn open_for_tenant(&self, tenant: String) -> anyhow::Result<Option<RedisStore>> {
        let Some(address) = self.address()? else {
            return Ok(None);
        };
        Ok(Some(RedisStore::new(RedisOptions {
            tenant,
            ..RedisOptions::new(address)
        })?))
    }

    /// Opens the store of the gateways' state, or returns `None` if no store is named.
    pub(super) fn open(&self) -> anyhow::Result<Option<StateStore>> {
        let Some(address) = self.address()? else {
            return Ok(None);
        };
        Ok(Some(StateStore::open(&address, &self.tenant()?)?))
    }

    /// Returns `true` if a store is named.
    pub(super) fn is_named(&self) -> bool {
        self.store.is_some()
    }

    fn address(&self) -> anyhow::Result<Option<String>> {
        if self.store.as_deref() != Some("env") {
            return Ok(self.store.clone());
        }
        match first_variable([ADDRESS].into_iter())? {
            Some(address) if !address.is_empty() => Ok(Some(address)),
            _ => bail!("--store env needs {ADDRESS}, which is not set or empty"),
        }
    }

    fn tenant(&self) -> anyhow::Result<String> {
        let tenant = match &self.tenant {
            Some(tenant) => Some(tenant.clone()),
            None => first_variable([TENANT].into_iter())?,
        };
        Ok(tenant.unwrap_or_else(|| "default".to_owned()))
    }
}
