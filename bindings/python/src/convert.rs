//! Python's values as JSON, and back.

use picktools::Query;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PyMapping, PySet, PyString, PyTuple,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

use crate::errors;

/// Deeper values are refused, and with them those that contain themselves.
const MAX_DEPTH: usize = 100;

/// Reads a value that is JSON in Python's types, or an object that tells its fields by pydantic's
/// `model_dump`. `place` is where it stands, from the name of the argument.
pub(crate) fn value(given: &Bound<'_, PyAny>, place: &str) -> PyResult<Value> {
    read(given, place, 0)
}

fn read(given: &Bound<'_, PyAny>, place: &str, depth: usize) -> PyResult<Value> {
    let py = given.py();
    if depth > MAX_DEPTH {
        let message = format!("it is nested more than {MAX_DEPTH} deep, or contains itself");
        let shown: String = place.chars().take(80).collect();
        return Err(errors::argument(py, &shown, message));
    }
    if given.is_none() {
        Ok(Value::Null)
    } else if let Ok(given) = given.cast::<PyBool>() {
        Ok(Value::Bool(given.is_true()))
    } else if let Ok(text) = given.cast::<PyString>() {
        self::text(text, place).map(Value::String)
    } else if given.is_instance_of::<PyInt>() {
        let whole = given
            .extract::<i64>()
            .map(Number::from)
            .or_else(|_| given.extract::<u64>().map(Number::from));
        whole
            .map(Value::Number)
            .map_err(|_| refused(given, place, "the number has more than 64 bits"))
    } else if given.is_instance_of::<PyFloat>() {
        let number = Number::from_f64(given.extract()?);
        number
            .map(Value::Number)
            .ok_or_else(|| refused(given, place, "it is no finite number"))
    } else if given.is_instance_of::<PyDict>() || given.cast::<PyMapping>().is_ok() {
        object(given, place, depth).map(Value::Object)
    } else if is_list(given) {
        let items = given.try_iter()?.enumerate();
        let items =
            items.map(|(index, item)| read(&item?, &format!("{place}[{index}]"), depth + 1));
        items.collect::<PyResult<Vec<_>>>().map(Value::Array)
    } else if let Ok(dump) = given.getattr("model_dump") {
        let how = PyDict::new(py);
        how.set_item("mode", "json")?;
        how.set_item("by_alias", true)?;
        how.set_item("exclude_none", true)?;
        read(&dump.call((), Some(&how))?, place, depth + 1)
    } else {
        Err(errors::of_type(
            given,
            place,
            "what JSON can hold, or an object with model_dump",
        ))
    }
}

fn is_list(given: &Bound<'_, PyAny>) -> bool {
    given.is_instance_of::<PyList>()
        || given.is_instance_of::<PyTuple>()
        || given.is_instance_of::<PySet>()
        || given.is_instance_of::<PyFrozenSet>()
}

fn object(given: &Bound<'_, PyAny>, place: &str, depth: usize) -> PyResult<Map<String, Value>> {
    let mut members = Map::new();
    for item in given.call_method0("items")?.try_iter()? {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item?.extract()?;
        let Ok(name) = key.cast::<PyString>() else {
            return Err(errors::of_type(&key, &format!("{place}.keys()"), "text"));
        };
        let name = text(name, place)?;
        let value = read(&value, &format!("{place}.{name}"), depth + 1)?;
        members.insert(name, value);
    }
    Ok(members)
}

fn refused(given: &Bound<'_, PyAny>, place: &str, message: &str) -> PyErr {
    errors::argument(given.py(), place, message)
}

/// Reads text, which must be valid Unicode: half of a pair of surrogates is not.
fn text(given: &Bound<'_, PyString>, place: &str) -> PyResult<String> {
    let text = given.to_cow().map(std::borrow::Cow::into_owned);
    text.map_err(|_| {
        errors::argument(
            given.py(),
            place,
            "the text has a lone surrogate; decode it with errors=\"replace\"",
        )
    })
}

/// Reads text.
pub(crate) fn string(given: &Bound<'_, PyAny>, place: &str) -> PyResult<String> {
    match given.cast::<PyString>() {
        Ok(given) => text(given, place),
        Err(_) => Err(errors::of_type(given, place, "text")),
    }
}

/// Reads texts, of anything that is gone through but of text itself.
pub(crate) fn strings(given: &Bound<'_, PyAny>, place: &str) -> PyResult<Vec<String>> {
    items(given, place)?
        .enumerate()
        .map(|(index, item)| string(&item?, &format!("{place}[{index}]")))
        .collect()
}

/// Reads values that are JSON in Python's types, as `value` does each.
pub(crate) fn values(given: &Bound<'_, PyAny>, place: &str) -> PyResult<Vec<Value>> {
    items(given, place)?
        .enumerate()
        .map(|(index, item)| value(&item?, &format!("{place}[{index}]")))
        .collect()
}

/// Goes through a list, or through anything else that is gone through but text and mappings.
pub(crate) fn items<'py>(
    given: &Bound<'py, PyAny>,
    place: &str,
) -> PyResult<impl Iterator<Item = PyResult<Bound<'py, PyAny>>> + use<'py>> {
    let is_one = given.is_instance_of::<PyString>() || given.cast::<PyMapping>().is_ok();
    match given.try_iter() {
        Ok(items) if !is_one => Ok(items),
        _ => Err(errors::of_type(given, place, "a list")),
    }
}

/// Whether a path is given, where other things may be too.
pub(crate) fn is_path(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(given.is_instance_of::<PyString>() || given.hasattr("__fspath__")?)
}

/// Reads a path: text, or what `os.fspath` makes text of.
pub(crate) fn path(given: &Bound<'_, PyAny>, place: &str) -> PyResult<std::path::PathBuf> {
    given
        .extract()
        .map_err(|_| errors::of_type(given, place, "a path"))
}

/// Reads pairs of texts.
pub(crate) fn pairs(given: &Bound<'_, PyAny>, place: &str) -> PyResult<Vec<(String, String)>> {
    let pair = |(index, item): (usize, PyResult<Bound<'_, PyAny>>)| {
        let (item, place) = (item?, format!("{place}[{index}]"));
        match <[String; 2]>::try_from(strings(&item, &place)?) {
            Ok([tool, request]) => Ok((tool, request)),
            Err(_) => Err(errors::of_type(
                &item,
                &place,
                "a pair of a tool's name and a request",
            )),
        }
    };
    items(given, place)?.enumerate().map(pair).collect()
}

/// Reads a request: text, a message or a transcript.
pub(crate) fn query(given: &Bound<'_, PyAny>, place: &str) -> PyResult<Query> {
    match given.cast::<PyString>() {
        Ok(given) => Ok(Query::new(text(given, place)?)),
        Err(_)
            if given.is_none()
                || given.is_instance_of::<PyInt>()
                || given.is_instance_of::<PyFloat>() =>
        {
            Err(errors::of_type(given, place, "text, or messages"))
        }
        Err(_) => Ok(picktools_provider::query_from_value(&value(given, place)?)),
    }
}

/// Reads what has a form in JSON.
pub(crate) fn parsed<T: DeserializeOwned>(given: &Bound<'_, PyAny>, place: &str) -> PyResult<T> {
    let value = value(given, place)?;
    serde_json::from_value(value).map_err(|error| errors::argument(given.py(), place, error))
}

/// Writes an answer as JSON.
pub(crate) fn json(answer: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(answer).map_err(unwritten)
}

/// Writes an answer as JSON over many lines, as the program does.
pub(crate) fn pretty(answer: &impl Serialize) -> PyResult<String> {
    serde_json::to_string_pretty(answer).map_err(unwritten)
}

fn unwritten(error: serde_json::Error) -> PyErr {
    pyo3::exceptions::PyRuntimeError::new_err(error.to_string())
}

/// Makes Python's values of an answer.
pub(crate) fn object_of<'py>(
    py: Python<'py>,
    answer: &impl Serialize,
) -> PyResult<Bound<'py, PyAny>> {
    written(py, &serde_json::to_value(answer).map_err(unwritten)?)
}

fn written<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Null => Ok(py.None().into_bound(py)),
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) => whole.into_bound_py_any(py),
            (_, Some(whole)) => whole.into_bound_py_any(py),
            _ => number.as_f64().into_bound_py_any(py),
        },
        Value::String(text) => text.into_bound_py_any(py),
        Value::Array(items) => {
            let items = items
                .iter()
                .map(|item| written(py, item))
                .collect::<PyResult<Vec<_>>>()?;
            items.into_bound_py_any(py)
        }
        Value::Object(members) => {
            let object = PyDict::new(py);
            members
                .iter()
                .try_for_each(|(name, value)| object.set_item(name, written(py, value)?))?;
            Ok(object.into_any())
        }
    }
}
