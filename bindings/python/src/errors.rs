//! Exceptions, which `picktools.errors` declares.

use std::error::Error;
use std::fmt::Display;

use picktools::access::AccessError;
use picktools::engine::IndexError;
use picktools::options::PickError;
use pyo3::prelude::*;

/// Makes an exception of the class `kind` of `picktools.errors`.
fn error(py: Python<'_>, kind: &str, message: &dyn Display, argument: Option<&str>) -> PyErr {
    let made = py
        .import("picktools.errors")
        .and_then(|errors| errors.getattr(kind))
        .and_then(|class| {
            let message = message.to_string();
            match argument {
                Some(argument) => class.call1((message, argument)),
                None => class.call1((message,)),
            }
        });
    made.map_or_else(|error| error, PyErr::from_value)
}

/// What stands at this place of an argument makes no sense.
pub(crate) fn argument(py: Python<'_>, place: &str, message: impl Display) -> PyErr {
    error(
        py,
        "ArgumentError",
        &format_args!("{place}: {message}"),
        Some(argument_of(place)),
    )
}

/// What stands at this place of an argument is of another type than `wanted`.
pub(crate) fn of_type(given: &Bound<'_, PyAny>, place: &str, wanted: &str) -> PyErr {
    let message = format!("{place} is of the type {}; give {wanted}", type_name(given));
    error(
        given.py(),
        "ArgumentTypeError",
        &message,
        Some(argument_of(place)),
    )
}

/// The argument that a place such as `tools[3].name` is in.
fn argument_of(place: &str) -> &str {
    place.split(['[', '.']).next().unwrap_or(place)
}

/// What the type of a value is called.
pub(crate) fn type_name(value: &Bound<'_, PyAny>) -> String {
    value
        .get_type()
        .name()
        .map_or_else(|_| "?".to_owned(), |name| name.to_string())
}

/// Tools cannot be read.
pub(crate) fn catalog(py: Python<'_>, message: impl Display) -> PyErr {
    error(py, "CatalogError", &message, None)
}

/// A saved index is of no use.
pub(crate) fn saved(py: Python<'_>, message: impl Display) -> PyErr {
    error(py, "SavedIndexError", &message, None)
}

/// A model failed, for this exception where it is one of Python.
pub(crate) fn model(py: Python<'_>, message: impl Display, cause: Option<PyErr>) -> PyErr {
    let error = error(py, "ModelError", &message, None);
    error.set_cause(py, cause);
    error
}

/// The process forked after something was made that does not survive it.
pub(crate) fn forked(py: Python<'_>, what: &str) -> PyErr {
    let message = format!(
        "{what} was made before the process forked and cannot be used in the child; make an engine there"
    );
    error(py, "ForkedError", &message, None)
}

/// An index cannot be built, for `cause` where an exception stopped it.
pub(crate) fn index(py: Python<'_>, error: &IndexError, cause: Option<PyErr>) -> PyErr {
    match error {
        IndexError::Model(_) | IndexError::Embed(_) => {
            model(py, format_args!("model: {}", whole(error)), cause)
        }
        IndexError::Saved(_) => saved(py, error),
        IndexError::Skills(_) => argument(py, "skills", whole(error)),
        _ => self::error(py, "PicktoolsError", &whole(error), None),
    }
}

/// The message of an error, and of what caused it.
pub(crate) fn whole(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        if !message.contains(&told) {
            message = format!("{message}: {told}");
        }
        cause = error.source();
    }
    message
}

/// A pick cannot be made.
pub(crate) fn pick(py: Python<'_>, error: &PickError) -> PyErr {
    match error {
        PickError::InvalidOption { option, .. } | PickError::AmbiguousTool { option, .. } => {
            let argument = if *option == "max_candidates" {
                "k"
            } else {
                option
            };
            self::argument(py, argument, error)
        }
        PickError::Access(AccessError::UnknownTool {
            field: field @ ("always_include" | "in_use"),
            ..
        }) => argument(py, field, error),
        PickError::Access(_) => argument(py, "access", error),
        PickError::NoEmbedder { .. } => argument(py, "mode", error),
        PickError::NoReranker => argument(py, "rerank", error),
        PickError::Saved { .. } => saved(py, error),
        PickError::Definitions(_) => argument(py, "token_budget", error),
        _ => self::error(py, "PicktoolsError", &whole(error), None),
    }
}
