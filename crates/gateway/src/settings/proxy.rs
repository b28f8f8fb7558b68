//! Settings of the model proxy.

use picktools::names::ToolPatterns;
use serde::Deserialize;

/// Settings of the model proxy.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProxySettings {
    /// The provider for `/v1/chat/completions` and `/v1/responses`, with OpenAI's API.
    pub openai: Option<ProviderSettings>,
    /// The provider for `/v1/messages`, with Anthropic's API.
    pub anthropic: Option<ProviderSettings>,
    /// The least number of tools with which a request is narrowed; 16 by default.
    pub from_tools: usize,
    /// The most tools that each message of the user adds; 12 by default.
    pub per_turn: usize,
    /// The least score of a tool that a later message of the user adds, 0 to 1; 0.02 by default.
    /// The first message with content adds the best tools, whatever their scores.
    pub min_score: f32,
    /// The names and globs of functions that are always shown, such as `Bash` and
    /// `mcp__github__*`.
    pub always_include: Vec<String>,
    /// The treatment of the client's own tools.
    pub host_tools: HostTools,
    /// The most bytes of a request; 32 MiB by default.
    pub max_bytes: usize,
    /// The most memory of the indexes of tool lists, in bytes; 256 MiB by default.
    pub index_bytes: usize,
}

/// The treatment of the client's own tools: the functions without a namespace, in a list that also
/// has functions with a namespace, such as `mcp__server__tool`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum HostTools {
    /// They are always shown.
    #[default]
    Keep,
    /// They are narrowed like all other functions.
    Narrow,
}

/// A model provider.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderSettings {
    /// The URL with its version, such as `https://api.openai.com/v1`.
    pub url: String,
    /// The environment variable with the API key. Without it, the keys of clients are passed on.
    #[serde(default)]
    pub key_env: Option<String>,
    /// The treatment of the tools of a request.
    #[serde(default)]
    pub mode: ProxyMode,
    /// `true` if the URL may use HTTP without TLS for another machine.
    #[serde(default)]
    pub plain_http: bool,
    /// `true` if calls that a model wrote in its text are moved to where clients expect calls.
    #[serde(default)]
    pub text_calls: bool,
}

/// The treatment of the tools of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ProxyMode {
    /// The request keeps the tools that the conversation needs.
    #[default]
    Narrow,
    /// The request keeps all tools, and names those that the model may choose (OpenAI's
    /// `allowed_tools`).
    Allowed,
    /// The tools that the conversation needs stay loaded; the provider's own search finds the
    /// others (Anthropic's `defer_loading`).
    Defer,
    /// The request is not changed.
    Off,
}

impl ProxyMode {
    /// Returns the name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Narrow => "narrow",
            Self::Allowed => "allowed",
            Self::Defer => "defer",
            Self::Off => "off",
        }
    }
}

impl Default for ProxySettings {
    fn default() -> Self {
        Self {
            openai: None,
            anthropic: None,
            from_tools: 16,
            per_turn: 12,
            min_score: 0.02,
            always_include: Vec::new(),
            host_tools: HostTools::default(),
            max_bytes: 32 << 20,
            index_bytes: 256 << 20,
        }
    }
}

impl ProviderSettings {
    /// Creates a provider for which clients send their own keys.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            key_env: None,
            mode: ProxyMode::default(),
            plain_http: false,
            text_calls: false,
        }
    }
}

impl ProxySettings {
    /// Compiles the names and globs of `always_include`.
    ///
    /// # Errors
    ///
    /// A message that names the invalid pattern.
    pub fn always_included(&self) -> Result<ToolPatterns, String> {
        ToolPatterns::new(&self.always_include)
            .map_err(|error| format!("proxy.always_include: {error}"))
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.per_turn == 0 || self.from_tools == 0 || self.max_bytes == 0 {
            return Err(
                "proxy: `from_tools`, `per_turn` and `max_bytes` must be at least 1".to_owned(),
            );
        }
        if !(0.0..=1.0).contains(&self.min_score) {
            return Err(format!(
                "proxy.min_score: {} is not between 0 and 1",
                self.min_score
            ));
        }
        self.always_included()?;
        let providers = [
            ("openai", &self.openai, ProxyMode::Defer),
            ("anthropic", &self.anthropic, ProxyMode::Allowed),
        ];
        for (name, provider, unfit) in providers {
            let Some(provider) = provider else { continue };
            if provider.mode == unfit {
                let mode = unfit.name();
                return Err(format!(
                    "proxy.{name}: this provider does not support the mode {mode:?}; use \"narrow\""
                ));
            }
            provider
                .check()
                .map_err(|error| format!("proxy.{name}.url: {error}"))?;
        }
        Ok(())
    }
}

impl ProviderSettings {
    fn check(&self) -> Result<(), String> {
        let url = reqwest::Url::parse(&self.url)
            .map_err(|error| format!("{:?} is not a URL: {error}", self.url))?;
        let is_local = match url.host_str() {
            Some(host) => {
                let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
                host == "localhost" || address.is_ok_and(|address| address.is_loopback())
            }
            None => return Err(format!("{:?} has no host", self.url)),
        };
        if !url.username().is_empty()
            || url.password().is_some()
            || url.query().is_some()
            || url.fragment().is_some()
        {
            return Err(
                "a user name, password, query or fragment is not allowed; name the variable of \
                 the key in `key_env`"
                    .to_owned(),
            );
        }
        match url.scheme() {
            "https" => Ok(()),
            "http" if is_local || self.plain_http => Ok(()),
            "http" => Err("another machine requires https, or `\"plain_http\": true`".to_owned()),
            other => Err(format!("{other:?} is not http or https")),
        }
    }
}
