//! The exceptions that `picktools.errors` declares.

use std::error::Error;
use std::fmt::Display;

use picktools::access::AccessError;
use picktools::engine::IndexError;
use picktools::options::PickError;
use pyo3::prelude::*;

/// Creates an exception of a class of `picktools.errors`.
fn error(py: Python<'_>, kind: &str, message: &dyn Display, argument: Option<&str>) -> PyErr {
    let exception = py
        .import("picktools.errors")
        .and_then(|errors| errors.getattr(kind))
        .and_then(|class| {
            let message = message.to_string();
            match argument {
                Some(argument) => class.call1((message, argument)),
                None => class.call1((message,)),
            }
        });
    exception.map_or_else(|error| error, PyErr::from_value)
}

/// Returns the exception for an invalid value in an argument.
pub(crate) fn argument(py: Python<'_>, place: &str, message: impl Display) -> PyErr {
    error(
        py,
        "ArgumentError",
        &format_args!("{place}: {message}"),
        Some(argument_name(place)),
    )
}

/// Returns the exception for a value of a wrong type in an argument.
pub(crate) fn argument_type(value: &Bound<'_, PyAny>, place: &str, expected: &str) -> PyErr {
    let message = format!("{place} has the type {}; give {expected}", type_name(value));
    error(
        value.py(),
        "ArgumentTypeError",
        &message,
        Some(argument_name(place)),
    )
}

/// Returns the name of the argument in a place such as `tools[3].name`.
fn argument_name(place: &str) -> &str {
    place.split(['[', '.']).next().unwrap_or(place)
}

/// Returns the name of the type of a value.
pub(crate) fn type_name(value: &Bound<'_, PyAny>) -> String {
    value
        .get_type()
        .name()
        .map_or_else(|_| "?".to_owned(), |name| name.to_string())
}

/// Returns the exception for tools that cannot be read.
pub(crate) fn catalog(py: Python<'_>, message: impl Display) -> PyErr {
    error(py, "CatalogError", &message, None)
}

/// Returns the exception for a saved index that cannot be used.
pub(crate) fn saved(py: Python<'_>, message: impl Display) -> PyErr {
    error(py, "SavedIndexError", &message, None)
}

/// Returns the exception for a failed model, with the exception of a Python model as its cause.
pub(crate) fn model(py: Python<'_>, message: impl Display, cause: Option<PyErr>) -> PyErr {
    let error = error(py, "ModelError", &message, None);
    error.set_cause(py, cause);
    error
}

/// Returns the exception for an object that cannot be used after a fork.
pub(crate) fn forked(py: Python<'_>, object: &str) -> PyErr {
    let message = format!(
        "{object} was created before the process forked and cannot be used in the child; \
         create an engine in the child"
    );
    error(py, "ForkedError", &message, None)
}

/// Returns the exception for an index that cannot be built, with an exception that stopped it.
pub(crate) fn index(py: Python<'_>, error: &IndexError, cause: Option<PyErr>) -> PyErr {
    match error {
        IndexError::Model(_) | IndexError::Embed(_) => {
            model(py, format_args!("model: {}", join_causes(error)), cause)
        }
        IndexError::Saved(_) => saved(py, error),
        IndexError::Skills(_) => argument(py, "skills", join_causes(error)),
        _ => self::error(py, "PicktoolsError", &join_causes(error), None),
    }
}

/// Returns the messages of an error and its causes, without repetitions.
pub(crate) fn join_causes(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let cause_message = error.to_string();
        if !message.contains(&cause_message) {
            message = format!("{message}: {cause_message}");
        }
        cause = error.source();
    }
    message
}

/// Returns the exception for a failed pick.
pub(crate) fn pick(py: Python<'_>, error: &PickError) -> PyErr {
    match error {
        PickError::InvalidOption { option, .. }
        | PickError::InvalidPattern { option, .. }
        | PickError::AmbiguousTool { option, .. } => {
            let argument = if *option == "max_candidates" {
                "k"
            } else {
                option
            };
            self::argument(py, argument, error)
        }
        PickError::Access(AccessError::UnknownTool {
            field: field @ ("always_include" | "fallbacks" | "in_use"),
            ..
        }) => argument(py, field, error),
        PickError::Access(_) => argument(py, "access", error),
        PickError::NoEmbedder { .. } => argument(py, "mode", error),
        PickError::NoReranker => argument(py, "rerank", error),
        PickError::Saved { .. } => saved(py, error),
        PickError::Definitions(_) => argument(py, "token_budget", error),
        _ => self::error(py, "PicktoolsError", &join_causes(error), None),
    }
}
