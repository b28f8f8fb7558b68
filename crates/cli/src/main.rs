//! The program `picktools`: one file per command, each of which reads, calls the library and
//! renders.
//!
//! Answers go to standard output, everything else to standard error. Exit codes: 0 done, 1 answered
//! "no", 2 usage or input error; with `--json` an error is an answer too:
//! `{"error": {"message": …, "causes": […]}}`.

mod approve;
mod args;
mod asking;
mod call;
mod calls;
mod check;
mod completions;
mod enrich;
mod eval;
mod heading;
mod history;
mod import;
mod index;
mod init;
mod interruption;
mod learn;
mod live;
mod llm;
mod mcp;
mod models;
mod numbers;
mod origin;
mod output;
mod pick;
mod reading;
mod replay;
mod report;
mod rerank;
pub mod resolve;
mod run;
mod runners;
mod running;
mod servers;
mod serve;
mod signals;
mod store;
mod store_args;
#[cfg(feature = "otel")]
mod telemetry;
mod translate;
mod validate;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
#[cfg(feature = "otel")]
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// A gateway runs for weeks: memory of ended sessions goes back to the system.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Makes the runtime of a gateway.
fn gateway_runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
}

/// The few tools a request needs, out of thousands, with a reason for every pick and every
/// exclusion.
#[derive(Parser)]
#[command(name = "picktools", version, about, propagate_version = true, after_help = EXIT_CODES)]
struct Cli {
    /// Log on standard error what is registered and resolved, such as each alias; PICKTOOLS_LOG
    /// sets levels, as in picktools=debug, and counts before this.
    #[arg(short, long, global = true, help_heading = heading::OUTPUT)]
    verbose: bool,
    /// How lines for the log are written: for people, or a JSON object each.
    #[arg(long, global = true, value_name = "FORM", value_parser = ["text", "json"], default_value = "text",
        help_heading = heading::OUTPUT)]
    log_format: String,
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 answered \"no\", 2 usage or input error. \
With --json an error is an object on standard output: {\"error\": {\"message\": ..., \"causes\": [...]}}.";

#[derive(Subcommand)]
enum Command {
    /// Pick the tools that a request needs.
    Pick(pick::PickCommand),
    /// Index a catalog and tell what the index holds; this fills the embedding cache of a model
    /// that needs one.
    Index(index::IndexCommand),
    /// Tell which tools names mean: by name or alias, also in a variant spelling.
    Resolve(resolve::ResolveCommand),
    /// Write the tools of a catalog in a provider's format.
    Translate(translate::TranslateCommand),
    /// Hold calls of a model to the tools that they mean: one result per call.
    Validate(validate::ValidateCommand),
    /// Run a tool: resolved, checked, confirmed, and told while it runs.
    Call(call::CallCommand),
    /// Run all calls of a model's answer.
    Run(run::RunCommand),
    /// Look for what is wrong with a catalog: schemas, names and aliases, and texts written to
    /// deceive a model.
    Check(check::CheckCommand),
    /// Serve one client as one MCP server before many: on standard input and output, it shows the
    /// few tools that a request needs.
    Mcp(mcp::McpCommand),
    /// Serve many clients as one MCP server before many, over HTTP.
    Serve(serve::ServeCommand),
    /// Show the definitions of MCP servers that wait for approval, with what changed, and approve
    /// them.
    Approve(approve::ApproveCommand),
    /// Tell whether the audit of a gateway is whole, and run its selections again: with what they
    /// were made with, or with another catalog, model or policy.
    Replay(replay::ReplayCommand),
    /// Make a catalog, as JSON Lines, of what people already have: OpenAPI documents, MCP servers.
    Import(import::ImportCommand),
    /// Put picktools in front of the MCP servers that clients on this machine are configured with.
    Init(init::InitCommand),
    /// Measure ranking quality and latency on queries with known answers.
    Eval(eval::EvalCommand),
    /// Make a file of examples, for --examples, of what tools have served: transcripts, audit
    /// records, or lines of a request and a tool.
    Learn(learn::LearnCommand),
    /// Ask a language model for sample requests of each tool, once a tool, and keep them in a file
    /// of examples.
    Enrich(enrich::EnrichCommand),
    /// Look after a catalog in a store that several share.
    Store(store::StoreCommand),
    /// List the embedding models that --model takes, and fetch them.
    Models(models::ModelsCommand),
    /// Print the completion script of a shell.
    Completions(completions::CompletionsCommand),
}

fn main() -> ExitCode {
    let done = |()| ExitCode::SUCCESS;
    let as_json = wants_json();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            output::usage_error(&error, as_json);
            return ExitCode::from(2);
        }
        Err(help) => help.exit(),
    };
    let _exporting = match init_logging(cli.verbose, cli.log_format == "json") {
        Ok(exporting) => exporting,
        Err(error) => {
            output::error(&error, as_json);
            return ExitCode::from(2);
        }
    };
    let result = match cli.command {
        Command::Pick(command) => command.run().map(done),
        Command::Resolve(command) => command.run(),
        Command::Translate(command) => command.run().map(done),
        Command::Validate(command) => command.run(),
        Command::Call(command) => command.run(),
        Command::Run(command) => command.run(),
        Command::Mcp(command) => command.run(),
        Command::Serve(command) => command.run(),
        Command::Approve(command) => command.run(),
        Command::Replay(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Index(command) => command.run().map(done),
        Command::Import(command) => command.run(),
        Command::Init(command) => command.run(),
        Command::Eval(command) => command.run().map(done),
        Command::Learn(command) => command.run().map(done),
        Command::Enrich(command) => command.run(),
        Command::Store(command) => command.run(),
        Command::Models(command) => command.run().map(done),
        Command::Completions(command) => command.run(Cli::command()).map(done),
    };
    match result {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(&error, as_json);
            ExitCode::from(2)
        }
    }
}

/// Whether answers are JSON, as far as can be told before the arguments are understood.
fn wants_json() -> bool {
    std::env::args_os()
        .skip(1)
        .take_while(|argument| argument != "--")
        .any(|argument| argument == "--json")
}

/// A reader that has seen enough (`picktools … | head`) is not an error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Has lines for the log written, and spans exported while what is returned lives.
fn init_logging(verbose: bool, as_json: bool) -> anyhow::Result<impl Sized> {
    let level = if verbose { "picktools=debug" } else { "error" };
    let filter = EnvFilter::try_from_env("PICKTOOLS_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal() && !as_json);
    let lines = if as_json {
        lines.json().with_filter(filter).boxed()
    } else {
        lines.with_filter(filter).boxed()
    };
    let registry = tracing_subscriber::registry().with(lines);
    #[cfg(feature = "otel")]
    {
        let (layer, exporting) = telemetry::exporting()?.unzip();
        let spans = Targets::new().with_target("picktools::span", LevelFilter::INFO);
        registry.with(layer.with_filter(spans)).init();
        Ok(exporting)
    }
    #[cfg(not(feature = "otel"))]
    {
        registry.init();
        Ok(())
    }
}
