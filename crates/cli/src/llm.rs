//! Which language model is asked, and how.

use anyhow::bail;
use clap::Args;
use serde_json::{Map, Value};

use super::heading;
use super::numbers::whole;
use picktools_provider::Provider;

#[derive(Args)]
#[command(next_help_heading = heading::LANGUAGE_MODEL)]
pub(super) struct LlmArgs {
    /// Base of the language model's API, such as http://localhost:8080/v1 (llama.cpp, vLLM, LM
    /// Studio), http://localhost:11434 (Ollama) or `https://api.anthropic.com/v1`; its key is read
    /// from PICKTOOLS_LLM_API_KEY, else from OPENAI_API_KEY or ANTHROPIC_API_KEY as the provider
    /// has it; set the first to nothing to send none.
    #[arg(long, value_name = "URL")]
    llm_url: Option<String>,
    /// Name of the language model.
    #[arg(long, value_name = "NAME")]
    llm_model: Option<String>,
    /// Format that the language model is asked in: openai, and all that speak it, anthropic or
    /// ollama.
    #[arg(long, value_name = "PROVIDER", default_value = "openai")]
    llm_provider: Provider,
    /// How long the language model may take for one answer, where there is no --timeout-ms.
    #[arg(long, value_name = "MS", default_value_t = 10_000, value_parser = whole::<u64>,
        allow_negative_numbers = true)]
    llm_timeout_ms: u64,
    /// Members for the body of requests to the language model, as a JSON object; null takes one
    /// away, as in {"temperature": null}.
    #[arg(long, value_name = "JSON")]
    llm_extra: Option<String>,
}

/// A language model that can be asked.
pub(super) struct Llm {
    pub(super) client: picktools_llm::ProviderClient,
    pub(super) model: String,
    pub(super) extra: Map<String, Value>,
    pub(super) timeout: std::time::Duration,
}

impl LlmArgs {
    pub(super) fn is_named(&self) -> bool {
        self.llm_url.is_some()
    }

    /// Makes a client of the model that is named; `does` is what it is needed for.
    pub(super) fn open(&self, does: &str) -> anyhow::Result<Llm> {
        use std::time::Duration;

        let (url, model, extra) = self.named(does)?;
        let options = picktools_llm::EndpointOptions {
            api_key: api_key(self.llm_provider)?,
            // Who asks says how long.
            timeout: Duration::from_secs(3600),
            proxy_from_env: true,
        };
        let client = picktools_llm::ProviderClient::new(self.llm_provider, url, &options)?;
        let timeout = Duration::from_millis(self.llm_timeout_ms);
        Ok(Llm {
            client,
            model: model.to_owned(),
            extra,
            timeout,
        })
    }

    fn named(&self, does: &str) -> anyhow::Result<(&str, &str, Map<String, Value>)> {
        let (Some(url), Some(model)) = (&self.llm_url, &self.llm_model) else {
            bail!("a language model {does} with --llm-url URL and --llm-model NAME");
        };
        Ok((url, model, self.extra()?))
    }

    fn extra(&self) -> anyhow::Result<Map<String, Value>> {
        match self.llm_extra.as_deref().map(serde_json::from_str) {
            None => Ok(Map::new()),
            Some(Ok(Value::Object(members))) => Ok(members),
            Some(Ok(_)) => bail!("--llm-extra is not a JSON object"),
            Some(Err(error)) => bail!("--llm-extra is not a JSON object: {error}"),
        }
    }
}

/// The key of a language model. An empty one of our own keeps the provider's from being sent.
fn api_key(provider: Provider) -> anyhow::Result<Option<String>> {
    let of_provider = match provider {
        Provider::OpenAiChat => Some("OPENAI_API_KEY"),
        Provider::Anthropic => Some("ANTHROPIC_API_KEY"),
        _ => None,
    };
    super::args::first_variable(std::iter::once("PICKTOOLS_LLM_API_KEY").chain(of_provider))
}
