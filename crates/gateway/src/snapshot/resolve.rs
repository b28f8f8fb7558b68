//! The resolution of names that models write, for every path that accepts a name.

use std::borrow::Cow;
use std::sync::Arc;

use picktools::Tool;
use picktools::catalog::spelling::normalise;
use picktools::excerpt::marked;
use picktools_call::CallError;

use super::View;
use crate::{naming, tolerance};

impl View {
    /// Returns the id of a tool for the caller. The id of a quarantined tool is shortened if its
    /// name could be a text for the model.
    pub fn public_id<'i>(&self, id: &'i str) -> Cow<'i, str> {
        if self.options.access.quarantine.contains(id) {
            return naming::quarantined_id(id);
        }
        Cow::Borrowed(id)
    }

    /// Finds the tool for a name, without the prefix that some clients add. A name that was shown
    /// or an id comes first, then a name with its server in any spelling, then a name without its server.
    ///
    /// # Errors
    ///
    /// [`CallError`] if no tool matches, several tools match, or the tool is visible but not
    /// eligible.
    pub fn find_tool(&self, name: &str) -> Result<&Arc<Tool>, CallError> {
        let name = tolerance::without_prefix(name);
        if let Some(id) = self.shown_ids.get(name) {
            return self.hydrator.find_tool(id);
        }
        if self.hydrator.catalog().find(name).is_some() {
            return self.hydrator.find_tool(name);
        }
        let plain = self.hydrator.find_tool(name);
        let qualified = self.qualified_readings(name)?;
        let (reading, plain_tool) = match (qualified.as_slice(), &plain) {
            ([], _) => return plain,
            ([reading], Ok(plain_tool)) => (*reading, *plain_tool),
            ([reading], Err(_)) => return Ok(reading),
            (several, _) => return Err(ambiguous(name, several)),
        };
        if plain_tool.id == reading.id || plain_tool.source == reading.source {
            return plain;
        }
        if reading.untrusted && !plain_tool.untrusted {
            return Err(ambiguous(name, &[reading, plain_tool]));
        }
        Ok(reading)
    }

    /// Returns the name under which the hydrator finds the same tool as [`View::find_tool`].
    ///
    /// # Errors
    ///
    /// As [`View::find_tool`].
    pub fn call_name(&self, name: &str) -> Result<String, CallError> {
        let tool = self.find_tool(name)?;
        let name = tolerance::without_prefix(name);
        // A name that was shown stays as it is.
        let found = self.hydrator.find_tool(name);
        Ok(match found {
            Ok(found) if found.id == tool.id => name.to_owned(),
            _ => tool.id.clone(),
        })
    }

    /// Returns the tools that a name means if it begins with their server. If the only such tool is
    /// quarantined, that is an error, so that no tool of another server receives its calls.
    fn qualified_readings(&self, name: &str) -> Result<Vec<&Arc<Tool>>, CallError> {
        let mut tools: Vec<&Arc<Tool>> = Vec::new();
        let mut ineligible = None;
        for reading in tolerance::spellings(name) {
            match self.hydrator.find_tool(&reading) {
                Ok(tool) if is_of_server(tool.source.as_deref(), &reading) => tools.push(tool),
                Err(CallError::Ineligible { tool, reasons })
                    if is_of_server(tool.split_once('/').map(|(source, _)| source), &reading) =>
                {
                    ineligible = Some(CallError::Ineligible { tool, reasons });
                }
                _ => {}
            }
        }
        tools.sort_by_key(|tool| &tool.id);
        tools.dedup_by_key(|tool| &tool.id);
        match ineligible {
            Some(error) if tools.is_empty() => Err(error),
            _ => Ok(tools),
        }
    }
}

/// Returns `true` if a reading of the form `server/tool` names this server.
fn is_of_server(source: Option<&str>, reading: &str) -> bool {
    let server = reading.split_once('/').map(|(server, _)| normalise(server));
    source.map(normalise) == server
}

fn ambiguous(name: &str, tools: &[&Arc<Tool>]) -> CallError {
    CallError::AmbiguousTool {
        name: marked(name, 100).into_owned(),
        candidates: tools.iter().map(|tool| tool.id.clone()).collect(),
    }
}
