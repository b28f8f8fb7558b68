//! Placeholders in the texts of a configuration: `${NAME}` and its variants.

use std::path::Path;

use picktools::excerpt::{MAX_NAME_CHARS, marked};

use crate::entry_problem::{EntryProblem, problem};

/// The values for the placeholders of a configuration file.
#[derive(Clone, Copy)]
pub struct ConfigEnvironment<'a> {
    /// Looks up an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The folder of the file.
    pub folder: &'a Path,
    /// Reads a file that an entry names.
    pub read: &'a dyn Fn(&Path) -> std::io::Result<String>,
}

/// Expands placeholders in braces. The inserted values are not expanded again.
pub(crate) fn expand(
    text: &str,
    environment: &ConfigEnvironment<'_>,
) -> Result<String, EntryProblem> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        expanded.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            return Err(problem("a `${` is not closed", "close it with `}`"));
        };
        if name.contains("${") {
            return Err(problem(
                format!(
                    "the placeholder \"${{{}}}\" contains another placeholder",
                    marked(name, MAX_NAME_CHARS)
                ),
                "use one variable, and set it in the environment",
            ));
        }
        expanded.push_str(&value(name, environment)?);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn value(name: &str, environment: &ConfigEnvironment<'_>) -> Result<String, EntryProblem> {
    let variable = |name: &str| (environment.variable)(name);
    if let Some(input) = name.strip_prefix("input:") {
        return Err(problem(
            format!(
                "the placeholder \"input:{}\" needs input in an editor",
                marked(input, MAX_NAME_CHARS)
            ),
            "use `${NAME}` instead, and set the variable NAME",
        ));
    }
    let folder = || {
        let folder = environment.folder;
        // Project files may be in a hidden folder of the project: `.vscode`, `.cursor`.
        let is_hidden = folder
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let project = match folder.parent() {
            Some(parent) if is_hidden => parent,
            _ => folder,
        };
        project.display().to_string()
    };
    let value = match name {
        "workspaceFolder" | "workspaceRoot" => Some(folder()),
        "userHome" => variable("HOME").or_else(|| variable("USERPROFILE")),
        "pathSeparator" | "/" => Some(std::path::MAIN_SEPARATOR.to_string()),
        _ => {
            let name = name.strip_prefix("env:").unwrap_or(name);
            match name.split_once(":-") {
                Some((name, default)) => match variable(name) {
                    Some(text) if !text.is_empty() => Some(text),
                    _ => Some(default.to_owned()),
                },
                None => variable(name),
            }
        }
    };
    value.ok_or_else(|| {
        let name = marked(name, MAX_NAME_CHARS);
        problem(
            format!("the variable {name:?} is not set"),
            "set it in the environment",
        )
    })
}
