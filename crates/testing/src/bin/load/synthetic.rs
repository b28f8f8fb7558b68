//! Synthetic tools and requests, the same for the same seed.

use std::io::{BufWriter, Write};

use serde_json::{Value, json};

use crate::options::Options;
use crate::random::Random;

const VERBS: [&str; 24] = [
    "create",
    "delete",
    "list",
    "find",
    "update",
    "send",
    "archive",
    "export",
    "import",
    "merge",
    "convert",
    "schedule",
    "cancel",
    "approve",
    "publish",
    "compare",
    "translate",
    "summarize",
    "upload",
    "download",
    "share",
    "rename",
    "measure",
    "restore",
];
const OBJECTS: [&str; 40] = [
    "invoice",
    "contract",
    "meeting",
    "ticket",
    "message",
    "picture",
    "report",
    "customer",
    "order",
    "payment",
    "server",
    "backup",
    "calendar",
    "document",
    "playlist",
    "recipe",
    "flight",
    "hotel",
    "weather forecast",
    "stock price",
    "repository",
    "branch",
    "commit",
    "issue",
    "milestone",
    "dashboard",
    "alert",
    "database",
    "table",
    "spreadsheet",
    "survey",
    "contact",
    "campaign",
    "shipment",
    "warehouse",
    "employee",
    "vacation",
    "timesheet",
    "bookmark",
    "translation",
];
const AREAS: [&str; 20] = [
    "sales",
    "support",
    "finance",
    "travel",
    "logistics",
    "marketing",
    "engineering",
    "security",
    "legal",
    "research",
    "health care",
    "education",
    "music",
    "sports",
    "news",
    "real estate",
    "human resources",
    "manufacturing",
    "gaming",
    "government",
];
const PLACES: [&str; 10] = [
    "Lisbon", "Oslo", "Nairobi", "Toronto", "Kyoto", "Lima", "Vienna", "Dublin", "Hanoi", "Quito",
];
const PARAMETERS: [(&str, &str, &str); 8] = [
    ("id", "string", "Identifier of the entry"),
    ("name", "string", "Name as people see it"),
    ("limit", "integer", "Largest number of results"),
    ("since", "string", "Earliest date, as in 2026-01-31"),
    ("owner", "string", "Person who is responsible"),
    ("is_draft", "boolean", "Keep it as a draft"),
    ("language", "string", "Language of the texts"),
    ("tags", "string", "Words that describe it, with commas"),
];

/// A tool that does nothing.
pub(crate) struct SyntheticTool {
    name: String,
    description: String,
    schema: Value,
}

impl SyntheticTool {
    /// Returns the tool with a number in the sequence of a seed. Its definition has about 340
    /// bytes.
    pub(crate) fn new(seed: u64, number: usize) -> Self {
        let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        let (verb, object) = (random.word(&VERBS), random.word(&OBJECTS));
        let (area, other) = (random.word(&AREAS), random.word(&OBJECTS));
        let mut properties = serde_json::Map::new();
        let first = random.below(PARAMETERS.len());
        for offset in 0..1 + random.below(3) {
            let (name, kind, text) = PARAMETERS[(first + offset) % PARAMETERS.len()];
            properties.insert(name.to_owned(), json!({"type": kind, "description": text}));
        }
        let required = PARAMETERS[first].0;
        Self {
            name: format!("{verb}_{}_{number}", object.replace(' ', "_")),
            description: format!(
                "{verb} a {object} in the {area} workspace {number}, or the {other} of that {object}."
            ),
            schema: json!({"type": "object", "properties": properties, "required": [required]}),
        }
    }

    /// Returns the definition as MCP servers list it.
    pub(crate) fn for_mcp(&self) -> Value {
        json!({"name": self.name, "description": self.description, "inputSchema": self.schema})
    }

    /// Returns the definition as the OpenAI chat API takes it.
    pub(crate) fn for_openai(&self) -> Value {
        let (name, description) = (&self.name, &self.description);
        let parameters = &self.schema;
        json!({"type": "function", "function": {
            "name": name, "description": description, "parameters": parameters,
        }})
    }

    fn for_catalog(&self) -> Value {
        let (name, description) = (&self.name, &self.description);
        let parameters = &self.schema;
        json!({"name": name, "source": "synthetic", "description": description,
            "parameters": parameters})
    }
}

/// Returns the text of a request of some 65 words, which fits some of the synthetic tools.
pub(crate) fn query(number: usize) -> String {
    let mut random = Random::new(0x5eed ^ ((number as u64) << 20));
    let (verb, object, other) = task(&mut random);
    let (next_verb, next_object, next_other) = task(&mut random);
    let (area, place) = (random.word(&AREAS), random.word(&PLACES));
    let (last_verb, last_object, last_other) = task(&mut random);
    format!(
        "I'm working with the {area} team in {place}, and we have to {verb} the {object} before the \
         {other} is due on Friday. Could you do that for me and tell me what has changed? I'd also \
         like to {next_verb} the {next_object} for our {next_other}. If there is time, please \
         {last_verb} the {last_object} together with the {last_other}."
    )
}

fn task(random: &mut Random) -> (&'static str, &'static str, &'static str) {
    (
        random.word(&VERBS),
        random.word(&OBJECTS),
        random.word(&OBJECTS),
    )
}

/// Prints a catalog for `--catalog`.
pub(crate) fn print_catalog(options: &Options) -> Result<(), String> {
    let (tools, seed) = (options.require("tools")?, options.get_or("seed", 1)?);
    let mut output = BufWriter::new(std::io::stdout().lock());
    for number in 0..tools {
        let tool = SyntheticTool::new(seed, number).for_catalog();
        writeln!(output, "{tool}").map_err(|error| format!("cannot print: {error}"))?;
    }
    Ok(())
}
