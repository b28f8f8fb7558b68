//! Settings of a gateway: upstreams, roles, keys and limits of results.

mod keys;
mod proxy;
mod roles;
#[cfg(test)]
mod tests;
mod tools;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use picktools::catalog::{NoSchemaMode, OperatorAliases};
use picktools::examples::Examples;
use picktools::names::ToolPatterns;
use picktools::{Access, Catalog, Tool};
use picktools_audit::AuditSettings;
use picktools_import::mcp::{Server, ServerTransport, inherited_name_fault};
use picktools_import::parse_jsonc;
use serde::{Deserialize, Serialize};

use crate::naming;

pub use self::keys::Key;
pub use self::proxy::{HostTools, ProviderSettings, ProxyMode, ProxySettings};
pub use self::roles::{DEFAULT_ROLE, Role, Unsafe};
pub use self::tools::{ToolHints, ToolOverride, ToolOverrides};

/// The name for settings of all other upstreams.
const ALL: &str = "*";

/// Settings of a gateway. In JSON every member is optional, comments are allowed, and unknown
/// members are errors.
///
/// ```
/// use picktools_gateway::Settings;
///
/// let settings = Settings::parse(r#"{"mode": "search", "upstreams": {"git": {"call_s": 30}}}"#)?;
/// assert_eq!(settings.upstream("git").call_s, 30);
/// assert_eq!(settings.upstream("mail").call_s, 120);
/// Settings::parse(r#"{"mode": "serach"}"#).expect_err("an unknown value is an error");
/// # Ok::<(), picktools_gateway::SettingsError>(())
/// ```
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The tools that are listed to clients.
    pub mode: Mode,
    /// The most tokens up to which `auto` lists all tools; 4,000 by default.
    pub pass_through_tokens: Option<usize>,
    /// The most tokens of the definitions that a search returns; 6,000 by default.
    pub search_tokens: Option<usize>,
    /// Names and globs of tools that are always listed, in addition to the front tools.
    pub always_include: Vec<String>,
    /// Names and globs of general tools that a search returns if no other tool fits.
    pub fallbacks: Vec<String>,
    /// The style of tool names.
    pub names: NameStyle,
    /// `true` if equal tools of several servers are shown as one tool with a parameter for the
    /// server.
    pub merge_accounts: bool,
    /// The built-in sample requests that count in ranking. `None` by default.
    pub examples: Option<BuiltInExamples>,
    /// The trust in definitions that were not approved.
    pub trust: Trust,
    /// The mode of servers' tools without a schema. `None`: they are left out.
    pub allow_no_schema: Option<NoSchemaMode>,
    /// The settings of upstreams, by their names in the configuration; `*` stands for all others.
    pub upstreams: BTreeMap<String, UpstreamSettings>,
    /// The roles. [`DEFAULT_ROLE`] is the role of callers without another one.
    pub roles: BTreeMap<String, Role>,
    /// Limits of results.
    pub results: ResultSettings,
    /// The number of seconds in which requests under way may finish when the gateway ends; 10 by
    /// default.
    pub drain_s: Option<u64>,
    /// The API keys of callers over HTTP.
    pub keys: Vec<Key>,
    /// The role of callers without a key, from this machine only. If there are keys and this is
    /// missing, a key is required.
    pub anonymous: Option<String>,
    /// Settings of the HTTP server.
    pub http: HttpSettings,
    /// The model providers, and the treatment of tools in API requests.
    pub proxy: ProxySettings,
    /// Settings of the audit log; without them, nothing is recorded.
    pub audit: Option<AuditSettings>,
    /// The operator's aliases of tools, from the command line.
    #[serde(skip)]
    pub aliases: Option<OperatorAliases>,
}

/// Settings of the HTTP server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpSettings {
    /// The host names of the gateway, in addition to those of this machine.
    pub hosts: Vec<String>,
    /// The origins of web pages that may call it; none by default.
    pub origins: Vec<String>,
    /// `true` if `/v1/call` may run tools.
    pub calls: bool,
    /// The most sessions; above that, the least recently used one ends.
    pub max_sessions: usize,
    /// The number of seconds without a request after which a session ends.
    pub session_s: u64,
    /// The most connections. Above that, one without a request under way is closed. It is lowered
    /// if the process may open few files.
    pub max_connections: usize,
    /// The most connections from one address.
    pub max_connections_per_address: usize,
    /// The number of seconds in which a client must send the headers of a request, also the first
    /// and the next one.
    pub headers_s: u64,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            origins: Vec::new(),
            calls: false,
            max_sessions: 1_000,
            session_s: 1_800,
            max_connections: 2_000,
            max_connections_per_address: 1_000,
            headers_s: 30,
        }
    }
}

/// The tools that are listed to a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Mode {
    /// All tools if they take few tokens, otherwise the front tools.
    #[default]
    Auto,
    /// The front tools.
    Search,
    /// The front tools, and all tools that were found, described or called.
    Dynamic,
    /// All tools.
    PassThrough,
}

/// The style of tool names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NameStyle {
    /// `source__tool`.
    #[default]
    Qualified,
    /// The upstream's own names. Only one upstream is allowed.
    Bare,
}

/// Sample requests that are part of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BuiltInExamples {
    /// Requests for the tools of popular MCP servers. Tools of untrusted servers get none.
    Popular,
}

impl BuiltInExamples {
    /// Returns the requests.
    pub(crate) fn load(self) -> Examples {
        match self {
            Self::Popular => Examples::popular(),
        }
    }
}

/// The trust in definitions that were not approved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Trust {
    /// The first listing of an upstream is trusted; later changes are quarantined.
    #[default]
    FirstUse,
    /// No definition is trusted without an approval.
    Approve,
}

/// Settings of an upstream.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UpstreamSettings {
    /// The time at which it is started.
    pub start: Option<Start>,
    /// The callers that share its connections.
    pub share: Option<Share>,
    /// The most connections of owners.
    pub connections: Option<usize>,
    /// The most concurrent calls.
    pub parallel: Option<usize>,
    /// The longest duration of a call, in seconds.
    pub call_s: Option<u64>,
    /// The longest duration of start and handshake, in seconds.
    pub start_s: Option<u64>,
    /// The number of seconds without a call after which a lazily started upstream stops.
    pub idle_s: Option<u64>,
    /// `true` if it is the operator's own, so that changes need no approval.
    pub trusted: Option<bool>,
    /// `true` if it is untrusted: it gets one result per search, and other tools win name
    /// conflicts.
    pub untrusted: Option<bool>,
    /// The treatment of tools that its first listing did not contain.
    pub new_tools: Option<NewTools>,
    /// The scan of results for instructions.
    pub scan_results: Option<Scan>,
    /// The names of the gateway's environment variables that its program also inherits.
    pub inherit: Vec<String>,
    /// The overrides of its tools.
    pub tools: ToolOverrides,
}

/// The time at which an upstream is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Start {
    /// Together with the gateway.
    #[default]
    Eager,
    /// At its first call, if its tools are cached.
    Lazy,
}

/// The callers that share connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Share {
    /// All callers share one connection.
    All,
    /// Each session has its own connection, so that no state leaks to another; without sessions,
    /// each key.
    Owner,
}

/// The treatment of tools that an upstream did not have at first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NewTools {
    /// They are quarantined.
    #[default]
    Hold,
    /// They are approved.
    Approve,
}

/// The treatment of results that look like instructions to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Scan {
    /// Results are not scanned.
    Off,
    /// The text gets a warning in front of it.
    Mark,
    /// The result is refused.
    Block,
}

/// The complete settings of one upstream, with defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpstreamRules {
    /// The time at which it is started.
    pub start: Start,
    /// The callers that share its connections; `None` depends on how the gateway is served.
    pub share: Option<Share>,
    /// The most connections of owners.
    pub connections: usize,
    /// The most concurrent calls.
    pub parallel: usize,
    /// The longest duration of a call, in seconds.
    pub call_s: u64,
    /// The longest duration of start and handshake, in seconds.
    pub start_s: u64,
    /// The number of seconds without a call after which a lazily started upstream stops.
    pub idle_s: u64,
    /// `true` if changes need no approval.
    pub trusted: bool,
    /// `true` if it is untrusted.
    pub untrusted: bool,
    /// The treatment of tools that its first listing did not contain.
    pub new_tools: NewTools,
    /// The treatment of results that look like instructions.
    pub scan: Scan,
}

impl UpstreamRules {
    /// Returns the longest duration of a call.
    pub(crate) fn call_time(&self) -> Duration {
        Duration::from_secs(self.call_s)
    }
}

/// Limits of results.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResultSettings {
    /// The most bytes of a result; 1 MiB by default.
    pub max_bytes: usize,
    /// The most tokens of a result for a model; 20,000 by default. `read_result` reads the rest.
    pub max_tokens: usize,
    /// The treatment of results that look like instructions. By default, results of untrusted
    /// upstreams are marked.
    pub scan: Option<Scan>,
}

impl Default for ResultSettings {
    fn default() -> Self {
        Self {
            max_bytes: 1 << 20,
            max_tokens: 20_000,
            scan: None,
        }
    }
}

/// An error of the settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(pub(crate) String);

impl Settings {
    /// Parses settings: JSON, with comments.
    ///
    /// # Errors
    ///
    /// [`SettingsError`], which names the member.
    pub fn parse(text: &str) -> Result<Self, SettingsError> {
        let value = parse_jsonc(text)
            .map_err(|error| SettingsError(format!("invalid settings: {error}")))?;
        if value.is_null() {
            // A file that is being written is empty for a moment. It must not count as settings
            // without keys.
            return Err(SettingsError(
                "the settings are empty; write {} for the defaults".to_owned(),
            ));
        }
        if !value.is_object() {
            // A list would be deserialised like an object without members.
            return Err(SettingsError(
                "the settings must be a JSON object: {…}".to_owned(),
            ));
        }
        let settings: Self =
            serde_json::from_value(value).map_err(|error| SettingsError(format!("{error}")))?;
        settings.check()?;
        Ok(settings)
    }

    /// Checks the settings, for callers that set members without parsing.
    ///
    /// # Errors
    ///
    /// [`SettingsError`], which names the member.
    pub fn check(&self) -> Result<(), SettingsError> {
        let floors = [
            ("always_include", &self.always_include),
            ("fallbacks", &self.fallbacks),
        ];
        for (setting, patterns) in floors {
            ToolPatterns::new(patterns)
                .map_err(|error| SettingsError(format!("{setting}: {error}")))?;
        }
        for (name, role) in &self.roles {
            let refuse = |what| Err(SettingsError(format!("the role {name:?}: {what}")));
            let access = &role.access;
            if !access.exclude.is_empty()
                || !access.quarantine.is_empty()
                || !access.quotas.is_empty()
            {
                return refuse(
                    "`exclude`, `quarantine` and `quotas` are not allowed, because they name tools \
                     that may not exist; use `deny`",
                );
            }
            if access.allow_unsafe {
                return refuse(
                    "`allow_unsafe` is not allowed; use `\"unsafe\": \"allow\"` or `\"confirm\"`",
                );
            }
            if let Err(error) = role.denied() {
                return Err(SettingsError(format!("the role {name:?}: {error}")));
            }
        }
        for (name, upstream) in &self.upstreams {
            let refuse = |what: &str| Err(SettingsError(format!("the upstream {name:?}: {what}")));
            if upstream.trusted == Some(true) && upstream.untrusted == Some(true) {
                return refuse("`trusted` and `untrusted` exclude each other");
            }
            if name == ALL && !upstream.tools.is_empty() {
                return refuse("`tools` belong to one server; name the server");
            }
            let zero = |value: Option<u64>| value == Some(0);
            if upstream.parallel == Some(0)
                || upstream.connections == Some(0)
                || [upstream.call_s, upstream.start_s, upstream.idle_s]
                    .into_iter()
                    .any(zero)
            {
                return refuse(
                    "`connections`, `parallel`, `call_s`, `start_s` and `idle_s` must be at least 1",
                );
            }
            if let Some(fault) = upstream
                .inherit
                .iter()
                .find_map(|name| inherited_name_fault(name))
            {
                return refuse(&format!("`inherit`: {fault}"));
            }
        }
        let http = &self.http;
        if http.max_connections == 0 || http.max_connections_per_address == 0 || http.headers_s == 0
        {
            return Err(SettingsError(
                "http: `max_connections`, `max_connections_per_address` and `headers_s` must be at \
                 least 1"
                    .to_owned(),
            ));
        }
        let servers = self.upstreams.iter();
        let overrides = servers.map(|(server, upstream)| (server, &upstream.tools));
        tools::check_overrides(overrides).map_err(SettingsError)?;
        keys::check(&self.keys, &self.roles).map_err(SettingsError)?;
        check_look_alikes("upstreams", self.upstreams.keys())?;
        check_look_alikes("roles", self.roles.keys())?;
        if let Some(role) = &self.anonymous
            && role != DEFAULT_ROLE
            && !self.roles.contains_key(role)
        {
            return Err(SettingsError(format!("anonymous: unknown role {role:?}")));
        }
        if self.results.max_tokens < 100 {
            return Err(SettingsError(format!(
                "results.max_tokens: {} is too small; the least is 100",
                self.results.max_tokens
            )));
        }
        if self.results.max_bytes < 1_000 {
            return Err(SettingsError(format!(
                "results.max_bytes: {} is too small; the least is 1000",
                self.results.max_bytes
            )));
        }
        self.audit
            .iter()
            .try_for_each(AuditSettings::check)
            .map_err(SettingsError)?;
        self.proxy.check().map_err(SettingsError)
    }

    /// Returns the complete settings of a server, whose own configuration may name the time for a
    /// call.
    pub(crate) fn rules_of(&self, server: &Server) -> UpstreamRules {
        let mut rules = self.upstream(&server.name);
        let sets_time = |name| {
            let settings: Option<&UpstreamSettings> = self.upstreams.get(name);
            settings.is_some_and(|settings| settings.call_s.is_some())
        };
        if let Some(time) = server.call_timeout
            && !sets_time(server.name.as_str())
            && !sets_time(ALL)
        {
            rules.call_s = (time + Duration::from_millis(999)).as_secs();
        }
        rules
    }

    /// Returns the time in which requests under way may finish when the gateway ends.
    pub fn drain_time(&self) -> Duration {
        Duration::from_secs(self.drain_s.unwrap_or(10))
    }

    /// Adds the variables that the settings let a server's program inherit.
    pub(crate) fn add_inherited(&self, server: &mut Server) {
        let ServerTransport::Stdio { inherit, .. } = &mut server.transport else {
            return;
        };
        let settings = [server.name.as_str(), ALL].map(|name| self.upstreams.get(name));
        // As for the other settings, those of the server replace the ones of all servers.
        let names = settings
            .into_iter()
            .flatten()
            .map(|settings| &settings.inherit)
            .find(|names| !names.is_empty());
        inherit.extend(names.into_iter().flatten().cloned());
    }

    /// Returns the complete settings of an upstream.
    pub fn upstream(&self, name: &str) -> UpstreamRules {
        let no_settings = UpstreamSettings::default();
        let server_settings = self.upstreams.get(name).unwrap_or(&no_settings);
        let shared_settings = self.upstreams.get(ALL).unwrap_or(&no_settings);
        // Trust is one decision: if the upstream has its own setting, `*` does not count.
        let trust_settings =
            if server_settings.trusted.is_some() || server_settings.untrusted.is_some() {
                server_settings
            } else {
                shared_settings
            };
        let untrusted = trust_settings.untrusted == Some(true);
        let scan = server_settings
            .scan_results
            .or(shared_settings.scan_results)
            .or(self.results.scan);
        UpstreamRules {
            start: server_settings
                .start
                .or(shared_settings.start)
                .unwrap_or_default(),
            share: server_settings.share.or(shared_settings.share),
            connections: server_settings
                .connections
                .or(shared_settings.connections)
                .unwrap_or(32),
            parallel: server_settings
                .parallel
                .or(shared_settings.parallel)
                .unwrap_or(16),
            call_s: server_settings
                .call_s
                .or(shared_settings.call_s)
                .unwrap_or(120),
            start_s: server_settings
                .start_s
                .or(shared_settings.start_s)
                .unwrap_or(30),
            idle_s: server_settings
                .idle_s
                .or(shared_settings.idle_s)
                .unwrap_or(600),
            trusted: trust_settings.trusted == Some(true),
            untrusted,
            new_tools: server_settings
                .new_tools
                .or(shared_settings.new_tools)
                .unwrap_or_default(),
            scan: scan.unwrap_or(if untrusted { Scan::Mark } else { Scan::Off }),
        }
    }

    /// Returns the access policy of a role for a catalog, without quarantined tools. It hides the
    /// tools that the role or an override hides.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] if a pattern is invalid, or a definition of the catalog cannot be read.
    pub fn access(&self, role: &str, catalog: &Catalog) -> Result<Access, SettingsError> {
        let tools = catalog.tools();
        let tools = tools.map_err(|error| SettingsError(error.to_string()))?;
        let mut access = self.role(role).access_to(tools).map_err(SettingsError)?;
        access.exclude.extend(self.hidden_tools(tools));
        Ok(access)
    }

    /// Returns the override of a tool.
    pub(crate) fn tool_override(&self, tool: &Tool) -> Option<&ToolOverride> {
        let upstream = self.upstreams.get(tool.source.as_deref()?)?;
        upstream.tools.get(&tool.name)
    }

    /// Returns the ids of the tools that the operator hides from everybody.
    pub fn hidden_tools(&self, tools: &[Arc<Tool>]) -> BTreeSet<String> {
        let mut hidden = BTreeSet::new();
        if self
            .upstreams
            .values()
            .all(|upstream| upstream.tools.is_empty())
        {
            return hidden;
        }
        for tool in tools {
            if self.tool_override(tool).is_some_and(|changed| changed.hide) {
                hidden.insert(tool.id.clone());
            }
        }
        hidden
    }

    /// Returns the overridden tools of a server that are not among `names`.
    pub fn unknown_overrides(&self, server: &str, names: &BTreeSet<&str>) -> Vec<&str> {
        let overrides = self.upstreams.get(server).map(|upstream| &upstream.tools);
        let overridden = overrides.into_iter().flat_map(BTreeMap::keys);
        let unknown = overridden.filter(|name| !names.contains(name.as_str()));
        unknown.map(String::as_str).collect()
    }

    /// Returns a role; the default role if the name is unknown.
    pub fn role(&self, name: &str) -> Role {
        self.roles.get(name).cloned().unwrap_or_default()
    }
}

/// Checks that no two names of a setting are confusable.
fn check_look_alikes<'a>(
    setting: &str,
    names: impl Iterator<Item = &'a String>,
) -> Result<(), SettingsError> {
    let mut previous: Vec<&String> = Vec::new();
    for name in names {
        if let Some(other) = previous
            .iter()
            .find(|other| naming::look_alike(name, other))
        {
            return Err(SettingsError(format!(
                "{setting}: the names {other:?} and {name:?} look alike; rename one of them"
            )));
        }
        previous.push(name);
    }
    Ok(())
}
