//! Ranks the requests of a benchmark folder with the BM25 of `ratel-ai-core`, for
//! `scripts/scoreboard.sh`.
//!
//! usage: `scoreboard-ratel TOOLS QUERIES K RUN` reads `tools.jsonl` and `queries.jsonl`, writes a
//! TREC run, and prints the seconds of each request and of the preparation as one line of JSON.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::time::Instant;

use ratel_ai_core::{Tool, ToolRegistry};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct ToolLine {
    id: String,
    name: String,
    description: String,
    parameters: Value,
}

#[derive(Deserialize)]
struct QueryLine {
    id: String,
    text: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tools, queries, k, run] = &arguments[..] else {
        return Err("usage: scoreboard-ratel TOOLS QUERIES K RUN".into());
    };
    let k: usize = k.parse().map_err(|error| format!("K is {k:?}: {error}"))?;
    let tools: Vec<ToolLine> = lines(tools)?;
    let queries: Vec<QueryLine> = lines(queries)?;

    let started = Instant::now();
    let mut registry = ToolRegistry::new();
    for ToolLine { id, name, description, parameters } in tools {
        registry.register(Tool {
            id,
            name,
            description,
            experimental_searchable_description: None,
            input_schema: parameters,
            output_schema: Value::Null,
        });
    }
    // The index is built by the first search.
    registry.search("tool", 1);
    let prepare = started.elapsed().as_secs_f64();

    let mut out = BufWriter::new(File::create(run).map_err(|error| format!("cannot write {run}: {error}"))?);
    let mut seconds = Vec::with_capacity(queries.len());
    for QueryLine { id: query, text } in &queries {
        let started = Instant::now();
        let hits = registry.search(text, k);
        seconds.push(started.elapsed().as_secs_f64());
        for (place, hit) in hits.iter().enumerate() {
            writeln!(out, "{query} Q0 {} {} {} ratel", hit.tool_id, place + 1, hit.score)?;
        }
    }
    out.flush()?;
    println!("{}", json!({ "prepare": prepare, "seconds": seconds }));
    Ok(())
}

/// Reads JSON Lines.
fn lines<T: DeserializeOwned>(path: &str) -> Result<Vec<T>, Box<dyn Error>> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let line = |(number, line)| {
        serde_json::from_str(line).map_err(|error| format!("{path}, line {}: {error}", number + 1).into())
    };
    text.lines().enumerate().map(line).collect()
}
