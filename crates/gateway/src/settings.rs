//! What the operator says: how upstreams are kept, who may do what, and what results may hold.

mod proxy;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use globset::{Glob, GlobSet, GlobSetBuilder};
use jsonc_parser::ParseOptions;
use picktools::{Access, Catalog, Tool};
use picktools_audit::AuditSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::proxy::{ProviderSettings, ProxyMode, ProxySettings};

/// The role of callers that no other is said for.
pub const DEFAULT_ROLE: &str = "default";
/// The name under which settings stand that hold for all upstreams.
const ALL: &str = "*";

/// What the operator says. As JSON every member may be left out, comments are allowed, and unknown
/// members are refused.
///
/// ```
/// use picktools_gateway::Settings;
///
/// let settings = Settings::read(r#"{"mode": "search", "upstreams": {"git": {"call_s": 30}}}"#)?;
/// assert_eq!(settings.upstream("git").call_s, 30);
/// assert_eq!(settings.upstream("mail").call_s, 120);
/// Settings::read(r#"{"mode": "serach"}"#).expect_err("nothing unknown is read");
/// # Ok::<(), picktools_gateway::SettingsError>(())
/// ```
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What a client is shown.
    pub mode: Mode,
    /// Up to how many tokens `auto` shows all tools; 4,000 unless told otherwise.
    pub pass_through_tokens: Option<usize>,
    /// The most tokens of the definitions in the answer of a search; 6,000 unless told otherwise.
    pub search_tokens: Option<usize>,
    /// What tools are called.
    pub names: Names,
    /// What is believed of definitions that nobody has approved.
    pub trust: Trust,
    /// How upstreams are kept, by their names in the configuration; `*` stands for all others.
    pub upstreams: BTreeMap<String, UpstreamSettings>,
    /// Who may do what. The role [`DEFAULT_ROLE`] is that of callers without another.
    pub roles: BTreeMap<String, Role>,
    /// What results may hold.
    pub results: ResultSettings,
    /// Who may connect over HTTP, each with a key.
    pub keys: Vec<Key>,
    /// The role of those who come without a key; where there are keys and this is not said, they
    /// may not. For this machine alone.
    pub anonymous: Option<String>,
    /// What holds over HTTP.
    pub http: HttpSettings,
    /// Where requests to models go over HTTP, and what becomes of their tools.
    pub proxy: ProxySettings,
    /// Where what is decided is recorded; nowhere unless it is said.
    pub audit: Option<AuditSettings>,
}

/// Who may connect over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Whose it is; for logs.
    pub name: String,
    /// SHA-256 of the key, in hexadecimal digits.
    pub sha256: String,
    /// The role; [`DEFAULT_ROLE`] where it is not said.
    #[serde(default)]
    pub role: Option<String>,
    /// The most requests a minute over a longer time.
    #[serde(default = "per_minute")]
    pub per_minute: u32,
    /// The most requests in a row.
    #[serde(default = "burst")]
    pub burst: u32,
    /// The most requests at once.
    #[serde(default = "parallel")]
    pub parallel: usize,
    /// Until when it is good, in seconds since 1970.
    #[serde(default)]
    pub expires: Option<u64>,
}

fn per_minute() -> u32 {
    600
}

fn burst() -> u32 {
    120
}

fn parallel() -> usize {
    32
}

impl Key {
    /// What holds for the key that is made for the console, by its digest.
    pub(crate) fn console(sha256: &str) -> Self {
        Self {
            name: "console".to_owned(),
            sha256: sha256.to_owned(),
            role: None,
            per_minute: per_minute(),
            burst: burst(),
            parallel: parallel(),
            expires: None,
        }
    }

    /// What holds for whoever comes without a key, from this machine.
    pub(crate) fn anonymous(role: &str) -> Self {
        Self {
            name: "anonymous".to_owned(),
            // No key has this digest.
            sha256: "0".repeat(64),
            role: Some(role.to_owned()),
            per_minute: 600_000,
            burst: 100_000,
            parallel: 1_024,
            expires: None,
        }
    }
}

/// What holds over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpSettings {
    /// The names by which the gateway is reached, beside those of this machine.
    pub hosts: Vec<String>,
    /// The origins of pages that may call it; none unless said.
    pub origins: Vec<String>,
    /// Whether tools may be run by `/v1/call`.
    pub calls: bool,
    /// The most sessions; over it, that which was used longest ago ends.
    pub max_sessions: usize,
    /// After how many seconds without a word a session ends.
    pub session_s: u64,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            origins: Vec::new(),
            calls: false,
            max_sessions: 1_000,
            session_s: 1_800,
        }
    }
}

/// What a client is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Mode {
    /// All tools where they cost few tokens, else the front tools.
    #[default]
    Auto,
    /// The front tools.
    Search,
    /// The front tools, and all that were found, described or called since.
    Dynamic,
    /// All tools.
    PassThrough,
}

/// What tools are called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Names {
    /// `source__tool`.
    #[default]
    Qualified,
    /// As the upstream calls them, of which there may be one only.
    Bare,
}

/// What is believed of definitions that nobody has approved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Trust {
    /// Those that an upstream sends the first time; later changes wait for approval.
    #[default]
    FirstUse,
    /// None.
    Approve,
}

/// How an upstream is kept.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UpstreamSettings {
    /// When it is started.
    pub start: Option<Start>,
    /// Whose connections are shared.
    pub share: Option<Share>,
    /// The most calls at once.
    pub parallel: Option<usize>,
    /// The most seconds of a call.
    pub call_s: Option<u64>,
    /// The most seconds of start and handshake.
    pub start_s: Option<u64>,
    /// After how many seconds without a call it is ended, where it is started lazily.
    pub idle_s: Option<u64>,
    /// Whether its changes are approved unseen: the operator's own.
    pub trusted: Option<bool>,
    /// Whether it is a stranger's: one place in a search, and names that give way.
    pub untrusted: Option<bool>,
    /// Whether new tools are approved as those of its first listing.
    pub new_tools: Option<NewTools>,
    /// Whether results are looked through for instructions.
    pub scan_results: Option<Scan>,
}

/// When an upstream is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Start {
    /// With the gateway.
    #[default]
    Eager,
    /// At its first call, where its tools are known from before.
    Lazy,
}

/// Whose connections are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Share {
    /// All callers use one.
    All,
    /// Each session has its own, so that nothing leaks from one to another; without sessions, each
    /// key.
    Owner,
}

/// What becomes of tools that an upstream did not have at first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NewTools {
    /// They wait for approval.
    #[default]
    Hold,
    /// They are approved.
    Approve,
}

/// What becomes of results that hold what looks like instructions to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Scan {
    /// Nobody looks.
    Off,
    /// A note stands before the text.
    Mark,
    /// They are refused.
    Block,
}

/// The settings of one upstream, with what holds where nothing is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpstreamRules {
    /// When it is started.
    pub start: Start,
    /// Whose connections are shared; `None` leaves it to how the gateway is served.
    pub share: Option<Share>,
    /// The most calls at once.
    pub parallel: usize,
    /// The most seconds of a call.
    pub call_s: u64,
    /// The most seconds of start and handshake.
    pub start_s: u64,
    /// After how many seconds without a call it is ended, where it is started lazily.
    pub idle_s: u64,
    /// Whether its changes are approved unseen.
    pub trusted: bool,
    /// Whether it is a stranger's.
    pub untrusted: bool,
    /// Whether new tools are approved as those of its first listing.
    pub new_tools: NewTools,
    /// What becomes of results that look like instructions.
    pub scan: Scan,
}

impl UpstreamRules {
    /// The most time of a call.
    pub(crate) fn call_time(&self) -> Duration {
        Duration::from_secs(self.call_s)
    }
}

/// Who may do what.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Role {
    /// What may be seen and run. `exclude`, `quarantine` and `quotas` are not for settings, as they
    /// name tools that may not be there.
    pub access: Access,
    /// Patterns of `source/tool` that may not.
    pub deny: Vec<String>,
    /// What becomes of calls of tools that are marked unsafe.
    #[serde(rename = "unsafe")]
    pub marked_unsafe: Unsafe,
    /// Whether its callers see what all do, and decide what waits: the console, metrics, approvals.
    pub operator: bool,
}

/// What becomes of calls of tools that are marked unsafe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Unsafe {
    /// They are not even found.
    Deny,
    /// A person is asked before each call.
    #[default]
    Confirm,
    /// They run.
    Allow,
}

/// What results may hold.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResultSettings {
    /// The most bytes of a result; 1 MiB unless told otherwise.
    pub max_bytes: usize,
    /// What becomes of results that look like instructions. Unless it is said, those of untrusted
    /// upstreams are marked.
    pub scan: Option<Scan>,
}

impl Default for ResultSettings {
    fn default() -> Self {
        Self {
            max_bytes: 1 << 20,
            scan: None,
        }
    }
}

/// Why settings cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(pub(crate) String);

impl Settings {
    /// Reads settings: JSON, with comments.
    ///
    /// # Errors
    ///
    /// [`SettingsError`], which names the place.
    pub fn read(text: &str) -> Result<Self, SettingsError> {
        let options = ParseOptions::default();
        let value: Value = jsonc_parser::parse_to_serde_value(text, &options)
            .map_err(|error| SettingsError(format!("the settings are no JSON: {error}")))?;
        if value.is_null() {
            // A file that is being written is empty for a moment, and must not be taken for one
            // that has no keys.
            return Err(SettingsError(
                "the settings are empty; write {} where nothing is to be said".to_owned(),
            ));
        }
        if !value.is_object() {
            // A list would be read as members that are left out.
            return Err(SettingsError("the settings are no object: {…}".to_owned()));
        }
        let settings: Self =
            serde_json::from_value(value).map_err(|error| SettingsError(format!("{error}")))?;
        settings.check()?;
        Ok(settings)
    }

    /// Finds what does not fit, where members were set that were not read.
    ///
    /// # Errors
    ///
    /// [`SettingsError`], which names the place.
    pub fn check(&self) -> Result<(), SettingsError> {
        for (name, role) in &self.roles {
            let refuse = |what| Err(SettingsError(format!("the role {name:?}: {what}")));
            let access = &role.access;
            if !access.exclude.is_empty()
                || !access.quarantine.is_empty()
                || !access.quotas.is_empty()
            {
                return refuse(
                    "`exclude`, `quarantine` and `quotas` name tools that may not be there; use `deny`",
                );
            }
            if access.allow_unsafe {
                return refuse(
                    "`allow_unsafe` is said by `\"unsafe\": \"allow\"` or `\"confirm\"`",
                );
            }
            if let Err(error) = role.denied() {
                return Err(SettingsError(format!("the role {name:?}: {error}")));
            }
        }
        for (name, upstream) in &self.upstreams {
            let refuse = |what: &str| Err(SettingsError(format!("the upstream {name:?}: {what}")));
            if upstream.trusted == Some(true) && upstream.untrusted == Some(true) {
                return refuse("it is either trusted or untrusted");
            }
            let zero = |value: Option<u64>| value == Some(0);
            if upstream.parallel == Some(0)
                || [upstream.call_s, upstream.start_s, upstream.idle_s]
                    .into_iter()
                    .any(zero)
            {
                return refuse("a number from 1 is needed");
            }
        }
        let mut names = std::collections::BTreeSet::new();
        for key in &self.keys {
            if !names.insert(&key.name) {
                return Err(SettingsError(format!(
                    "two keys are called {:?}; rename one",
                    key.name
                )));
            }
            let role = key.role.as_deref().unwrap_or(DEFAULT_ROLE);
            if role != DEFAULT_ROLE && !self.roles.contains_key(role) {
                return Err(SettingsError(format!(
                    "the key {:?} has the role {role:?}, which is not there",
                    key.name
                )));
            }
        }
        if let Some(role) = self
            .anonymous
            .as_ref()
            .filter(|role| *role != DEFAULT_ROLE && !self.roles.contains_key(*role))
        {
            return Err(SettingsError(format!(
                "anonymous: there is no role {role:?}"
            )));
        }
        if self.results.max_bytes < 1_000 {
            return Err(SettingsError(
                "results.max_bytes: at least 1000 are needed".to_owned(),
            ));
        }
        self.audit
            .iter()
            .try_for_each(AuditSettings::check)
            .map_err(SettingsError)?;
        self.proxy.check().map_err(SettingsError)
    }

    /// Returns what holds for an upstream.
    pub fn upstream(&self, name: &str) -> UpstreamRules {
        let none = UpstreamSettings::default();
        let own = self.upstreams.get(name).unwrap_or(&none);
        let all = self.upstreams.get(ALL).unwrap_or(&none);
        // Trust is one thing: what is said of the upstream itself counts alone.
        let trust = if own.trusted.is_some() || own.untrusted.is_some() {
            own
        } else {
            all
        };
        let untrusted = trust.untrusted == Some(true);
        let scan = own.scan_results.or(all.scan_results).or(self.results.scan);
        UpstreamRules {
            start: own.start.or(all.start).unwrap_or_default(),
            share: own.share.or(all.share),
            parallel: own.parallel.or(all.parallel).unwrap_or(16),
            call_s: own.call_s.or(all.call_s).unwrap_or(120),
            start_s: own.start_s.or(all.start_s).unwrap_or(30),
            idle_s: own.idle_s.or(all.idle_s).unwrap_or(600),
            trusted: trust.trusted == Some(true),
            untrusted,
            new_tools: own.new_tools.or(all.new_tools).unwrap_or_default(),
            scan: scan.unwrap_or(if untrusted { Scan::Mark } else { Scan::Off }),
        }
    }

    /// Returns what a role may see and run of a catalog; what waits for approval is not told by
    /// settings.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] for a pattern that is none.
    pub fn access(&self, role: &str, catalog: &Catalog) -> Result<Access, SettingsError> {
        self.role(role).access_to(catalog).map_err(SettingsError)
    }

    /// Returns what a role may do; that of callers without one where it is not among the roles.
    pub fn role(&self, name: &str) -> Role {
        self.roles.get(name).cloned().unwrap_or_default()
    }
}

impl Role {
    /// What may be seen and run of a catalog, with the tools that the patterns mean.
    pub(crate) fn access_to(&self, catalog: &Catalog) -> Result<Access, String> {
        let denied = self.denied()?;
        let is_denied = |tool: &&Arc<Tool>| denied.is_match(tool.qualified_name());
        Ok(Access {
            allow_unsafe: self.marked_unsafe != Unsafe::Deny,
            exclude: catalog
                .tools()
                .iter()
                .filter(is_denied)
                .map(|tool| tool.id.clone())
                .collect(),
            ..self.access.clone()
        })
    }

    /// The patterns of what may not be seen.
    pub(crate) fn denied(&self) -> Result<GlobSet, String> {
        let mut set = GlobSetBuilder::new();
        for pattern in &self.deny {
            set.add(Glob::new(pattern).map_err(|error| format!("deny: {error}"))?);
        }
        set.build().map_err(|error| format!("deny: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_not_whole_are_none() {
        for text in [
            "",
            " \n",
            "// nothing yet",
            "null",
            "{",
            "[]",
            "{} {}",
            "{\"keys\": null}",
        ] {
            assert!(Settings::read(text).is_err(), "{text:?}");
        }
        assert!(Settings::read("{}").is_ok());
    }

    #[test]
    fn a_provider_is_one_that_keys_may_be_sent_to() {
        let openai =
            |provider: &str| Settings::read(&format!(r#"{{"proxy": {{"openai": {provider}}}}}"#));
        for provider in [
            r#"{"url": "https://api.example/v1", "key_env": "KEY", "mode": "allowed"}"#,
            r#"{"url": "http://127.0.0.1:8000/v1"}"#,
            r#"{"url": "http://[::1]:8000/v1"}"#,
            r#"{"url": "http://localhost/v1"}"#,
            r#"{"url": "http://models.internal/v1", "plain_http": true}"#,
        ] {
            openai(provider).expect(provider);
        }
        for (provider, why) in [
            (r#"{"url": "http://models.internal/v1"}"#, "https"),
            (r#"{"url": "http://127.0.0.1.evil.example/v1"}"#, "https"),
            (r#"{"url": "https://me:secret@api.example/v1"}"#, "key_env"),
            (r#"{"url": "https://api.example/v1?key=secret"}"#, "key_env"),
            (r#"{"url": "file:///etc/passwd"}"#, "names no machine"),
            (r#"{"url": "ftp://api.example/v1"}"#, "not http"),
            (r#"{"url": "api.example/v1"}"#, "no address"),
            (
                r#"{"url": "https://api.example/v1", "mode": "defer"}"#,
                "not for this provider",
            ),
            (
                r#"{"url": "https://api.example/v1", "key": "secret"}"#,
                "unknown field",
            ),
        ] {
            let error = openai(provider).expect_err(provider).to_string();
            assert!(error.contains(why), "{provider}: {error}");
        }
        Settings::read(
            r#"{"proxy": {"anthropic": {"url": "https://api.example/v1", "mode": "allowed"}}}"#,
        )
        .expect_err("Anthropic has no such mode");
    }
}
