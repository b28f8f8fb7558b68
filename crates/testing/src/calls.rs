//! Forms of calls as models write them, with the outcome that every entry point must give.

use std::fs;

use serde_json::{Value, json};

use crate::fixture;

/// The forms of `fixtures/calls/forms.json`.
pub struct CallForms {
    /// The MCP definitions of the tools, by server.
    pub servers: Vec<(String, Vec<Value>)>,
    /// The forms in order.
    pub forms: Vec<CallForm>,
}

/// A form of a call.
pub struct CallForm {
    /// The form in words.
    pub title: String,
    /// The called name.
    pub name: String,
    /// The arguments as the model sent them.
    pub arguments: Value,
    /// The expected outcome.
    pub outcome: CallOutcome,
}

/// The outcome of a call.
#[derive(Debug, PartialEq)]
pub enum CallOutcome {
    /// The tool's id, and its arguments.
    Valid(String, Value),
    /// The code of the error.
    Refused(String),
}

impl CallForms {
    /// Reads the forms.
    pub fn open() -> Self {
        let text = fs::read(fixture("calls/forms.json")).expect("the fixture is readable");
        let document: Value = serde_json::from_slice(&text).expect("the fixture is JSON");
        let servers = document["servers"].as_object().expect("servers");
        let forms = document["forms"].as_array().expect("forms");
        Self {
            servers: servers
                .iter()
                .map(|(name, tools)| (name.clone(), tools.as_array().expect("tools").clone()))
                .collect(),
            forms: forms.iter().map(read_form).collect(),
        }
    }

    /// Returns the tools as a catalog in the native format, one per line.
    pub fn native_catalog(&self) -> String {
        let mut lines = String::new();
        for (server, tools) in &self.servers {
            for tool in tools {
                let native = json!({
                    "name": tool["name"], "source": server, "description": tool["description"],
                    "parameters": tool["inputSchema"], "annotations": tool["annotations"],
                });
                lines.push_str(&format!("{native}\n"));
            }
        }
        lines
    }

    /// Returns the calls, one per line.
    pub fn lines(&self) -> String {
        let lines = self.forms.iter().map(|form| format!("{}\n", form.call()));
        lines.collect()
    }

    /// Compares the outcomes of an entry point, in the order of the forms.
    ///
    /// # Panics
    ///
    /// If an outcome differs from the expected one.
    pub fn assert_outcomes(&self, outcomes: &[CallOutcome]) {
        assert_eq!(outcomes.len(), self.forms.len());
        let mut differences = String::new();
        for (form, outcome) in self.forms.iter().zip(outcomes) {
            if *outcome != form.outcome {
                let CallForm {
                    title,
                    outcome: expected,
                    ..
                } = form;
                differences.push_str(&format!("{title}: {outcome:?}, expected {expected:?}\n"));
            }
        }
        assert!(differences.is_empty(), "{differences}");
    }
}

impl CallForm {
    /// Returns the call as JSON.
    pub fn call(&self) -> Value {
        json!({"name": self.name, "arguments": self.arguments})
    }
}

fn read_form(form: &Value) -> CallForm {
    let text = |member: &str| form[member].as_str().map(str::to_owned);
    CallForm {
        title: text("title").expect("a title"),
        name: text("name").expect("a name"),
        arguments: form["arguments"].clone(),
        outcome: match text("refused") {
            Some(code) => CallOutcome::Refused(code),
            None => CallOutcome::Valid(text("tool").expect("a tool"), form["expected"].clone()),
        },
    }
}
