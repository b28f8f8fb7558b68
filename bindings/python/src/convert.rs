//! Conversions of Python values to JSON and back.

use picktools::Query;
use picktools::json::is_long_number;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PyMapping, PySet, PyString, PyTuple,
};
use pyo3::{IntoPyObjectExt, PyTypeInfo};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

use crate::errors;

/// The largest depth of a value. The limit also refuses values that contain themselves.
const MAX_DEPTH: usize = 100;

/// Converts JSON in Python's types, or an object with pydantic's `model_dump`.
///
/// `place` is the position of the value for error messages, from the name of the argument.
pub(crate) fn value(argument: &Bound<'_, PyAny>, place: &str) -> PyResult<Value> {
    value_at(argument, place, 0, OtherNumbers::Refused)
}

/// Converts a value that a model wrote, like [`value`]. A number that JSON does not carry becomes
/// text, as in an answer of a provider, so that the call is refused and not the batch.
pub(crate) fn model_value(argument: &Bound<'_, PyAny>, place: &str) -> PyResult<Value> {
    value_at(argument, place, 0, OtherNumbers::Text)
}

/// The form of numbers that are not finite, or that 64 bits do not keep.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OtherNumbers {
    Refused,
    Text,
}

fn value_at(
    argument: &Bound<'_, PyAny>,
    place: &str,
    depth: usize,
    others: OtherNumbers,
) -> PyResult<Value> {
    let py = argument.py();
    if depth > MAX_DEPTH {
        let message = format!("it is nested more than {MAX_DEPTH} deep, or contains itself");
        let start: String = place.chars().take(80).collect();
        return Err(errors::argument(py, &start, message));
    }
    if argument.is_none() {
        Ok(Value::Null)
    } else if let Ok(boolean) = argument.cast::<PyBool>() {
        Ok(Value::Bool(boolean.is_true()))
    } else if let Ok(text) = argument.cast::<PyString>() {
        self::text(text, place).map(Value::String)
    } else if is_number(argument)? {
        number(argument, place, others)
    } else if argument.is_instance_of::<PyDict>() || argument.cast::<PyMapping>().is_ok() {
        object(argument, place, depth, others).map(Value::Object)
    } else if is_list(argument) {
        let items = argument.try_iter()?.enumerate();
        let items = items
            .map(|(index, item)| value_at(&item?, &format!("{place}[{index}]"), depth + 1, others));
        items.collect::<PyResult<Vec<_>>>().map(Value::Array)
    } else if let Ok(dump) = argument.getattr("model_dump") {
        let options = PyDict::new(py);
        options.set_item("mode", "json")?;
        options.set_item("by_alias", true)?;
        options.set_item("exclude_none", true)?;
        value_at(&dump.call((), Some(&options))?, place, depth + 1, others)
    } else {
        Err(errors::argument_type(
            argument,
            place,
            "a JSON value, or an object with model_dump",
        ))
    }
}

fn is_number(argument: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is_builtin = argument.is_instance_of::<PyInt>() || argument.is_instance_of::<PyFloat>();
    Ok(
        is_builtin
            || argument.is_instance(&argument.py().import("decimal")?.getattr("Decimal")?)?,
    )
}

/// Converts an integer, a float or a `decimal.Decimal`.
fn number(argument: &Bound<'_, PyAny>, place: &str, others: OtherNumbers) -> PyResult<Value> {
    if argument.is_instance_of::<PyFloat>()
        && let Some(number) = Number::from_f64(argument.extract()?)
    {
        return Ok(Value::Number(number));
    }
    // A subclass such as an enumeration has a text of its own.
    let text = match argument.is_instance_of::<PyInt>() {
        true => PyInt::type_object(argument.py()).call_method1("__repr__", (argument,))?,
        false => argument.str()?.into_any(),
    };
    let text: String = text.extract()?;
    match serde_json::from_str(&text) {
        Ok(number) if !is_long_number(&text) => Ok(Value::Number(number)),
        _ if others == OtherNumbers::Text => Ok(Value::String(text)),
        Ok(_) => Err(invalid(argument, place, "the number has more than 64 bits")),
        Err(_) => Err(invalid(argument, place, "the number is not finite")),
    }
}

fn is_list(argument: &Bound<'_, PyAny>) -> bool {
    argument.is_instance_of::<PyList>()
        || argument.is_instance_of::<PyTuple>()
        || argument.is_instance_of::<PySet>()
        || argument.is_instance_of::<PyFrozenSet>()
}

fn object(
    argument: &Bound<'_, PyAny>,
    place: &str,
    depth: usize,
    others: OtherNumbers,
) -> PyResult<Map<String, Value>> {
    let mut members = Map::new();
    for item in argument.call_method0("items")?.try_iter()? {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item?.extract()?;
        let Ok(name) = key.cast::<PyString>() else {
            return Err(errors::argument_type(
                &key,
                &format!("{place}.keys()"),
                "text",
            ));
        };
        let name = text(name, place)?;
        let value = value_at(&value, &format!("{place}.{name}"), depth + 1, others)?;
        members.insert(name, value);
    }
    Ok(members)
}

fn invalid(argument: &Bound<'_, PyAny>, place: &str, message: &str) -> PyErr {
    errors::argument(argument.py(), place, message)
}

/// Converts text, which must be valid Unicode without lone surrogates.
fn text(argument: &Bound<'_, PyString>, place: &str) -> PyResult<String> {
    let text = argument.to_cow().map(std::borrow::Cow::into_owned);
    text.map_err(|_| {
        errors::argument(
            argument.py(),
            place,
            "the text has a lone surrogate; decode it with errors=\"replace\"",
        )
    })
}

/// Converts text.
pub(crate) fn string(argument: &Bound<'_, PyAny>, place: &str) -> PyResult<String> {
    match argument.cast::<PyString>() {
        Ok(string) => text(string, place),
        Err(_) => Err(errors::argument_type(argument, place, "text")),
    }
}

/// Converts an iterable of texts. A single text is an error.
pub(crate) fn strings(argument: &Bound<'_, PyAny>, place: &str) -> PyResult<Vec<String>> {
    items(argument, place)?
        .enumerate()
        .map(|(index, item)| string(&item?, &format!("{place}[{index}]")))
        .collect()
}

/// Converts an iterable of values, each like [`value`].
pub(crate) fn values(argument: &Bound<'_, PyAny>, place: &str) -> PyResult<Vec<Value>> {
    items(argument, place)?
        .enumerate()
        .map(|(index, item)| value(&item?, &format!("{place}[{index}]")))
        .collect()
}

/// Iterates over a list or another iterable. Text and mappings are errors.
pub(crate) fn items<'py>(
    argument: &Bound<'py, PyAny>,
    place: &str,
) -> PyResult<impl Iterator<Item = PyResult<Bound<'py, PyAny>>> + use<'py>> {
    let is_one = argument.is_instance_of::<PyString>() || argument.cast::<PyMapping>().is_ok();
    match argument.try_iter() {
        Ok(items) if !is_one => Ok(items),
        _ => Err(errors::argument_type(argument, place, "a list")),
    }
}

/// Returns `true` for a path, if an argument accepts paths and other values.
pub(crate) fn is_path(argument: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(argument.is_instance_of::<PyString>() || argument.hasattr("__fspath__")?)
}

/// Converts a path: text, or an object that `os.fspath` accepts.
pub(crate) fn path(argument: &Bound<'_, PyAny>, place: &str) -> PyResult<std::path::PathBuf> {
    argument
        .extract()
        .map_err(|_| errors::argument_type(argument, place, "a path"))
}

/// Converts an iterable of pairs of texts.
pub(crate) fn pairs(argument: &Bound<'_, PyAny>, place: &str) -> PyResult<Vec<(String, String)>> {
    let pair = |(index, item): (usize, PyResult<Bound<'_, PyAny>>)| {
        let (item, place) = (item?, format!("{place}[{index}]"));
        match <[String; 2]>::try_from(strings(&item, &place)?) {
            Ok([tool, request]) => Ok((tool, request)),
            Err(_) => Err(errors::argument_type(
                &item,
                &place,
                "a pair of a tool's name and a request",
            )),
        }
    };
    items(argument, place)?.enumerate().map(pair).collect()
}

/// Converts a request: text, a message or a transcript.
pub(crate) fn query(argument: &Bound<'_, PyAny>, place: &str) -> PyResult<Query> {
    match argument.cast::<PyString>() {
        Ok(request) => Ok(Query::new(text(request, place)?)),
        Err(_)
            if argument.is_none()
                || argument.is_instance_of::<PyInt>()
                || argument.is_instance_of::<PyFloat>() =>
        {
            Err(errors::argument_type(argument, place, "text, or messages"))
        }
        Err(_) => Ok(picktools_provider::query_from_value(&model_value(
            argument, place,
        )?)),
    }
}

/// Deserializes a value by its JSON form.
pub(crate) fn deserialize<T: DeserializeOwned>(
    argument: &Bound<'_, PyAny>,
    place: &str,
) -> PyResult<T> {
    let value = value(argument, place)?;
    serde_json::from_value(value).map_err(|error| errors::argument(argument.py(), place, error))
}

/// Serializes an answer as JSON.
pub(crate) fn json(answer: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(answer).map_err(serialize_error)
}

/// Serializes an answer as indented JSON, like the program.
pub(crate) fn pretty(answer: &impl Serialize) -> PyResult<String> {
    serde_json::to_string_pretty(answer).map_err(serialize_error)
}

fn serialize_error(error: serde_json::Error) -> PyErr {
    pyo3::exceptions::PyRuntimeError::new_err(error.to_string())
}

/// Converts an answer to Python values.
pub(crate) fn to_python<'py>(
    py: Python<'py>,
    answer: &impl Serialize,
) -> PyResult<Bound<'py, PyAny>> {
    value_to_python(py, &serde_json::to_value(answer).map_err(serialize_error)?)
}

fn value_to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Null => Ok(py.None().into_bound(py)),
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => integer.into_bound_py_any(py),
            (_, Some(integer)) => integer.into_bound_py_any(py),
            _ => number.as_f64().into_bound_py_any(py),
        },
        Value::String(text) => text.into_bound_py_any(py),
        Value::Array(items) => {
            let items = items
                .iter()
                .map(|item| value_to_python(py, item))
                .collect::<PyResult<Vec<_>>>()?;
            items.into_bound_py_any(py)
        }
        Value::Object(members) => {
            let object = PyDict::new(py);
            for (name, value) in members {
                object.set_item(name, value_to_python(py, value)?)?;
            }
            Ok(object.into_any())
        }
    }
}
