//! Whether, and by what, the best candidates are put in another order.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
#[cfg(feature = "llm")]
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value};

use super::args::FolderArgs;
use super::heading;
use super::numbers::whole;
use picktools::rerank::{Rerank, RerankError, RerankFuture, Reranker};
use picktools::{PickOptions, Provider, Query, Tool};

/// What reranks, and when.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RerankArg {
    /// Nothing.
    Never,
    /// Whichever of the two is named, where its answer can change the picks.
    Auto,
    /// A cross-encoder on this machine, always.
    Local,
    /// The language model, always.
    Llm,
}

#[derive(Args)]
#[command(next_help_heading = heading::RERANKING)]
pub(super) struct RerankArgs {
    /// Put the best candidates in another order: never, always by a cross-encoder on this machine (local) or by a language
    /// model (llm), or by the one that is named where scores lie close together (auto).
    #[arg(long, value_enum, default_value = "never")]
    rerank: RerankArg,
    /// The cross-encoder: its name (BGERerankerBase, BGERerankerV2M3, JINARerankerV1TurboEn,
    /// JINARerankerV2BaseMultilingual, or that on its hub), or a folder with model.onnx and tokenizer.json.
    #[arg(long, value_name = "NAME|DIR")]
    rerank_model: Option<String>,
    /// Base of the language model's API, such as http://localhost:8080/v1 (llama.cpp, vLLM, LM Studio),
    /// http://localhost:11434 (Ollama) or `https://api.anthropic.com/v1`; its key is read from PICKTOOLS_LLM_API_KEY, else
    /// from OPENAI_API_KEY or ANTHROPIC_API_KEY as the provider has it; set the first to nothing to send none.
    #[arg(long, value_name = "URL")]
    llm_url: Option<String>,
    /// Name of the language model.
    #[arg(long, value_name = "NAME")]
    llm_model: Option<String>,
    /// Format that the language model is asked in: openai, and all that speak it, anthropic or ollama.
    #[arg(long, value_name = "PROVIDER", default_value = "openai")]
    llm_provider: Provider,
    /// How long the language model may take where there is no --timeout-ms.
    #[arg(long, value_name = "MS", default_value_t = 10_000, value_parser = whole::<u64>,
        allow_negative_numbers = true)]
    llm_timeout_ms: u64,
    /// Members for the body of requests to the language model, as a JSON object; null takes one away, as in
    /// {"temperature": null}.
    #[arg(long, value_name = "JSON")]
    llm_extra: Option<String>,
}

impl RerankArgs {
    pub(super) fn apply(&self, options: &mut PickOptions) {
        options.rerank = match self.rerank {
            RerankArg::Never => Rerank::Never,
            RerankArg::Auto => Rerank::Auto,
            RerankArg::Local | RerankArg::Llm => Rerank::Always,
        };
    }

    /// Makes the reranker that is asked for, if one is.
    ///
    /// A cross-encoder that is not open by `deadline` is one that fails for that reason.
    pub(super) fn open(
        &self,
        folders: &FolderArgs,
        deadline: Option<Instant>,
    ) -> anyhow::Result<Option<Arc<dyn Reranker>>> {
        match self.rerank {
            RerankArg::Never => Ok(None),
            RerankArg::Local => self.local(folders, deadline).map(Some),
            RerankArg::Llm => self.llm().map(Some),
            RerankArg::Auto => match (&self.rerank_model, &self.llm_url) {
                (Some(_), Some(_)) => bail!("--rerank auto takes either --rerank-model or --llm-url"),
                (Some(_), None) => self.local(folders, deadline).map(Some),
                (None, Some(_)) => self.llm().map(Some),
                (None, None) => {
                    bail!("--rerank auto needs --rerank-model NAME|DIR, or --llm-url URL and --llm-model NAME")
                }
            },
        }
    }

    fn local(&self, folders: &FolderArgs, deadline: Option<Instant>) -> anyhow::Result<Arc<dyn Reranker>> {
        let Some(model) = self.rerank_model.clone() else {
            bail!("--rerank local needs --rerank-model NAME|DIR");
        };
        let Some(deadline) = deadline else { return folders.cross_encoder(&model) };
        let (name, folders) = (model.clone(), folders.clone());
        let (sender, receiver) = mpsc::channel();
        thread::Builder::new().spawn(move || sender.send(folders.cross_encoder(&model)))?;
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(reranker) => reranker,
            Err(RecvTimeoutError::Timeout) => Ok(Arc::new(Late(name))),
            Err(RecvTimeoutError::Disconnected) => bail!("the reranker {name:?} panicked when it was opened"),
        }
    }

    fn llm(&self) -> anyhow::Result<Arc<dyn Reranker>> {
        let (Some(url), Some(model)) = (&self.llm_url, &self.llm_model) else {
            bail!("a language model reranks with --llm-url URL and --llm-model NAME");
        };
        self.language_model(url, model, self.extra()?)
    }

    fn extra(&self) -> anyhow::Result<Map<String, Value>> {
        match self.llm_extra.as_deref().map(serde_json::from_str) {
            None => Ok(Map::new()),
            Some(Ok(Value::Object(members))) => Ok(members),
            Some(Ok(_)) => bail!("--llm-extra is not a JSON object"),
            Some(Err(error)) => bail!("--llm-extra is not a JSON object: {error}"),
        }
    }

    #[cfg(feature = "llm")]
    fn language_model(&self, url: &str, model: &str, extra: Map<String, Value>) -> anyhow::Result<Arc<dyn Reranker>> {
        let options = picktools::client::EndpointOptions {
            api_key: api_key(self.llm_provider)?,
            // The pick, or the reranker, says how long.
            timeout: Duration::from_secs(3600),
            proxy_from_env: true,
        };
        let client = picktools::client::ProviderClient::new(self.llm_provider, url, &options)?;
        let reranker = picktools::rerank::LlmReranker::new(client, model)?.extra(extra);
        Ok(Arc::new(picktools::rerank::CircuitBreaker::new(
            reranker.timeout(Duration::from_millis(self.llm_timeout_ms)),
        )))
    }

    #[cfg(not(feature = "llm"))]
    fn language_model(&self, _: &str, _: &str, _: Map<String, Value>) -> anyhow::Result<Arc<dyn Reranker>> {
        bail!("this build asks no language models; build with the feature llm")
    }
}

/// Stands in for a reranker that was not open in time, by its name.
struct Late(String);

impl Reranker for Late {
    fn name(&self) -> &str {
        &self.0
    }

    fn rerank<'a>(&'a self, _: &'a Query, _: &'a [Arc<Tool>], _: Option<Instant>) -> RerankFuture<'a> {
        let reason = "it was not open when the deadline passed".to_owned();
        Box::pin(async move { Err(RerankError::Failed { reranker: self.0.clone(), reason }) })
    }
}

/// The key of a language model. An empty one of our own keeps the provider's from being sent.
#[cfg(feature = "llm")]
fn api_key(provider: Provider) -> anyhow::Result<Option<String>> {
    let of_provider = match provider {
        Provider::OpenAiChat => Some("OPENAI_API_KEY"),
        Provider::Anthropic => Some("ANTHROPIC_API_KEY"),
        _ => None,
    };
    super::args::first_variable(std::iter::once("PICKTOOLS_LLM_API_KEY").chain(of_provider))
}
