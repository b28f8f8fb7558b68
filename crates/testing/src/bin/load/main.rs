//! Load generator and synthetic servers for `scripts/measure-load.py`.
//!
//! Each command prints its figures as one line of JSON. Blocking threads keep the program small,
//! and fast enough not to be the bottleneck: one thread serves or makes 50,000 calls a second.

mod options;
mod random;
mod synthetic;
mod figures;
mod upstream;
mod http;
mod model;
mod requests;
mod sessions;
mod stdio;

use std::io::Write;
use std::process::ExitCode;

use options::Options;
use serde_json::Value;

const USAGE: &str = "usage: picktools-load COMMAND [--OPTION VALUE]... [-- PROGRAM ARGUMENT...]

upstream  MCP server on standard input and output: --tools N --seed S --start-delay-ms MS
          --change-every-ms MS --call-ms MS
catalog   print synthetic tools as JSON lines: --tools N --seed S
model     OpenAI-compatible model that says the same each time; prints its port
requests  POST requests: --port P --kind pick|batch|proxy --connections N --requests N --seconds S
          --warm-up N --size N
sessions  MCP sessions that call a tool: --port P --sessions N --requests N --seconds S --tool NAME
          --hold 1 keeps them open until standard input ends
stdio     MCP client of PROGRAM: --requests N --tool NAME --searches N --rounds N --settle-ms MS
          --tools N lists again until there are so many";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let done = Options::parse(arguments).and_then(|options| run(&command, &options));
    let printed = match done {
        Ok(None) => return ExitCode::SUCCESS,
        Ok(Some(figures)) => writeln!(std::io::stdout(), "{figures}"),
        Err(error) => {
            let _closed = writeln!(std::io::stderr(), "picktools-load: {error}");
            return ExitCode::from(2);
        }
    };
    if printed.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs a command until its end. Returns its figures, if it has any.
fn run(command: &str, options: &Options) -> Result<Option<Value>, String> {
    match command {
        "upstream" => upstream::serve(options).map(|()| None),
        "catalog" => synthetic::print_catalog(options).map(|()| None),
        "model" => model::serve().map(|()| None),
        "requests" => requests::measure(options).map(Some),
        "sessions" => sessions::measure(options).map(Some),
        "stdio" => stdio::measure(options).map(Some),
        _ => Err(USAGE.to_owned()),
    }
}
