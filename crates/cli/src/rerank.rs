//! Arguments that select a reranker.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Instant;

use anyhow::bail;
use clap::{Args, ValueEnum};

use super::args::FolderArgs;
use super::heading;
use super::llm::Llm;
use super::llm::LlmArgs;
use picktools::rerank::{Rerank, RerankError, RerankFuture, Reranker};
use picktools::{PickOptions, Query, Tool};

/// The reranker, and the cases in which it is used.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RerankArg {
    /// No reranker.
    Never,
    /// The reranker of --rerank-model or --llm-url, if the scores are close together.
    Auto,
    /// A cross-encoder on this machine, always.
    Local,
    /// The language model, always.
    Llm,
}

#[derive(Args)]
#[command(next_help_heading = heading::RERANKING)]
pub(super) struct RerankArgs {
    /// Reranker that orders the shortlist again.
    ///
    /// The shortlist has at most 20 tools. `auto` uses the cross-encoder of --rerank-model or the
    /// language model of --llm-url; give one of them. It runs only if the scores are so close
    /// together that its answer can change the picks. `local` is a cross-encoder on this machine,
    /// `llm` a language model.
    #[arg(long, value_enum, default_value = "never")]
    rerank: RerankArg,
    /// Cross-encoder: its name, or a folder with model.onnx and tokenizer.json.
    ///
    /// The names are BGERerankerBase, BGERerankerV2M3, JINARerankerV1TurboEn and
    /// JINARerankerV2BaseMultilingual. Their names on Hugging Face work, too, such as
    /// BAAI/bge-reranker-base.
    #[arg(long, value_name = "NAME|DIR")]
    rerank_model: Option<String>,
    #[command(flatten)]
    llm: LlmArgs,
}

impl RerankArgs {
    pub(super) fn apply(&self, options: &mut PickOptions) {
        options.rerank = match self.rerank {
            RerankArg::Never => Rerank::Never,
            RerankArg::Auto => Rerank::Auto,
            RerankArg::Local | RerankArg::Llm => Rerank::Always,
        };
    }

    /// Opens the reranker, if one is needed.
    ///
    /// A cross-encoder that is not open by `deadline` becomes a reranker that fails for that
    /// reason.
    pub(super) fn open(
        &self,
        folders: &FolderArgs,
        deadline: Option<Instant>,
    ) -> anyhow::Result<Option<Arc<dyn Reranker>>> {
        match self.rerank {
            RerankArg::Never => Ok(None),
            RerankArg::Local => Ok(Some(self.local(folders, deadline)?)),
            RerankArg::Llm => Ok(Some(self.llm()?)),
            RerankArg::Auto => match (&self.rerank_model, self.llm.is_named()) {
                (Some(_), true) => {
                    bail!("--rerank auto takes --rerank-model or --llm-url, not both")
                }
                (Some(_), false) => Ok(Some(self.local(folders, deadline)?)),
                (None, true) => Ok(Some(self.llm()?)),
                (None, false) => {
                    bail!(
                        "--rerank auto needs --rerank-model NAME|DIR, or --llm-url URL and \
                         --llm-model NAME"
                    )
                }
            },
        }
    }

    fn local(
        &self,
        folders: &FolderArgs,
        deadline: Option<Instant>,
    ) -> anyhow::Result<Arc<dyn Reranker>> {
        let Some(model) = self.rerank_model.clone() else {
            bail!("--rerank local needs --rerank-model NAME|DIR");
        };
        let Some(deadline) = deadline else {
            return folders.cross_encoder(&model);
        };
        let (name, folders) = (model.clone(), folders.clone());
        let (sender, receiver) = mpsc::channel();
        thread::Builder::new().spawn(move || sender.send(folders.cross_encoder(&model)))?;
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(reranker) => reranker,
            Err(RecvTimeoutError::Timeout) => Ok(Arc::new(UnopenedReranker(name))),
            Err(RecvTimeoutError::Disconnected) => {
                bail!("the reranker {name:?} panicked when it was opened")
            }
        }
    }

    fn llm(&self) -> anyhow::Result<Arc<dyn Reranker>> {
        let Llm {
            client,
            model,
            extra,
            timeout,
        } = self.llm.open("reranking")?;
        let reranker = picktools_llm::LlmReranker::new(client, &model)?
            .extra(extra)
            .timeout(timeout);
        Ok(Arc::new(picktools::rerank::CircuitBreaker::new(reranker)))
    }
}

/// A placeholder, with the name of the reranker that was not open in time.
struct UnopenedReranker(String);

impl Reranker for UnopenedReranker {
    fn name(&self) -> &str {
        &self.0
    }

    fn rerank<'a>(
        &'a self,
        _: &'a Query,
        _: &'a [Arc<Tool>],
        _: Option<Instant>,
    ) -> RerankFuture<'a> {
        let reason = "it was not open at the deadline".to_owned();
        Box::pin(async move {
            Err(RerankError::Failed {
                reranker: self.0.clone(),
                reason,
            })
        })
    }
}
