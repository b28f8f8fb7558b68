//! Arguments that somebody else writes anew, and that count where they fit.

use std::pin::Pin;

use serde_json::Value;

use super::{CallError, Hydrated, Hydrator, Repair, RepairError, changes};
use picktools::catalog::Tool;
use picktools_provider::{Arguments, ToolCall};

/// Rewrites arguments that do not fit, such as a model that is shown what is wrong with them.
pub trait Repairer: Send + Sync {
    /// Returns the name under which a repair is reported.
    fn name(&self) -> &str;

    /// Returns the arguments anew, as JSON text. It is asked once per call, and never for an unsafe
    /// tool or one without a schema; its answer is read and validated as the model's was.
    fn repair<'a>(&'a self, call: FaultyCall<'a>) -> RepairFuture<'a>;
}

/// The answer of a [`Repairer`]: JSON text, or why there is none.
pub type RepairFuture<'a> = Pin<Box<dyn Future<Output = Result<String, RepairError>> + Send + 'a>>;

/// What a [`Repairer`] is asked.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct FaultyCall<'a> {
    /// The tool, with its schema.
    pub tool: &'a Tool,
    /// The arguments as they came.
    pub arguments: &'a str,
    /// What is wrong with them.
    pub problem: &'a CallError,
}

impl Hydrator {
    /// Hydrates a call, and asks `repairer` once where its arguments do not fit.
    ///
    /// # Errors
    ///
    /// As [`Hydrator::hydrate`], for the arguments as they came.
    pub async fn hydrate_with(
        &self,
        call: &ToolCall,
        repairer: &dyn Repairer,
    ) -> Result<Hydrated, CallError> {
        let found = self.resolve(&call.name)?;
        let tool = self.callable.catalog.tool(found.tool);
        let problem = match self.arguments(found.tool, &call.arguments) {
            Ok((arguments, repaired)) => return self.finish(call, found, arguments, repaired),
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
                .arguments(found.tool, &Arguments::Text(answer))
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match answer {
            Ok((arguments, mut repaired)) => {
                let changes = changes::changes(&self.as_sent(tool, &call.arguments), &arguments);
                repaired.insert(
                    0,
                    Repair::Rewritten {
                        by: repairer.name().to_owned(),
                        changes,
                    },
                );
                self.finish(call, found, arguments, repaired)
            }
            Err(reason) => Err(problem.with_failed_repair(repairer.name(), &reason)),
        }
    }

    /// The arguments as the model had them, in the form of the tool's own schema; their text where
    /// they cannot be read.
    fn as_sent(&self, tool: &Tool, given: &Arguments) -> Value {
        let Ok((mut arguments, _)) = self.read(tool, given) else {
            return match given {
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
