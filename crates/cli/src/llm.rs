//! Arguments that select a language model.

use anyhow::bail;
use clap::Args;
use picktools_llm::LlmRepairer;
use serde_json::{Map, Value};

use super::heading;
use super::numbers::integer;
use picktools_provider::Provider;

#[derive(Args)]
#[command(next_help_heading = heading::LANGUAGE_MODEL)]
pub(super) struct LlmArgs {
    /// Base URL of the language model's API.
    ///
    /// For example http://localhost:8080/v1 (llama.cpp, vLLM, LM Studio), http://localhost:11434
    /// (Ollama) or `https://api.anthropic.com/v1`. The API key is read from PICKTOOLS_LLM_API_KEY.
    /// If that is not set, OPENAI_API_KEY or ANTHROPIC_API_KEY is read, depending on
    /// --llm-provider. To send no key, set PICKTOOLS_LLM_API_KEY to an empty value.
    #[arg(long, value_name = "URL")]
    llm_url: Option<String>,
    /// Name of the language model.
    #[arg(long, value_name = "NAME")]
    llm_model: Option<String>,
    /// API format of the language model: openai, anthropic or ollama.
    ///
    /// `openai` is for every API that is compatible with OpenAI's.
    #[arg(long, value_name = "PROVIDER", default_value = "openai")]
    llm_provider: Provider,
    /// Timeout of one answer in milliseconds.
    ///
    /// With `pick --timeout-ms`, the timeout of the pick applies instead.
    #[arg(long, value_name = "MS", default_value_t = 10_000, value_parser = integer::<u64>,
        allow_negative_numbers = true)]
    llm_timeout_ms: u64,
    /// Members to add to the body of API requests, as a JSON object.
    ///
    /// A null removes a member, as in {"temperature": null}.
    #[arg(long, value_name = "JSON")]
    llm_extra: Option<String>,
}

/// The repair of invalid calls with a language model.
#[derive(Args)]
pub(super) struct RepairArgs {
    /// Repair invalid arguments with a language model, once per call.
    ///
    /// Needs --llm-url and --llm-model. The model receives the arguments and the schema of the
    /// tool, and its answer is validated again. It is not asked about calls of unsafe tools and of
    /// tools without a schema.
    #[arg(long, help_heading = heading::CALLS)]
    repair_llm: bool,
    #[command(flatten)]
    llm: LlmArgs,
}

impl RepairArgs {
    /// Returns the repairer, if calls are to be repaired.
    pub(super) fn repairer(&self) -> anyhow::Result<Option<LlmRepairer>> {
        if !self.repair_llm {
            if self.llm.is_named() {
                bail!("--llm-url is used only with --repair-llm; add --repair-llm or remove it");
            }
            return Ok(None);
        }
        let Llm {
            client,
            model,
            extra,
            timeout,
        } = self.llm.open("repairing calls")?;
        let repairer = LlmRepairer::new(client, &model)?;
        Ok(Some(repairer.extra(extra).timeout(timeout)))
    }
}

/// A language model that is ready for use.
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

    /// Creates a client of the named model. `purpose` says what needs the model.
    pub(super) fn open(&self, purpose: &str) -> anyhow::Result<Llm> {
        use std::time::Duration;

        let (url, model, extra) = self.parameters(purpose)?;
        let options = picktools_llm::EndpointOptions {
            api_key: api_key(self.llm_provider)?,
            // Each caller sets a timeout of its own.
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

    fn parameters(&self, purpose: &str) -> anyhow::Result<(&str, &str, Map<String, Value>)> {
        let (Some(url), Some(model)) = (&self.llm_url, &self.llm_model) else {
            bail!("{purpose} needs a language model; pass --llm-url URL and --llm-model NAME");
        };
        Ok((url, model, self.extra()?))
    }

    fn extra(&self) -> anyhow::Result<Map<String, Value>> {
        let Some(text) = &self.llm_extra else {
            return Ok(Map::new());
        };
        match serde_json::from_str(text) {
            Ok(Value::Object(members)) => Ok(members),
            Ok(_) => bail!("--llm-extra is not a JSON object"),
            Err(error) => bail!("--llm-extra is not a JSON object: {error}"),
        }
    }
}

/// Returns the key of a language model. An empty PICKTOOLS_LLM_API_KEY keeps the provider's key
/// from being sent.
fn api_key(provider: Provider) -> anyhow::Result<Option<String>> {
    let provider_variable = match provider {
        Provider::OpenAiChat => Some("OPENAI_API_KEY"),
        Provider::Anthropic => Some("ANTHROPIC_API_KEY"),
        _ => None,
    };
    super::args::first_variable(std::iter::once("PICKTOOLS_LLM_API_KEY").chain(provider_variable))
}
