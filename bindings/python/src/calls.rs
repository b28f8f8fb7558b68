//! From picks to a provider's format, and from a model's calls back.

use std::collections::BTreeMap;
use std::sync::Arc;

use picktools::Access;
use picktools::names::Advertising;
use picktools_call::Hydrator;
use picktools_call::{CallError, Hydrated};
use picktools_provider::Provider;
use picktools_provider::{Arguments, ToolCall, TranslateOptions};
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
pub(crate) fn provider(given: &Bound<'_, PyAny>) -> PyResult<Provider> {
    let name = convert::string(given, "provider")?;
    name.parse()
        .map_err(|error| errors::argument(given.py(), "provider", error))
}

/// Writes tools as a provider wants them.
pub(crate) fn translated(
    py: Python<'_>,
    tools: &[Arc<picktools::Tool>],
    provider: Provider,
    options: &TranslateOptions,
) -> PyResult<Translation> {
    let translated = py.detach(|| picktools_provider::translate(tools, provider, options));
    translated
        .map(Translation)
        .map_err(|error| errors::argument(py, "provider", errors::whole(&error)))
}

/// How tools are translated.
pub(crate) fn view(
    strict: Option<&Bound<'_, PyAny>>,
    deferred: Option<&Bound<'_, PyAny>>,
    names: Option<&Bound<'_, PyAny>>,
) -> PyResult<TranslateOptions> {
    let names: Option<BTreeMap<String, String>> = names
        .map(|names| convert::parsed(names, "names"))
        .transpose()?;
    Ok(TranslateOptions {
        strict: strict
            .map(|strict| convert::parsed(strict, "strict"))
            .transpose()?,
        advertising: names.map_or_else(Advertising::default, Advertising::ProviderMap),
        deferred: deferred
            .map(|deferred| convert::parsed(deferred, "deferred"))
            .transpose()?
            .unwrap_or_default(),
    })
}

#[pymethods]
impl Translation {
    /// Whose format it is.
    #[getter]
    fn provider(&self) -> &'static str {
        self.0.provider.name()
    }

    /// What goes into a request as `tools`.
    #[getter]
    fn tools<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::object_of(py, &self.0.tools)
    }

    /// From the names that the model is shown to the ids of the tools.
    #[getter]
    fn names(&self) -> BTreeMap<String, String> {
        self.0.names.clone()
    }

    /// What was dropped or changed on the way.
    #[getter]
    fn changes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::object_of(py, &self.0.changes)
    }

    /// All of it as JSON.
    fn to_json(&self) -> PyResult<String> {
        convert::json(&self.0)
    }

    /// All of it.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::object_of(py, &self.0)
    }

    fn __repr__(&self) -> String {
        format!(
            "<Translation of {} tools for {}>",
            self.0.names.len(),
            self.0.provider
        )
    }
}

/// What a call of a model came to.
#[pyclass(frozen, module = "picktools")]
pub(crate) struct Call(Outcome);

/// As the program writes it.
#[derive(Serialize)]
#[serde(untagged)]
enum Outcome {
    Fits(Box<Hydrated>),
    Refused {
        status: &'static str,
        id: Option<String>,
        name: String,
        error: CallError,
        message: String,
    },
}

#[pymethods]
impl Call {
    /// `ready` to be run, `needs_approval` by a person, or `refused`.
    #[getter]
    fn status(&self) -> &'static str {
        match &self.0 {
            Outcome::Fits(call) if matches!(**call, Hydrated::Ready(_)) => "ready",
            Outcome::Fits(_) => "needs_approval",
            Outcome::Refused { status, .. } => status,
        }
    }

    /// What its result is to be returned under.
    #[getter]
    fn id(&self) -> Option<&str> {
        match &self.0 {
            Outcome::Fits(call) => match &**call {
                Hydrated::Ready(call) => call.id(),
                Hydrated::NeedsApproval(_) => None,
            },
            Outcome::Refused { id, .. } => id.as_deref(),
        }
    }

    /// The name that was called.
    #[getter]
    fn name(&self) -> &str {
        match &self.0 {
            Outcome::Fits(call) => match &**call {
                Hydrated::Ready(call) => &call.names().requested,
                Hydrated::NeedsApproval(call) => &call.names().requested,
            },
            Outcome::Refused { name, .. } => name,
        }
    }

    /// The tool that is meant; None where the call is refused.
    #[getter]
    fn tool(&self) -> Option<Tool> {
        let tool = match &self.0 {
            Outcome::Fits(call) => match &**call {
                Hydrated::Ready(call) => call.tool(),
                Hydrated::NeedsApproval(call) => call.tool(),
            },
            Outcome::Refused { .. } => return None,
        };
        Some(Tool(Arc::clone(tool)))
    }

    /// The arguments, which fit the tool's schema; None where the call is refused.
    #[getter]
    fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let arguments = match &self.0 {
            Outcome::Fits(call) => match &**call {
                Hydrated::Ready(call) => Some(call.arguments()),
                Hydrated::NeedsApproval(call) => Some(call.arguments()),
            },
            Outcome::Refused { .. } => None,
        };
        convert::object_of(py, &arguments)
    }

    /// Why the call is refused, written for the model.
    #[getter]
    fn message(&self) -> Option<&str> {
        match &self.0 {
            Outcome::Refused { message, .. } => Some(message),
            Outcome::Fits(_) => None,
        }
    }

    /// All of it as JSON.
    fn to_json(&self) -> PyResult<String> {
        convert::json(&self.0)
    }

    /// All of it.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::object_of(py, &self.0)
    }

    fn __repr__(&self) -> String {
        format!("<Call {:?} {}>", self.name(), self.status())
    }
}

/// Holds calls to the schemas of the tools that they mean, and to what the caller may do.
pub(crate) fn validated(
    catalog: &picktools::Catalog,
    calls: &Bound<'_, PyAny>,
    translation: Option<&picktools_provider::Translation>,
    access: &Access,
) -> PyResult<Vec<Call>> {
    let py = calls.py();
    let made = Hydrator::new(catalog.clone(), access);
    let mut hydrator = made.map_err(|error| errors::argument(py, "access", error))?;
    if let Some(translation) = translation {
        hydrator = hydrator.translated(translation);
    }
    let calls = read(calls, translation.map(|translation| translation.provider))?;
    Ok(py.detach(|| {
        calls
            .into_iter()
            .map(|call| outcome(&hydrator, call))
            .collect()
    }))
}

fn outcome(hydrator: &Hydrator, call: ToolCall) -> Call {
    Call(match hydrator.hydrate(&call) {
        Ok(hydrated) => Outcome::Fits(Box::new(hydrated)),
        Err(error) => {
            let message = error.to_string();
            Outcome::Refused {
                status: "refused",
                id: call.id,
                name: call.name,
                error,
                message,
            }
        }
    })
}

/// Reads a list of calls, one call, or the whole answer of a provider.
fn read(calls: &Bound<'_, PyAny>, provider: Option<Provider>) -> PyResult<Vec<ToolCall>> {
    let py = calls.py();
    let is_one = calls.cast::<PyMapping>().is_ok() || calls.hasattr("model_dump")?;
    match (is_one, provider) {
        (true, Some(provider)) => {
            let answer = convert::value(calls, "calls")?;
            provider
                .calls(&answer)
                .map_err(|error| errors::argument(py, "calls", errors::whole(&error)))
        }
        (true, None) => Ok(vec![call(calls, "calls")?]),
        (false, _) => {
            let items = convert::items(calls, "calls")?.enumerate();
            items
                .map(|(index, item)| call(&item?, &format!("calls[{index}]")))
                .collect()
        }
    }
}

fn call(given: &Bound<'_, PyAny>, place: &str) -> PyResult<ToolCall> {
    let Value::Object(mut members) = convert::value(given, place)? else {
        return Err(errors::of_type(
            given,
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
                given.py(),
                "calls",
                format_args!("{place}: its id is no text"),
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
            given.py(),
            "calls",
            format_args!("{place}: it has no name"),
        )),
    }
}
