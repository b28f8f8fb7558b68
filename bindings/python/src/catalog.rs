//! Catalogs.

use std::sync::Arc;

use picktools::catalog::{CatalogError, CatalogFile, Conflicts, OperatorAliases};
use picktools::{CatalogOptions, Tool as Definition};
use picktools_check::CheckReport;
use picktools_import::openapi;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyMapping, PyString, PyTuple};
use serde_json::Value;

use crate::tool::Tool;
use crate::{convert, errors, work};

/// Tools, read and checked once.
///
/// >>> catalog = picktools.Catalog.from_tools([{"name": "book_room", "description": "Books a room", "parameters": {}}])
/// >>> [tool.id for tool in catalog]
/// ['book_room']
#[pyclass(frozen, module = "picktools")]
pub(crate) struct Catalog(pub(crate) picktools::Catalog);

/// How a catalog is read, as it was given.
struct Reading<'a, 'py> {
    source: Option<&'a Bound<'py, PyAny>>,
    untrusted_sources: Option<&'a Bound<'py, PyAny>>,
    aliases: Option<&'a Bound<'py, PyAny>>,
    conflicts: Option<&'a Bound<'py, PyAny>>,
}

impl Reading<'_, '_> {
    /// Conflicts are met as `otherwise` says, where nothing else is asked for.
    fn options(&self, py: Python<'_>, otherwise: Conflicts) -> PyResult<CatalogOptions> {
        let aliases = self
            .aliases
            .map(|aliases| match aliases.cast::<PyMapping>() {
                Ok(mapping) => {
                    let bytes = convert::value(mapping, "aliases")?.to_string().into_bytes();
                    OperatorAliases::from_slice(&bytes, "aliases")
                        .map_err(|error| errors::argument(py, "aliases", errors::whole(&error)))
                }
                Err(_) => OperatorAliases::open(convert::path(aliases, "aliases")?)
                    .map_err(|error| errors::argument(py, "aliases", errors::whole(&error))),
            });
        let conflicts = match self
            .conflicts
            .map(|given| convert::string(given, "conflicts"))
            .transpose()?
            .as_deref()
        {
            None => otherwise,
            Some("strict") => Conflicts::Strict,
            Some("warn") => Conflicts::Warn,
            Some(other) => {
                let message = format!("{other:?} is neither \"strict\" nor \"warn\"");
                return Err(errors::argument(py, "conflicts", message));
            }
        };
        let untrusted = self
            .untrusted_sources
            .map(|given| convert::strings(given, "untrusted_sources"))
            .transpose()?;
        Ok(CatalogOptions {
            conflicts,
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

/// Makes a catalog without Python's lock.
fn read(
    py: Python<'_>,
    work: impl FnOnce() -> Result<picktools::Catalog, CatalogError> + Send,
) -> PyResult<Catalog> {
    let pool = work::pool()?;
    let catalog = py.detach(|| pool.install(work));
    catalog
        .map(Catalog)
        .map_err(|error| errors::catalog(py, errors::whole(&error)))
}

/// The JSON of tools: of a list, or of an object that holds them.
fn bytes_of(tools: &Bound<'_, PyAny>, argument: &str) -> PyResult<Vec<u8>> {
    if tools.is_instance_of::<PyString>() {
        return Err(errors::of_type(
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

/// Tools that change a catalog, read as a catalog of their own is.
pub(crate) fn definitions(tools: &Bound<'_, PyAny>, argument: &str) -> PyResult<Vec<Definition>> {
    let bytes = bytes_of(tools, argument)?;
    if bytes == b"[]" {
        return Ok(Vec::new());
    }
    let Catalog(catalog) = read(tools.py(), || {
        CatalogOptions {
            readers: picktools_import::readers(),
            ..CatalogOptions::default()
        }
        .read(&bytes, argument)
    })?;
    Ok(catalog
        .tools()
        .iter()
        .map(|tool| Definition::clone(tool))
        .collect())
}

#[pymethods]
impl Catalog {
    /// Reads files of tools and OpenAPI documents, folders of them, or the folder of a saved index.
    #[staticmethod]
    #[pyo3(signature = (*paths, source = None, untrusted_sources = None, aliases = None, conflicts = None))]
    fn open(
        py: Python<'_>,
        paths: &Bound<'_, PyTuple>,
        source: Option<&Bound<'_, PyAny>>,
        untrusted_sources: Option<&Bound<'_, PyAny>>,
        aliases: Option<&Bound<'_, PyAny>>,
        conflicts: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let is_plain = source.is_none()
            && untrusted_sources.is_none()
            && aliases.is_none()
            && conflicts.is_none();
        let options = Reading {
            source,
            untrusted_sources,
            aliases,
            conflicts,
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
                let message = "a saved index is opened alone, as it was read";
                return Err(errors::argument(py, "paths", message));
            }
            let opened = py.detach(|| picktools::Catalog::open_saved(saved));
            return opened.map(Self).map_err(|error| errors::saved(py, error));
        }
        read(py, || {
            let files = paths
                .iter()
                .map(CatalogFile::open)
                .collect::<Result<Vec<_>, _>>()?;
            options.read_files(&files.concat())
        })
    }

    /// Takes definitions in any form: those of MCP, of the providers' APIs, or native ones; as
    /// dictionaries, or as objects of the kind that pydantic makes.
    #[staticmethod]
    #[pyo3(signature = (tools, *, source = None, untrusted_sources = None, aliases = None, conflicts = None))]
    fn from_tools(
        tools: &Bound<'_, PyAny>,
        source: Option<&Bound<'_, PyAny>>,
        untrusted_sources: Option<&Bound<'_, PyAny>>,
        aliases: Option<&Bound<'_, PyAny>>,
        conflicts: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let options = Reading {
            source,
            untrusted_sources,
            aliases,
            conflicts,
        }
        .options(tools.py(), Conflicts::Strict)?;
        let bytes = bytes_of(tools, "tools")?;
        read(tools.py(), || options.read(&bytes, "tools"))
    }

    /// Takes what an MCP server answers to `tools/list`, or a list of its tools. What the protocol
    /// does not have is left out: a server must not say whom to trust. A tool that is not valid is
    /// left out and told in `notices`.
    #[staticmethod]
    #[pyo3(signature = (tools, *, source = None, untrusted_sources = None, aliases = None, conflicts = None))]
    fn from_mcp(
        tools: &Bound<'_, PyAny>,
        source: Option<&Bound<'_, PyAny>>,
        untrusted_sources: Option<&Bound<'_, PyAny>>,
        aliases: Option<&Bound<'_, PyAny>>,
        conflicts: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let options = Reading {
            source,
            untrusted_sources,
            aliases,
            conflicts,
        }
        .options(tools.py(), Conflicts::Warn)?;
        let listed = match tools.getattr("tools") {
            Ok(listed) => listed,
            Err(_) => match tools.cast::<PyMapping>() {
                Ok(result) => result.get_item("tools").map_err(|_| {
                    errors::argument(tools.py(), "tools", "the result has no member \"tools\"")
                })?,
                Err(_) => tools.clone(),
            },
        };
        let items = convert::values(&listed, "tools")?;
        let file =
            CatalogFile::of_server(options.default_source.as_deref().unwrap_or("mcp"), &items);
        read(tools.py(), || options.read_files(&[file]))
    }

    /// Takes the operations of an OpenAPI document: a file, or the document itself.
    #[staticmethod]
    #[pyo3(signature = (document, *, source = None, untrusted_sources = None, aliases = None, conflicts = None))]
    fn from_openapi(
        document: &Bound<'_, PyAny>,
        source: Option<&Bound<'_, PyAny>>,
        untrusted_sources: Option<&Bound<'_, PyAny>>,
        aliases: Option<&Bound<'_, PyAny>>,
        conflicts: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = document.py();
        let options = Reading {
            source,
            untrusted_sources,
            aliases,
            conflicts,
        }
        .options(py, Conflicts::Strict)?;
        if document.cast::<PyMapping>().is_ok() {
            let value = convert::value(document, "document")?;
            if !openapi::is_document(&value) {
                return Err(errors::argument(
                    py,
                    "document",
                    "it is no OpenAPI document: it has no member \"openapi\" or \"swagger\"",
                ));
            }
            let bytes = value.to_string().into_bytes();
            return read(py, || options.read(&bytes, "document"));
        }
        let path = convert::path(document, "document")?;
        read(py, || options.open(path))
    }

    /// Digest of everything in it.
    #[getter]
    fn digest(&self) -> &str {
        self.0.digest()
    }

    /// What was left out or changed when it was read.
    #[getter]
    fn notices(&self) -> Vec<String> {
        self.0.notices().iter().map(ToString::to_string).collect()
    }

    /// All tools, in order.
    #[getter]
    fn tools(&self, py: Python<'_>) -> PyResult<Vec<Tool>> {
        let tools = self
            .0
            .read_all()
            .map_err(|error| errors::saved(py, error))?;
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
        let id = convert::string(id, "id")?;
        let found = self.0.find(&id).ok_or_else(|| PyKeyError::new_err(id))?;
        Ok(Tool(Arc::clone(self.0.tool(found))))
    }

    fn __repr__(&self) -> String {
        format!("<Catalog of {} tools>", self.0.len())
    }
}

/// Looks a catalog over: invalid entries, clashes, text that is written to deceive a model. `tools`
/// is the path of a file or folder, or tools as `Catalog.from_tools` takes them.
#[pyfunction]
#[pyo3(signature = (tools, *, untrusted_sources = None))]
pub(crate) fn check<'py>(
    tools: &Bound<'py, PyAny>,
    untrusted_sources: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = tools.py();
    let reading = Reading {
        source: None,
        untrusted_sources,
        aliases: None,
        conflicts: None,
    };
    let options = reading.options(py, Conflicts::Strict)?;
    let pool = work::pool()?;
    let report = if convert::is_path(tools)? {
        let path = convert::path(tools, "tools")?;
        py.detach(|| pool.install(|| CheckReport::open(path, &options)))
    } else {
        let bytes = bytes_of(tools, "tools")?;
        py.detach(|| pool.install(|| CheckReport::read(&bytes, "tools", &options)))
    };
    convert::object_of(
        py,
        &report.map_err(|error| errors::catalog(py, errors::whole(&error)))?,
    )
}
