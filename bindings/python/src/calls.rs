//! Translations to a provider's format, and the validation of a model's calls.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use picktools::Access;
use picktools::names::Advertising;
use picktools_call::{CallError, HydratedCall, Hydrator, PendingCall, ValidCall};
use picktools_provider::{Arguments, CallResult, Provider, ToolCall, TranslateOptions};
use pyo3::prelude::*;
use pyo3::types::PyMapping;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::tool::Tool;
use crate::{convert, errors};

/// Tools in a provider's format.
#[pyclass(frozen, module = "picktools")]
pub(crate) struct Translation(pub(crate) picktools_provider::Translation);

/// Reads the name of a provider.
pub(crate) fn provider(argument: &Bound<'_, PyAny>) -> PyResult<Provider> {
    let name = convert::string(argument, "provider")?;
    name.parse()
        .map_err(|error| errors::argument(argument.py(), "provider", error))
}

/// Translates tools to a provider's format.
pub(crate) fn translate_tools(
    py: Python<'_>,
    tools: &[Arc<picktools::Tool>],
    provider: Provider,
    options: &TranslateOptions,
) -> PyResult<Translation> {
    let translation = py.detach(|| picktools_provider::translate(tools, provider, options));
    translation
        .map(Translation)
        .map_err(|error| errors::argument(py, "provider", errors::join_causes(&error)))
}

/// Reads the options of a translation.
pub(crate) fn translate_options(
    strict: Option<&Bound<'_, PyAny>>,
    deferred: Option<&Bound<'_, PyAny>>,
    names: Option<&Bound<'_, PyAny>>,
) -> PyResult<TranslateOptions> {
    let names: Option<BTreeMap<String, String>> = names
        .map(|names| convert::deserialize(names, "names"))
        .transpose()?;
    Ok(TranslateOptions {
        strict: strict
            .map(|strict| convert::deserialize(strict, "strict"))
            .transpose()?,
        advertising: names.map_or_else(Advertising::default, Advertising::ProviderMap),
        deferred: deferred
            .map(|deferred| convert::deserialize(deferred, "deferred"))
            .transpose()?
            .unwrap_or_default(),
    })
}

#[pymethods]
impl Translation {
    /// The provider of the format.
    #[getter]
    fn provider(&self) -> &'static str {
        self.0.provider.name()
    }

    /// The value of `tools` in an API request.
    #[getter]
    fn tools<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &self.0.tools)
    }

    /// The ids of the tools, by shown name.
    #[getter]
    fn names(&self) -> BTreeMap<String, String> {
        self.0.names.clone()
    }

    /// The parts of definitions that were dropped or changed.
    #[getter]
    fn changes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &self.0.changes)
    }

    /// Returns the translation as JSON.
    fn to_json(&self) -> PyResult<String> {
        convert::json(&self.0)
    }

    /// Returns the translation as a dictionary.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &self.0)
    }

    fn __repr__(&self) -> String {
        format!(
            "<Translation of {} tools for {}>",
            self.0.names.len(),
            self.0.provider
        )
    }
}

/// The result of the validation of a model's call.
#[pyclass(frozen, module = "picktools")]
pub(crate) struct Call(CallValidation);

/// The result of a validation, in the JSON format of the program.
#[derive(Serialize)]
#[serde(untagged)]
enum CallValidation {
    Valid(Box<HydratedCall>),
    Refused {
        status: &'static str,
        id: Option<String>,
        name: String,
        error: CallError,
        message: String,
        /// The refusal, with the names of tools that the model knows.
        #[serde(skip)]
        result: Box<CallResult>,
    },
}

impl Call {
    /// Returns a call that can run.
    pub(crate) fn ready(call: ValidCall) -> Self {
        Self(CallValidation::Valid(Box::new(HydratedCall::Ready(call))))
    }

    /// Returns a call that waits for approval.
    pub(crate) fn waiting(call: PendingCall) -> Self {
        Self(CallValidation::Valid(Box::new(
            HydratedCall::NeedsApproval(call),
        )))
    }

    /// Returns the call if it waits for approval.
    pub(crate) fn pending(&self) -> Option<&PendingCall> {
        match &self.0 {
            CallValidation::Valid(call) => match &**call {
                HydratedCall::NeedsApproval(call) => Some(call),
                HydratedCall::Ready(_) => None,
            },
            CallValidation::Refused { .. } => None,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<Call {:?} {}>", self.name(), self.status())
    }
}

#[pymethods]
impl Call {
    /// `ready` to run, `needs_approval` by a person, or `refused`.
    #[getter]
    fn status(&self) -> &'static str {
        match &self.0 {
            CallValidation::Valid(call) if matches!(**call, HydratedCall::Ready(_)) => "ready",
            CallValidation::Valid(_) => "needs_approval",
            CallValidation::Refused { status, .. } => status,
        }
    }

    /// The id for the result of the call.
    #[getter]
    fn id(&self) -> Option<&str> {
        match &self.0 {
            CallValidation::Valid(call) => call.id(),
            CallValidation::Refused { id, .. } => id.as_deref(),
        }
    }

    /// The requested name.
    #[getter]
    fn name(&self) -> &str {
        match &self.0 {
            CallValidation::Valid(call) => match &**call {
                HydratedCall::Ready(call) => &call.names().requested,
                HydratedCall::NeedsApproval(call) => &call.names().requested,
            },
            CallValidation::Refused { name, .. } => name,
        }
    }

    /// The tool of the call. None if the call is refused.
    #[getter]
    fn tool(&self) -> Option<Tool> {
        let tool = match &self.0 {
            CallValidation::Valid(call) => match &**call {
                HydratedCall::Ready(call) => call.tool(),
                HydratedCall::NeedsApproval(call) => call.tool(),
            },
            CallValidation::Refused { .. } => return None,
        };
        Some(Tool(Arc::clone(tool)))
    }

    /// The arguments, valid by the tool's schema. None if the call is refused.
    #[getter]
    fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let arguments = match &self.0 {
            CallValidation::Valid(call) => match &**call {
                HydratedCall::Ready(call) => Some(call.arguments()),
                HydratedCall::NeedsApproval(call) => Some(call.arguments()),
            },
            CallValidation::Refused { .. } => None,
        };
        convert::to_python(py, &arguments)
    }

    /// The reason of a refusal, written for the model.
    #[getter]
    fn message(&self) -> Option<&str> {
        match &self.0 {
            CallValidation::Refused { message, .. } => Some(message),
            CallValidation::Valid(_) => None,
        }
    }

    /// The reason for which the call waits for approval. None if it does not wait.
    #[getter]
    fn awaits(&self) -> Option<String> {
        self.pending().map(|call| call.awaits().to_string())
    }

    /// Returns the result of a call that ran, for `results`. The status of the call must be `ready`.
    fn result(&self, output: &Bound<'_, PyAny>) -> PyResult<ModelResult> {
        if let CallValidation::Valid(call) = &self.0
            && let HydratedCall::Ready(call) = &**call
        {
            let output = convert::value(output, "output")?;
            return Ok(ModelResult(call.result(Ok(output))));
        }
        let message = format_args!("{self} cannot run; use failed");
        Err(errors::argument(output.py(), "output", message))
    }

    /// Returns the result of a call that failed, was denied or was refused, for `results`. A refused
    /// call has a message of its own.
    #[pyo3(signature = (message = None))]
    fn failed(&self, py: Python<'_>, message: Option<&Bound<'_, PyAny>>) -> PyResult<ModelResult> {
        let message = message
            .map(|message| convert::string(message, "message"))
            .transpose()?;
        let result = match (&self.0, message) {
            (CallValidation::Refused { result, .. }, None) => (**result).clone(),
            (CallValidation::Refused { result, .. }, Some(message)) => CallResult {
                outcome: Err(message),
                ..(**result).clone()
            },
            (CallValidation::Valid(call), message) => match (&**call, message) {
                (HydratedCall::Ready(call), Some(message)) => call.result(Err(message)),
                (HydratedCall::NeedsApproval(call), message) => {
                    call.refused(message.unwrap_or_else(|| NOT_APPROVED.to_owned()))
                }
                (HydratedCall::Ready(_), None) => {
                    let message = "say why the call failed";
                    return Err(errors::argument(py, "message", message));
                }
            },
        };
        Ok(ModelResult(result))
    }

    /// Returns the validated call as JSON.
    fn to_json(&self) -> PyResult<String> {
        convert::json(&self.0)
    }

    /// Returns the validated call as a dictionary.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &self.0)
    }

    fn __repr__(&self) -> String {
        self.to_string()
    }
}

/// The message for the model about a call that nobody approved.
const NOT_APPROVED: &str = "the call was not approved";

/// The result of one call, for the model.
#[pyclass(frozen, module = "picktools", name = "CallResult")]
pub(crate) struct ModelResult(CallResult);

#[pymethods]
impl ModelResult {
    fn __repr__(&self) -> String {
        let outcome = match &self.0.outcome {
            Ok(_) => "done",
            Err(_) => "failed",
        };
        format!("<CallResult {:?} {outcome}>", self.0.name)
    }
}

/// Writes the results of a model's calls for the next API request, in the format of a provider.
///
/// They are messages for OpenAI Chat and Ollama, and items for OpenAI Responses. Anthropic and
/// Gemini get one message with all results. For MCP each is a `CallToolResult`.
#[pyfunction]
pub(crate) fn results<'py>(
    provider: &Bound<'py, PyAny>,
    results: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = provider.py();
    let provider = self::provider(provider)?;
    let mut call_results = Vec::new();
    for (index, item) in convert::items(results, "results")?.enumerate() {
        let item = item?;
        let Ok(result) = item.cast::<ModelResult>() else {
            let expected = "a CallResult, as Call.result and Call.failed return it";
            return Err(errors::argument_type(
                &item,
                &format!("results[{index}]"),
                expected,
            ));
        };
        call_results.push(result.get().0.clone());
    }
    let messages = provider
        .results(&call_results)
        .map_err(|error| errors::argument(py, "results", error))?;
    convert::to_python(py, &messages)
}

/// Validates calls against the schemas of the tools and the access policy of the caller.
pub(crate) fn validate_calls(
    catalog: &picktools::Catalog,
    calls: &Bound<'_, PyAny>,
    translation: Option<&picktools_provider::Translation>,
    access: &Access,
    text: AnswerText,
) -> PyResult<Vec<Call>> {
    let py = calls.py();
    let hydrator = Hydrator::new(catalog.clone(), access);
    let mut hydrator = hydrator.map_err(|error| errors::argument(py, "access", error))?;
    if let Some(translation) = translation {
        hydrator = hydrator.translated(translation);
    }
    let provider = translation.map(|translation| translation.provider);
    let is_shown = |name: &str| hydrator.find_tool(name).is_ok();
    let reader = CallReader {
        provider,
        text,
        is_shown: &is_shown,
    };
    let calls = reader.read_calls(calls)?;
    Ok(py.detach(|| {
        let calls = hydrator.expand_parallel(calls);
        calls
            .into_iter()
            .map(|call| validate_call(&hydrator, call))
            .collect()
    }))
}

fn validate_call(hydrator: &Hydrator, call: ToolCall) -> Call {
    Call(match hydrator.hydrate(&call) {
        Ok(hydrated) => CallValidation::Valid(Box::new(hydrated)),
        Err(error) => {
            let message = error.to_string();
            CallValidation::Refused {
                result: Box::new(hydrator.error_result(&call, &error)),
                status: "refused",
                id: call.id,
                name: call.name,
                error,
                message,
            }
        }
    })
}

/// The use of the text of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerText {
    Ignored,
    /// Calls in it are read if the answer has no others.
    MayHaveCalls,
}

/// Reader of calls from Python values.
struct CallReader<'a> {
    provider: Option<Provider>,
    text: AnswerText,
    is_shown: &'a dyn Fn(&str) -> bool,
}

impl CallReader<'_> {
    /// Reads a list of calls, one call, or the complete answer of a provider.
    fn read_calls(&self, calls: &Bound<'_, PyAny>) -> PyResult<Vec<ToolCall>> {
        let is_one = calls.cast::<PyMapping>().is_ok() || calls.hasattr("model_dump")?;
        match (is_one, self.provider) {
            (true, Some(provider)) => self.read_answer(calls, provider),
            (true, None) => Ok(vec![read_call(calls, "calls")?]),
            (false, _) => {
                let items = convert::items(calls, "calls")?.enumerate();
                items
                    .map(|(index, item)| read_call(&item?, &format!("calls[{index}]")))
                    .collect()
            }
        }
    }

    fn read_answer(
        &self,
        argument: &Bound<'_, PyAny>,
        provider: Provider,
    ) -> PyResult<Vec<ToolCall>> {
        let invalid = |error| errors::argument(argument.py(), "calls", errors::join_causes(&error));
        let value = convert::model_value(argument, "calls")?;
        let mut answer = provider.answer(&value).map_err(invalid)?;
        if self.text == AnswerText::MayHaveCalls {
            answer = answer.with_text_calls(self.is_shown);
        }
        answer.into_calls().map_err(invalid)
    }
}

fn read_call(argument: &Bound<'_, PyAny>, place: &str) -> PyResult<ToolCall> {
    let Value::Object(mut members) = convert::model_value(argument, place)? else {
        return Err(errors::argument_type(
            argument,
            place,
            "a call: {\"name\": …, \"arguments\": …}",
        ));
    };
    let (id, name) = (members.remove("id"), members.remove("name"));
    let arguments = match members.remove("arguments") {
        Some(Value::String(text)) => Arguments::Text(text),
        None | Some(Value::Null) => Arguments::Json(Value::Object(Map::new())),
        Some(other) => Arguments::Json(other),
    };
    let id = match id {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) => Some(id),
        Some(_) => {
            return Err(errors::argument(
                argument.py(),
                "calls",
                format_args!("{place}: its id is not text"),
            ));
        }
    };
    match name {
        Some(Value::String(name)) => Ok(ToolCall {
            id,
            name,
            arguments,
        }),
        _ => Err(errors::argument(
            argument.py(),
            "calls",
            format_args!("{place}: it has no name"),
        )),
    }
}
