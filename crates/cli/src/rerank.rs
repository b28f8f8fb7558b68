//! Whether, and by what, the best candidates are put in another order.

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
    /// Put the best candidates in another order: never, always by a cross-encoder on this machine
    /// (local) or by a language model (llm), or by the one that is named where scores lie close
    /// together (auto).
    #[arg(long, value_enum, default_value = "never")]
    rerank: RerankArg,
    /// The cross-encoder: its name (BGERerankerBase, BGERerankerV2M3, JINARerankerV1TurboEn,
    /// JINARerankerV2BaseMultilingual, or that on its hub), or a folder with model.onnx and
    /// tokenizer.json.
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
            RerankArg::Auto => match (&self.rerank_model, self.llm.is_named()) {
                (Some(_), true) => bail!("--rerank auto takes either --rerank-model or --llm-url"),
                (Some(_), false) => self.local(folders, deadline).map(Some),
                (None, true) => self.llm().map(Some),
                (None, false) => {
                    bail!(
                        "--rerank auto needs --rerank-model NAME|DIR, or --llm-url URL and --llm-model NAME"
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
            Err(RecvTimeoutError::Timeout) => Ok(Arc::new(Late(name))),
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
        } = self.llm.open("reranks")?;
        let reranker = picktools_llm::LlmReranker::new(client, &model)?
            .extra(extra)
            .timeout(timeout);
        Ok(Arc::new(picktools::rerank::CircuitBreaker::new(reranker)))
    }
}

/// Stands in for a reranker that was not open in time, by its name.
struct Late(String);

impl Reranker for Late {
    fn name(&self) -> &str {
        &self.0
    }

    fn rerank<'a>(
        &'a self,
        _: &'a Query,
        _: &'a [Arc<Tool>],
        _: Option<Instant>,
    ) -> RerankFuture<'a> {
        let reason = "it was not open when the deadline passed".to_owned();
        Box::pin(async move {
            Err(RerankError::Failed {
                reranker: self.0.clone(),
                reason,
            })
        })
    }
}
