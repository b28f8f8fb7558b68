//! A cursor over the JSON of a provider, which records its position for errors.

use serde_json::{Map, Value};

use super::pieces::ArgumentPiece;
use super::{Arguments, Provider};
use crate::ResponseError;
use picktools::excerpt::cut;
use picktools::schema::kind;

/// A JSON value with its position in an answer.
#[derive(Debug)]
pub(super) struct JsonCursor<'v> {
    provider: Provider,
    pointer: String,
    pub(super) value: &'v Value,
}

impl<'v> JsonCursor<'v> {
    /// Opens an answer or an event of a stream, and returns the error if it reports one.
    pub(super) fn open(provider: Provider, value: &'v Value) -> Result<Self, ResponseError> {
        let answer = Self {
            provider,
            pointer: String::new(),
            value,
        };
        answer.object()?;
        let error = answer
            .get("error")
            .or_else(|| answer.get("response")?.get("error"));
        if let Some(error) = error {
            let message = error.value.get("message").unwrap_or(error.value);
            return Err(answer.refused(
                message
                    .as_str()
                    .map_or_else(|| message.to_string(), str::to_owned),
            ));
        }
        match provider.format().refusal(value) {
            Some(reason) => Err(answer.refused(reason)),
            None => Ok(answer),
        }
    }

    /// Makes the error for a value of an unexpected type.
    pub(super) fn unexpected(&self, expected: &'static str) -> ResponseError {
        ResponseError::Shape {
            provider: self.provider.name(),
            pointer: self.pointer.clone(),
            found: kind(self.value),
            expected,
        }
    }

    /// Makes the error for an answer that reports an error.
    pub(super) fn refused(&self, message: String) -> ResponseError {
        ResponseError::Refused {
            provider: self.provider.name(),
            message: cut(&message, 300).into_owned(),
        }
    }

    /// Returns a member that is present and not null.
    pub(super) fn get(&self, key: &str) -> Option<Self> {
        let value = self.value.get(key)?;
        if value.is_null() {
            return None;
        }
        Some(Self {
            provider: self.provider,
            pointer: format!("{}/{key}", self.pointer),
            value,
        })
    }

    pub(super) fn need(&self, key: &str) -> Result<Self, ResponseError> {
        let missing = Self {
            provider: self.provider,
            pointer: format!("{}/{key}", self.pointer),
            value: &Value::Null,
        };
        self.object()?
            .get(key)
            .ok_or_else(|| missing.unexpected("a value"))
    }

    pub(super) fn need_object(&self, key: &str) -> Result<Self, ResponseError> {
        let member = self.need(key)?;
        member.object()?;
        Ok(member)
    }

    pub(super) fn object(&self) -> Result<&Self, ResponseError> {
        if self.value.is_object() {
            Ok(self)
        } else {
            Err(self.unexpected("an object"))
        }
    }

    pub(super) fn text(&self) -> Result<&'v str, ResponseError> {
        self.value
            .as_str()
            .ok_or_else(|| self.unexpected("a string"))
    }

    pub(super) fn optional_text(&self, key: &str) -> Result<Option<&'v str>, ResponseError> {
        self.get(key).map(|member| member.text()).transpose()
    }

    /// Returns the text of a member; `None` if it is absent or has another type.
    pub(super) fn text_if_any(&self, key: &str) -> Option<&'v str> {
        self.value.get(key)?.as_str()
    }

    pub(super) fn whole_number(&self) -> Result<u64, ResponseError> {
        self.value
            .as_u64()
            .ok_or_else(|| self.unexpected("a whole number"))
    }

    pub(super) fn list(&self) -> Result<Vec<Self>, ResponseError> {
        let items = self
            .value
            .as_array()
            .ok_or_else(|| self.unexpected("an array"))?;
        let item = |(index, value)| Self {
            provider: self.provider,
            pointer: format!("{}/{index}", self.pointer),
            value,
        };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// Returns the items of a list; empty if the list is absent.
    pub(super) fn optional_list(&self, key: &str) -> Result<Vec<Self>, ResponseError> {
        match self.get(key) {
            Some(list) => list.list(),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the arguments in a piece of a call.
    pub(super) fn argument_piece(&self, key: &str) -> Option<ArgumentPiece<'v>> {
        ArgumentPiece::from_value(self.value.get(key)?)
    }

    /// Returns the arguments of a call; an empty object if they are absent.
    pub(super) fn arguments(&self, key: &str) -> Arguments {
        match self.value.get(key) {
            Some(Value::String(text)) => Arguments::Text(text.clone()),
            None | Some(Value::Null) => Arguments::Json(Value::Object(Map::new())),
            Some(value) => Arguments::Json(value.clone()),
        }
    }
}
