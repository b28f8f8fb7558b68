//! The program `picktools`: one file per command. Each command reads its input, calls the library
//! and prints the answer.
//!
//! Answers go to standard output, everything else to standard error. Exit codes: 0 success, 1 a
//! negative answer, 2 a usage or input error. With `--json` an error is printed as JSON, too:
//! `{"error": {"message": …, "causes": […]}}`.

mod approve;
mod args;
mod asking;
mod call;
mod calls;
mod check;
mod completions;
mod doctor;
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
mod memory;
mod models;
mod numbers;
mod origin;
mod output;
mod pick;
mod reading;
mod recorded_reading;
mod replay;
mod report;
mod rerank;
pub mod resolve;
mod run;
mod runners;
mod running;
mod server_report;
mod servers;
mod serve;
mod signals;
mod status;
mod store;
mod store_args;
#[cfg(feature = "otel")]
mod telemetry;
mod translate;
mod validate;

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
#[cfg(feature = "otel")]
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// Returns the memory of ended sessions to the system, because a gateway runs for weeks.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Pick the few tools that a request needs out of thousands, with reasons.
#[derive(Parser)]
#[command(name = "picktools", version, propagate_version = true, after_help = EXIT_CODES)]
struct Cli {
    /// Log details to standard error.
    ///
    /// When a catalog is read, the log shows, for example, each alias (another name of a tool) and its
    /// tool. To log still more, set the environment variable PICKTOOLS_LOG, for example to `debug`. It
    /// takes precedence over this option.
    #[arg(short, long, global = true, help_heading = heading::OUTPUT)]
    verbose: bool,
    /// Format of log lines: plain text, or one JSON object per line.
    #[arg(long, global = true, value_name = "FORM", value_parser = ["text", "json"],
        default_value = "text", help_heading = heading::OUTPUT)]
    log_format: String,
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 success, 1 negative answer, 2 usage or input error.
With --json an error is an object on standard output: \
{\"error\": {\"message\": ..., \"causes\": [...]}}.";

/// The text that `picktools` prints without arguments.
const OVERVIEW: &str = "\
picktools picks the few tools that a request needs out of thousands, with reasons.

  picktools init                      put picktools in front of the MCP servers of your clients
  picktools mcp --config .mcp.json    run the MCP gateway for one client
  picktools pick \"…\" --catalog PATH   pick the tools that a request needs

`picktools --help` lists all commands; `picktools <COMMAND> --help` explains one.";

/// The groups of commands in the top-level help, in order.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Start", &["init", "mcp", "serve", "pick"]),
    (
        "Tools",
        &["resolve", "call", "run", "validate", "translate"],
    ),
    ("Catalogs", &["import", "index", "check", "store", "models"]),
    ("Quality", &["eval", "learn", "enrich"]),
    (
        "Operations",
        &["doctor", "status", "approve", "replay", "completions"],
    ),
];

// The help of a command is the documentation of its struct.
#[derive(Subcommand)]
enum Command {
    Init(init::InitCommand),
    Mcp(mcp::McpCommand),
    #[command(alias = "gateway")]
    Serve(serve::ServeCommand),
    Pick(pick::PickCommand),
    Resolve(resolve::ResolveCommand),
    Call(call::CallCommand),
    Run(run::RunCommand),
    Validate(validate::ValidateCommand),
    Translate(translate::TranslateCommand),
    Import(import::ImportCommand),
    Index(index::IndexCommand),
    Check(check::CheckCommand),
    Store(store::StoreCommand),
    Models(models::ModelsCommand),
    Eval(eval::EvalCommand),
    Learn(learn::LearnCommand),
    Enrich(enrich::EnrichCommand),
    Doctor(doctor::DoctorCommand),
    Status(status::StatusCommand),
    Approve(approve::ApproveCommand),
    Replay(replay::ReplayCommand),
    Completions(completions::CompletionsCommand),
}

impl Command {
    /// Runs the command and returns the exit code of its answer.
    fn run(self) -> anyhow::Result<ExitCode> {
        let success = |()| ExitCode::SUCCESS;
        match self {
            Self::Init(command) => command.run(),
            Self::Doctor(command) => command.run(),
            Self::Status(command) => command.run(),
            Self::Mcp(command) => command.run(),
            Self::Serve(command) => command.run(),
            Self::Pick(command) => command.run().map(success),
            Self::Resolve(command) => command.run(),
            Self::Call(command) => command.run(),
            Self::Run(command) => command.run(),
            Self::Validate(command) => command.run(),
            Self::Translate(command) => command.run().map(success),
            Self::Import(command) => command.run(),
            Self::Index(command) => command.run().map(success),
            Self::Check(command) => command.run(),
            Self::Store(command) => command.run(),
            Self::Models(command) => command.run().map(success),
            Self::Eval(command) => command.run().map(success),
            Self::Learn(command) => command.run().map(success),
            Self::Enrich(command) => command.run(),
            Self::Approve(command) => command.run(),
            Self::Replay(command) => command.run(),
            Self::Completions(command) => command.run(program()).map(success),
        }
    }
}

/// Options that a gateway does not read from the environment: `--store env` reads the store, and the
/// others are no settings.
const NOT_FROM_ENVIRONMENT: [&str; 4] = ["store", "tenant", "new-key", "help"];

/// Lets an option of a gateway also come from a variable, such as PICKTOOLS_LISTEN, because
/// containers are configured by variables.
fn with_variable(option: clap::Arg) -> clap::Arg {
    match option.get_long() {
        Some(name) if !NOT_FROM_ENVIRONMENT.contains(&name) => {
            let variable = format!("PICKTOOLS_{}", name.to_uppercase().replace('-', "_"));
            // An empty variable counts as none, as in a file of variables without a value.
            if std::env::var_os(&variable).is_some_and(|value| value.is_empty()) {
                return option;
            }
            // The definition is made once, and lives as long as the program.
            option.env(&*variable.leak()).hide_env_values(true)
        }
        _ => option,
    }
}

/// Returns the command-line definition, whose help lists the commands in [`GROUPS`].
fn program() -> clap::Command {
    let mut command = Cli::command();
    for name in ["mcp", "serve"] {
        command = command.mut_subcommand(name, |gateway| gateway.mut_args(with_variable));
    }
    let styles = command.get_styles();
    let (header, literal) = (*styles.get_header(), *styles.get_literal());
    let mut list = String::new();
    for (title, names) in GROUPS {
        let _infallible = writeln!(list, "{header}{title}:{header:#}");
        for name in names {
            let subcommand = command.find_subcommand(name);
            let summary = subcommand
                .and_then(clap::Command::get_about)
                .map(ToString::to_string)
                .unwrap_or_default();
            let _infallible = writeln!(list, "  {literal}{name:<12}{literal:#} {summary}");
        }
        list.push('\n');
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}\
         {header}Options:{header:#}\n{{options}}{{after-help}}"
    ))
}

/// Parses the arguments of this process.
fn parse() -> Result<Cli, clap::Error> {
    let mut command = program();
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Returns the path of this program.
fn own_program() -> Option<PathBuf> {
    // On Linux this path also holds after the file was replaced by another version.
    let own = PathBuf::from("/proc/self/exe");
    if own.exists() {
        return Some(own);
    }
    std::env::current_exe().ok()
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments
        .next()
        .is_some_and(|first| first == picktools_mcp::SUPERVISE)
    {
        return picktools_mcp::supervise(arguments);
    }
    if let Some(program) = own_program() {
        picktools_mcp::supervise_programs(program);
    }
    if std::env::args_os().len() <= 1 {
        output::note_lines(OVERVIEW);
        return ExitCode::from(2);
    }
    let as_json = wants_json();
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            output::usage_error(&error, as_json);
            return ExitCode::from(2);
        }
        Err(help) => help.exit(),
    };
    let _span_export = match init_logging(cli.verbose, cli.log_format == "json") {
        Ok(span_export) => span_export,
        Err(error) => {
            output::error(&error, as_json);
            return ExitCode::from(2);
        }
    };
    match cli.command.run() {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(&error, as_json);
            ExitCode::from(2)
        }
    }
}

/// Returns `true` if the arguments ask for JSON; used before they are parsed.
fn wants_json() -> bool {
    std::env::args_os()
        .skip(1)
        .take_while(|argument| argument != "--")
        .any(|argument| argument == "--json")
}

/// Returns `true` if the reader of the output closed it (`picktools … | head`), which is not a
/// failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    for cause in error.chain() {
        if let Some(cause) = cause.downcast_ref::<io::Error>()
            && cause.kind() == io::ErrorKind::BrokenPipe
        {
            return true;
        }
    }
    false
}

/// Starts the log, and the export of spans for the lifetime of the returned value.
fn init_logging(verbose: bool, as_json: bool) -> anyhow::Result<impl Sized> {
    // The protocol library logs each failure once more, in its own words.
    let level = if verbose {
        "picktools=debug"
    } else {
        "error,picktools::gateway=warn,picktools::mcp=warn,picktools::store=warn,rmcp=off"
    };
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
        let (layer, span_export) = telemetry::span_export()?.unzip();
        let spans = Targets::new().with_target("picktools::span", LevelFilter::INFO);
        registry.with(layer.with_filter(spans)).init();
        Ok(span_export)
    }
    #[cfg(not(feature = "otel"))]
    {
        registry.init();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most columns of a summary line.
    const MAX_COLUMNS: usize = 80;

    /// Calls `visit` with the full name of each command below `parent`, and the command.
    fn visit_commands(
        parent: &clap::Command,
        parent_name: &str,
        visit: &mut dyn FnMut(&str, &clap::Command),
    ) {
        for command in parent.get_subcommands() {
            if command.get_name() == "help" {
                continue;
            }
            let name = format!("{parent_name} {}", command.get_name());
            visit(&name, command);
            visit_commands(command, &name, visit);
        }
    }

    fn built_program() -> clap::Command {
        let mut command = program();
        command.build();
        command
    }

    /// Splits a command line at blanks outside quotes.
    fn split_words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        let (mut word, mut quote, mut is_word) = (String::new(), None, false);
        for c in line.chars() {
            match (quote, c) {
                (None, '"' | '\'') => (quote, is_word) = (Some(c), true),
                (Some(open), _) if open == c => quote = None,
                (None, ' ') if is_word => {
                    words.push(std::mem::take(&mut word));
                    is_word = false;
                }
                (None, ' ') => {}
                _ => {
                    word.push(c);
                    is_word = true;
                }
            }
        }
        words.extend(is_word.then_some(word));
        words
    }

    #[test]
    fn command_groups_contain_every_command_once() {
        let grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        let command = Cli::command();
        let defined: Vec<&str> = command
            .get_subcommands()
            .map(clap::Command::get_name)
            .collect();
        assert_eq!(grouped, defined);
        let help = program().render_long_help().to_string();
        for name in defined {
            assert!(help.contains(&format!("\n  {name} ")), "{name}: {help}");
        }
    }

    #[test]
    fn summaries_are_one_line_of_80_columns() {
        visit_commands(&built_program(), "picktools", &mut |name, command| {
            let about = command
                .get_about()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(!about.is_empty(), "{name} has no summary");
            assert!(about.chars().count() <= MAX_COLUMNS, "{name}: {about}");
            for argument in command.get_arguments() {
                let help = argument
                    .get_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                let id = argument.get_id();
                assert!(!help.is_empty(), "{name} {id} has no summary");
                assert!(help.chars().count() <= MAX_COLUMNS, "{name} {id}: {help}");
            }
        });
    }

    #[test]
    fn examples_of_every_command_parse() {
        visit_commands(&built_program(), "picktools", &mut |name, command| {
            let examples = command.get_after_long_help();
            let examples = examples.map(ToString::to_string).unwrap_or_default();
            let mut lines = examples.lines();
            assert_eq!(lines.next(), Some("Examples:"), "{name}");
            let mut count = 0;
            for line in lines {
                let line = line.strip_prefix("  ").unwrap_or_default();
                assert!(
                    line.starts_with(&format!("{name} ")) || line == name,
                    "{name}: {line}"
                );
                let line = line.split(" > ").next().unwrap_or_default();
                let parsed = program().try_get_matches_from(split_words(line));
                if let Err(error) = parsed {
                    panic!("{line}: {error}");
                }
                count += 1;
            }
            assert!(count >= 2, "{name} has {count} examples");
        });
    }
}
