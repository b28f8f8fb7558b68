//! The built-in tool `glob`.

use picktools::catalog::{Annotations, Tool};
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_call::ValidCall;
use picktools_runtime::{Context, RunFuture, RunnableTool, ToolResult};
use serde_json::{Value, json};

use super::walk::SearchPlace;
use super::{SearchLimit, SearchOptions, TimeLimit, compile_glob};
use crate::root::{FileFailure, session_schema};

/// The tool `glob`. It finds files by their paths.
///
/// Its result has the field `files`, with paths in order. `truncated` and
/// `note` say that a limit stopped it.
#[derive(Debug)]
pub struct Glob {
    definition: Tool,
    options: SearchOptions,
}

impl Default for Glob {
    fn default() -> Self {
        Self::new(SearchOptions::default())
    }
}

impl Glob {
    /// Makes the tool.
    pub fn new(options: SearchOptions) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "pattern": {
                    "type": "string",
                    "minLength": 1,
                    "description": concat!(
                        "Glob relative to path, such as src/**/*.{js,ts}; ",
                        "without / it matches names in all folders",
                    ),
                },
                "path": {
                    "type": "string",
                    "description": "Folder to search; the working folder unless given",
                },
                "sessionId": session_schema(),
            },
            "required": ["pattern"],
            "additionalProperties": false,
        });
        let description = "Finds files whose paths match a glob. Hidden files and files that \
                           .gitignore excludes are left out.";
        let mut definition = Tool::with_parameters("glob", description, parameters);
        definition.annotations = Annotations {
            read_only_hint: Some(true),
            ..Annotations::default()
        };
        Self {
            definition,
            options,
        }
    }

    fn search(&self, arguments: &Value, context: &Context) -> Result<ToolResult, FileFailure> {
        let glob = compile_glob(arguments["pattern"].as_str().unwrap_or_default())?;
        let place = SearchPlace::open(arguments, context)?;
        let time = TimeLimit::new(&self.options, context);
        let (mut files, mut bytes, mut stopped_by) = (Vec::new(), 0, None);
        for file in place.files() {
            if time.is_over() {
                stopped_by = Some(SearchLimit::Time);
                break;
            }
            let path = &file.relative_path;
            let searched_path = match path.strip_prefix(&place.start) {
                Ok(below) if !place.is_file => below,
                _ => path,
            };
            // Through the root, so that no file outside is named.
            let is_file = || {
                let metadata = place.root.dir.metadata(path);
                metadata.is_ok_and(|metadata| metadata.is_file())
            };
            if !glob.is_match(searched_path) || !is_file() {
                continue;
            }
            let text = place.root.path_for_calls(path);
            bytes += text.len();
            if files.len() == self.options.max_results {
                stopped_by = Some(SearchLimit::Results(files.len()));
                break;
            }
            if bytes > self.options.max_bytes {
                stopped_by = Some(SearchLimit::Bytes(self.options.max_bytes));
                break;
            }
            files.push(text);
        }
        let mut result = ToolResult::success().field("files", files);
        if let Some(limit) = stopped_by {
            result = result.field("truncated", true).field("note", limit.note());
        }
        Ok(result)
    }
}

impl RunnableTool for Glob {
    fn definition(&self) -> &Tool {
        &self.definition
    }

    fn run<'a>(&'a self, call: &'a ValidCall, context: &'a Context) -> RunFuture<'a> {
        Box::pin(async move {
            match self.search(call.arguments(), context) {
                Ok(result) => result,
                Err(failure) => {
                    let path = call.arguments()["path"].as_str().unwrap_or_default();
                    failure.into_result(&marked(path, MAX_NAME_CHARS))
                }
            }
        })
    }
}
