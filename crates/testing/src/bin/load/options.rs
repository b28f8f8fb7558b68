//! Options of the command line.

use std::collections::BTreeMap;
use std::str::FromStr;

/// Options with values, and the command after `--`.
pub(crate) struct Options {
    values: BTreeMap<String, String>,
    /// Program and arguments after `--`.
    pub(crate) command: Vec<String>,
}

impl Options {
    /// Reads pairs of `--name value` up to `--`.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut values = BTreeMap::new();
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                break;
            }
            let name = argument
                .strip_prefix("--")
                .ok_or_else(|| format!("unexpected argument: {argument}"))?;
            let value = arguments
                .next()
                .ok_or_else(|| format!("--{name} has no value"))?;
            values.insert(name.to_owned(), value);
        }
        let command = arguments.collect();
        Ok(Self { values, command })
    }

    /// Returns the value of an option, if it was given.
    pub(crate) fn get<T: FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        let Some(value) = self.values.get(name) else {
            return Ok(None);
        };
        let parsed = value.parse();
        parsed
            .map(Some)
            .map_err(|_invalid| format!("--{name} is not valid: {value}"))
    }

    /// Returns the value of an option, or a default.
    pub(crate) fn get_or<T: FromStr>(&self, name: &str, default: T) -> Result<T, String> {
        Ok(self.get(name)?.unwrap_or(default))
    }

    /// Returns the value of a required option.
    pub(crate) fn require<T: FromStr>(&self, name: &str) -> Result<T, String> {
        self.get(name)?
            .ok_or_else(|| format!("--{name} is missing"))
    }
}
