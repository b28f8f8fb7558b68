//! The Python class of a catalog, and the check of catalogs.

use std::sync::Arc;

use picktools::catalog::{CatalogError, CatalogFile, Conflicts, NoSchemaMode, OperatorAliases};
use picktools::{CatalogOptions, Tool as Definition};
use picktools_check::CheckReport;
use picktools_import::openapi;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyMapping, PyString, PyTuple};
use serde_json::Value;

use crate::tool::Tool;
use crate::{convert, errors, work};

/// An immutable set of tools.
///
/// >>> catalog = picktools.Catalog.from_tools([
/// ...     {"name": "book_room", "description": "Books a room", "parameters": {}}])
/// >>> [tool.id for tool in catalog]
/// ['book_room']
#[pyclass(frozen, module = "picktools")]
pub(crate) struct Catalog(pub(crate) picktools::Catalog);

/// The arguments that say how a catalog is read.
struct CatalogArguments<'a, 'py> {
    source: Option<&'a Bound<'py, PyAny>>,
    untrusted_sources: Option<&'a Bound<'py, PyAny>>,
    aliases: Option<&'a Bound<'py, PyAny>>,
    conflicts: Option<&'a Bound<'py, PyAny>>,
    allow_no_schema: Option<&'a Bound<'py, PyAny>>,
}

impl CatalogArguments<'_, '_> {
    /// Returns the options, with a default for `conflicts`.
    fn options(&self, py: Python<'_>, default_conflicts: Conflicts) -> PyResult<CatalogOptions> {
        let aliases = self
            .aliases
            .map(|aliases| match aliases.cast::<PyMapping>() {
                Ok(mapping) => {
                    let bytes = convert::value(mapping, "aliases")?.to_string().into_bytes();
                    OperatorAliases::from_slice(&bytes, "aliases").map_err(|error| {
                        errors::argument(py, "aliases", errors::join_causes(&error))
                    })
                }
                Err(_) => OperatorAliases::open(convert::path(aliases, "aliases")?)
                    .map_err(|error| errors::argument(py, "aliases", errors::join_causes(&error))),
            });
        let conflicts = match self
            .conflicts
            .map(|argument| convert::string(argument, "conflicts"))
            .transpose()?
            .as_deref()
        {
            None => default_conflicts,
            Some("strict") => Conflicts::Strict,
            Some("warn") => Conflicts::Warn,
            Some(other) => {
                let message = format!("{other:?} is neither \"strict\" nor \"warn\"");
                return Err(errors::argument(py, "conflicts", message));
            }
        };
        let untrusted = self
            .untrusted_sources
            .map(|argument| convert::strings(argument, "untrusted_sources"))
            .transpose()?;
        let allow_no_schema = self.allow_no_schema.map(no_schema_mode).transpose()?;
        Ok(CatalogOptions {
            conflicts,
            allow_no_schema,
            untrusted_sources: untrusted.unwrap_or_default().into_iter().collect(),
            aliases: aliases.transpose()?,
            default_source: self
                .source
                .map(|source| convert::string(source, "source"))
                .transpose()?,
            readers: picktools_import::readers(),
            ..CatalogOptions::default()
        })
    }
}

/// Reads the mode of tools without a schema.
fn no_schema_mode(argument: &Bound<'_, PyAny>) -> PyResult<NoSchemaMode> {
    let name = convert::string(argument, "allow_no_schema")?;
    serde_json::from_value(Value::from(name.as_str())).map_err(|_| {
        let message =
            format!("{name:?} is no mode; use \"read-only\", \"human-approval\" or \"full\"");
        errors::argument(argument.py(), "allow_no_schema", message)
    })
}

/// Reads a catalog while the interpreter's lock is released.
fn read_catalog(
    py: Python<'_>,
    work: impl FnOnce() -> Result<picktools::Catalog, CatalogError> + Send,
) -> PyResult<Catalog> {
    let pool = work::pool()?;
    let catalog = py.detach(|| pool.install(work));
    catalog
        .map(Catalog)
        .map_err(|error| errors::catalog(py, errors::join_causes(&error)))
}

/// Returns the JSON of a list of tools, or of an object that contains them.
fn tools_to_json(tools: &Bound<'_, PyAny>, argument: &str) -> PyResult<Vec<u8>> {
    if tools.is_instance_of::<PyString>() {
        return Err(errors::argument_type(
            tools,
            argument,
            "a list of tools; Catalog.open reads files",
        ));
    }
    let value = match (
        tools.cast::<PyMapping>().is_ok() || tools.hasattr("model_dump")?,
        tools.cast::<PyList>(),
    ) {
        (true, _) | (_, Ok(_)) => convert::value(tools, argument)?,
        (false, Err(_)) => Value::Array(convert::values(tools, argument)?),
    };
    Ok(value.to_string().into_bytes())
}

/// Reads the tools of an update, like the tools of a catalog.
pub(crate) fn definitions(tools: &Bound<'_, PyAny>, argument: &str) -> PyResult<Vec<Definition>> {
    let bytes = tools_to_json(tools, argument)?;
    if bytes == b"[]" {
        return Ok(Vec::new());
    }
    let Catalog(catalog) = read_catalog(tools.py(), || {
        CatalogOptions {
            readers: picktools_import::readers(),
            ..CatalogOptions::default()
        }
        .read(&bytes, argument)
    })?;
    let read = catalog
        .tools()
        .map_err(|error| errors::saved(tools.py(), error))?;
    Ok(read.iter().map(|tool| Definition::clone(tool)).collect())
}

#[pymethods]
impl Catalog {
    /// Reads files with tools, OpenAPI documents, folders of both, or the folder of a saved index.
    #[staticmethod]
    #[pyo3(signature = (
        *paths, source = None, untrusted_sources = None,
        aliases = None, conflicts = None, allow_no_schema = None
    ))]
    fn open(
        py: Python<'_>,
        paths: &Bound<'_, PyTuple>,
        source: Option<&Bound<'_, PyAny>>,
        untrusted_sources: Option<&Bound<'_, PyAny>>,
        aliases: Option<&Bound<'_, PyAny>>,
        conflicts: Option<&Bound<'_, PyAny>>,
        allow_no_schema: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let is_plain = source.is_none()
            && untrusted_sources.is_none()
            && aliases.is_none()
            && conflicts.is_none()
            && allow_no_schema.is_none();
        let options = CatalogArguments {
            source,
            untrusted_sources,
            aliases,
            conflicts,
            allow_no_schema,
        }
        .options(py, Conflicts::Strict)?;
        let paths = paths
            .iter()
            .map(|path| convert::path(&path, "paths"))
            .collect::<PyResult<Vec<_>>>()?;
        if paths.is_empty() {
            return Err(errors::argument(
                py,
                "paths",
                "name at least one file or folder",
            ));
        }
        if let Some(saved) = paths.iter().find(|path| picktools::Catalog::is_saved(path)) {
            if paths.len() > 1 || !is_plain {
                let message = "a saved index cannot be combined with other paths or options";
                return Err(errors::argument(py, "paths", message));
            }
            let opened = py.detach(|| picktools::Catalog::open_saved(saved));
            return opened.map(Self).map_err(|error| errors::saved(py, error));
        }
        read_catalog(py, || {
            let files = paths
                .iter()
                .map(CatalogFile::open)
                .collect::<Result<Vec<_>, _>>()?;
            options.read_files(&files.concat())
        })
    }

    /// Reads definitions in any format: of MCP, of the providers' APIs, or of picktools.
    ///
    /// The items are dictionaries or pydantic models.
    #[staticmethod]
    #[pyo3(signature = (
        tools, *, source = None, untrusted_sources = None,
        aliases = None, conflicts = None, allow_no_schema = None
    ))]
    fn from_tools(
        tools: &Bound<'_, PyAny>,
        source: Option<&Bound<'_, PyAny>>,
        untrusted_sources: Option<&Bound<'_, PyAny>>,
        aliases: Option<&Bound<'_, PyAny>>,
        conflicts: Option<&Bound<'_, PyAny>>,
        allow_no_schema: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let options = CatalogArguments {
            source,
            untrusted_sources,
            aliases,
            conflicts,
            allow_no_schema,
        }
        .options(tools.py(), Conflicts::Strict)?;
        let bytes = tools_to_json(tools, "tools")?;
        read_catalog(tools.py(), || options.read(&bytes, "tools"))
    }

    /// Reads the answer of an MCP server to `tools/list`, or a list of its tools.
    ///
    /// Members that MCP does not define are ignored, so that a server cannot grant itself trust.
    /// Invalid tools are omitted and reported in `notices`.
    #[staticmethod]
    #[pyo3(signature = (
        tools, *, source = None, untrusted_sources = None,
        aliases = None, conflicts = None, allow_no_schema = None
    ))]
    fn from_mcp(
        tools: &Bound<'_, PyAny>,
        source: Option<&Bound<'_, PyAny>>,
        untrusted_sources: Option<&Bound<'_, PyAny>>,
        aliases: Option<&Bound<'_, PyAny>>,
        conflicts: Option<&Bound<'_, PyAny>>,
        allow_no_schema: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let options = CatalogArguments {
            source,
            untrusted_sources,
            aliases,
            conflicts,
            allow_no_schema,
        }
        .options(tools.py(), Conflicts::Warn)?;
        let tool_list = match tools.getattr("tools") {
            Ok(tool_list) => tool_list,
            Err(_) => match tools.cast::<PyMapping>() {
                Ok(result) => result.get_item("tools").map_err(|_| {
                    errors::argument(tools.py(), "tools", "the result has no member \"tools\"")
                })?,
                Err(_) => tools.clone(),
            },
        };
        let items = convert::values(&tool_list, "tools")?;
        let file =
            CatalogFile::from_server(options.default_source.as_deref().unwrap_or("mcp"), &items);
        read_catalog(tools.py(), || options.read_files(&[file]))
    }

    /// Reads the operations of an OpenAPI document, from a file or from the document itself.
    #[staticmethod]
    #[pyo3(signature = (
        document, *, source = None, untrusted_sources = None,
        aliases = None, conflicts = None
    ))]
    fn from_openapi(
        document: &Bound<'_, PyAny>,
        source: Option<&Bound<'_, PyAny>>,
        untrusted_sources: Option<&Bound<'_, PyAny>>,
        aliases: Option<&Bound<'_, PyAny>>,
        conflicts: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = document.py();
        let options = CatalogArguments {
            source,
            untrusted_sources,
            aliases,
            conflicts,
            allow_no_schema: None,
        }
        .options(py, Conflicts::Strict)?;
        if document.cast::<PyMapping>().is_ok() {
            let value = convert::value(document, "document")?;
            if !openapi::is_document(&value) {
                return Err(errors::argument(
                    py,
                    "document",
                    "it is not an OpenAPI document: it has no member \"openapi\" or \"swagger\"",
                ));
            }
            let bytes = value.to_string().into_bytes();
            return read_catalog(py, || options.read(&bytes, "document"));
        }
        let path = convert::path(document, "document")?;
        read_catalog(py, || options.open(path))
    }

    /// The digest of the complete catalog.
    #[getter]
    fn digest(&self) -> &str {
        self.0.digest()
    }

    /// Messages about tools that were omitted or changed while the catalog was read.
    #[getter]
    fn notices(&self) -> Vec<String> {
        self.0.notices().iter().map(ToString::to_string).collect()
    }

    /// All tools, in order.
    #[getter]
    fn tools(&self, py: Python<'_>) -> PyResult<Vec<Tool>> {
        let tools = self.0.tools().map_err(|error| errors::saved(py, error))?;
        Ok(tools.iter().map(|tool| Tool(Arc::clone(tool))).collect())
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyList::new(py, self.tools(py)?)?.try_iter()?.into_any())
    }

    fn __contains__(&self, id: &Bound<'_, PyAny>) -> bool {
        id.extract::<String>()
            .is_ok_and(|id| self.0.find(&id).is_some())
    }

    fn __getitem__(&self, id: &Bound<'_, PyAny>) -> PyResult<Tool> {
        let (py, id) = (id.py(), convert::string(id, "id")?);
        let tool_id = self.0.find(&id).ok_or_else(|| PyKeyError::new_err(id))?;
        let tool = self
            .0
            .tool(tool_id)
            .map_err(|error| errors::saved(py, error))?;
        Ok(Tool(Arc::clone(tool)))
    }

    fn __repr__(&self) -> String {
        format!("<Catalog of {} tools>", self.0.len())
    }
}

/// Checks a catalog for invalid entries, name conflicts, and texts that try to deceive a model.
///
/// `tools` is the path of a file or folder, or tools as for `Catalog.from_tools`.
#[pyfunction]
#[pyo3(signature = (tools, *, untrusted_sources = None))]
pub(crate) fn check<'py>(
    tools: &Bound<'py, PyAny>,
    untrusted_sources: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = tools.py();
    let arguments = CatalogArguments {
        source: None,
        untrusted_sources,
        aliases: None,
        conflicts: None,
        allow_no_schema: None,
    };
    let options = arguments.options(py, Conflicts::Strict)?;
    let pool = work::pool()?;
    let report = if convert::is_path(tools)? {
        let path = convert::path(tools, "tools")?;
        py.detach(|| pool.install(|| CheckReport::open(path, &options)))
    } else {
        let bytes = tools_to_json(tools, "tools")?;
        py.detach(|| pool.install(|| CheckReport::read(&bytes, "tools", &options)))
    };
    convert::to_python(
        py,
        &report.map_err(|error| errors::catalog(py, errors::join_causes(&error)))?,
    )
}
