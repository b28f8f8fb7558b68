//! The [`Repairer`] trait: rewrites invalid arguments, which are then validated again.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::{CallError, HydratedCall, Hydrator, Repair, RepairError, changes};
use picktools::catalog::Tool;
use picktools_provider::{Arguments, ToolCall};

/// The largest number of calls per answer that are repaired, because repairs cost time and money.
const MAX_REPAIRS: usize = 16;

/// A component that rewrites invalid arguments, such as a model that sees the error.
pub trait Repairer: Send + Sync {
    /// Returns the name under which repairs are reported.
    fn name(&self) -> &str;

    /// Returns new arguments as JSON text.
    ///
    /// The hydrator calls this once per call, and never for an unsafe tool or a tool without a
    /// schema. It parses and validates the answer like the original arguments.
    fn repair<'a>(&'a self, call: FaultyCall<'a>) -> RepairFuture<'a>;
}

/// The answer of a [`Repairer`]: JSON text, or the reason for its absence.
pub type RepairFuture<'a> = Pin<Box<dyn Future<Output = Result<String, RepairError>> + Send + 'a>>;

/// The input of a [`Repairer`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct FaultyCall<'a> {
    /// The tool, with its schema.
    pub tool: &'a Tool,
    /// The arguments as the model sent them.
    pub arguments: &'a str,
    /// The error of the call.
    pub problem: &'a CallError,
}

/// A repairer for the calls of one answer: it asks another repairer about the first 16 faulty calls.
pub struct LimitedRepairer<'a> {
    repairer: &'a dyn Repairer,
    remaining: AtomicUsize,
}

impl<'a> LimitedRepairer<'a> {
    /// Limits a repairer for the calls of one answer.
    pub fn new(repairer: &'a dyn Repairer) -> Self {
        Self {
            repairer,
            remaining: AtomicUsize::new(MAX_REPAIRS),
        }
    }
}

impl Repairer for LimitedRepairer<'_> {
    fn name(&self) -> &str {
        self.repairer.name()
    }

    fn repair<'a>(&'a self, call: FaultyCall<'a>) -> RepairFuture<'a> {
        let take = |remaining: usize| remaining.checked_sub(1);
        let taken = self
            .remaining
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if taken.is_ok() {
            return self.repairer.repair(call);
        }
        let reason = format!("{MAX_REPAIRS} other calls of the answer were faulty too");
        Box::pin(std::future::ready(Err(RepairError { reason })))
    }
}

impl Hydrator {
    /// Validates a call, and lets `repairer` rewrite its arguments once if they are invalid.
    ///
    /// # Errors
    ///
    /// Those of [`Hydrator::hydrate`], for the original arguments.
    pub async fn hydrate_with(
        &self,
        call: &ToolCall,
        repairer: &dyn Repairer,
    ) -> Result<HydratedCall, CallError> {
        let resolved = self.resolve(&call.name)?;
        let tool = self.tool(resolved.tool);
        let problem = match self.arguments(resolved.tool, &call.arguments) {
            Ok(arguments) => return self.finish(call, resolved, arguments),
            Err(problem @ (CallError::Malformed { .. } | CallError::Invalid { .. }))
                if !tool.is_unsafe() && tool.parameters.is_some() =>
            {
                problem
            }
            Err(other) => return Err(other),
        };
        let text = match &call.arguments {
            Arguments::Text(text) => text.clone(),
            Arguments::Json(value) => value.to_string(),
        };
        let faulty = FaultyCall {
            tool,
            arguments: &text,
            problem: &problem,
        };
        let answer = match repairer.repair(faulty).await {
            Ok(answer) => self
                .arguments(resolved.tool, &Arguments::Text(answer))
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match answer {
            Ok(mut arguments) => {
                let sent = self.as_sent(tool, &call.arguments);
                let changes = changes::compare(&sent, &arguments.value);
                arguments.repaired.insert(
                    0,
                    Repair::Rewritten {
                        by: repairer.name().to_owned(),
                        changes,
                    },
                );
                self.finish(call, resolved, arguments)
            }
            Err(reason) => Err(problem.with_failed_repair(repairer.name(), &reason)),
        }
    }

    /// Returns the original arguments in the form of the tool's own schema, or their text if they
    /// cannot be parsed.
    fn as_sent(&self, tool: &Tool, sent: &Arguments) -> Value {
        let Ok((mut arguments, _)) = self.parse_arguments(tool, sent) else {
            return match sent {
                Arguments::Text(text) => Value::String(text.clone()),
                Arguments::Json(value) => value.clone(),
            };
        };
        if let (Some(provider), Some(schema)) = (self.provider, &tool.parameters) {
            provider.restore_arguments(schema, &mut arguments);
        }
        arguments
    }
}
