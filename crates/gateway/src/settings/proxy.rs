//! Where requests to models go, and what becomes of their tools.

use serde::Deserialize;

/// Where requests to models go, and what becomes of their tools.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProxySettings {
    /// Whoever speaks as OpenAI does: `/v1/chat/completions` and `/v1/responses`.
    pub openai: Option<ProviderSettings>,
    /// Whoever speaks as Anthropic does: `/v1/messages`.
    pub anthropic: Option<ProviderSettings>,
    /// From how many tools on a request is narrowed; 16 unless told otherwise.
    pub from_tools: usize,
    /// The most tools that each message of the user adds; 12 unless told otherwise.
    pub per_turn: usize,
    /// The least score of a tool that a later message of the user adds, 0..1; 0.02 unless told
    /// otherwise. The first adds the best, whatever their scores.
    pub min_score: f32,
    /// The most bytes of a request; 32 MiB unless told otherwise.
    pub max_bytes: usize,
}

/// A provider of models.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderSettings {
    /// The address with its version, such as `https://api.openai.com/v1`.
    pub url: String,
    /// The variable of the environment that holds the key. Without it clients send their own, which
    /// goes on.
    #[serde(default)]
    pub key_env: Option<String>,
    /// What becomes of the tools of a request.
    #[serde(default)]
    pub mode: ProxyMode,
    /// Whether the address may be one of another machine without TLS.
    #[serde(default)]
    pub plain_http: bool,
}

/// What becomes of the tools of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ProxyMode {
    /// Those that the conversation needs stay.
    #[default]
    Narrow,
    /// All stay, and the model is told among which to choose (OpenAI's `allowed_tools`).
    Allowed,
    /// Those that the conversation needs stay, the others wait behind the provider's own search
    /// (Anthropic's `defer_loading`).
    Defer,
    /// They stay as they are.
    Off,
}

impl ProxyMode {
    /// The name in settings.
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
            max_bytes: 32 << 20,
        }
    }
}

impl ProviderSettings {
    /// Makes a provider to whom clients send keys of their own.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            key_env: None,
            mode: ProxyMode::default(),
            plain_http: false,
        }
    }
}

impl ProxySettings {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.per_turn == 0 || self.from_tools == 0 || self.max_bytes == 0 {
            return Err("proxy: a number from 1 is needed".to_owned());
        }
        if !(0.0..=1.0).contains(&self.min_score) {
            return Err("proxy.min_score: a number from 0 to 1 is needed".to_owned());
        }
        let providers = [
            ("openai", &self.openai, ProxyMode::Defer),
            ("anthropic", &self.anthropic, ProxyMode::Allowed),
        ];
        for (name, provider, unfit) in providers {
            let Some(provider) = provider else { continue };
            if provider.mode == unfit {
                let mode = unfit.name();
                return Err(format!(
                    "proxy.{name}: the mode {mode:?} is not for this provider; take \"narrow\""
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
            .map_err(|error| format!("{:?} is no address: {error}", self.url))?;
        let is_local = match url.host_str() {
            Some(host) => {
                let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
                host == "localhost" || address.is_ok_and(|address| address.is_loopback())
            }
            None => return Err(format!("{:?} names no machine", self.url)),
        };
        if !url.username().is_empty()
            || url.password().is_some()
            || url.query().is_some()
            || url.fragment().is_some()
        {
            return Err(
                "it has no name, password, query or fragment; a key stands in `key_env`".to_owned(),
            );
        }
        match url.scheme() {
            "https" => Ok(()),
            "http" if is_local || self.plain_http => Ok(()),
            "http" => Err(
                "another machine is spoken with by https, or with `\"plain_http\": true`"
                    .to_owned(),
            ),
            other => Err(format!("{other:?} is not http or https")),
        }
    }
}
