//! The Python class of the engine.

use std::process;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use picktools::Access;
use picktools::catalog::{CatalogError, ChangeError, Changes};
use picktools::engine::UpdateError;
use picktools::examples::{Example, Examples};
use picktools::names::NameTable;
use picktools::sequences::Sequences;
use picktools::skills::ToolMeaning;
use picktools_skills::SkillFolder;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::Value;

use crate::answers::Selection;
use crate::calls::{
    AnswerText, Call, Translation, provider, translate_options, translate_tools, validate_calls,
};
use crate::catalog::{Catalog, definitions};
use crate::model::{ModelChoice, WorkMonitor};
use crate::scorer::ConfiguredPick;
use crate::tool::Tool;
use crate::{convert, errors, work};

/// An immutable engine that picks tools from an indexed catalog.
///
/// `update` and `learn` return a new engine. `model` is the embedding model: "static" (built in,
/// fast), "tuned" (built in, better, about 2 ms per request), None for keywords only, or a Python
/// model. A Python model is a callable that takes a list of texts and returns one vector per text,
/// or an object with such a method `encode`. `model_name` is the name of a Python model; without
/// it, vectors are not cached.
///
/// >>> engine = picktools.Engine(picktools.Catalog.from_tools([
/// ...     {"name": "book_room", "description": "Books a meeting room", "parameters": {}}]))
/// >>> len(engine.pick("we need a room to meet in"))
/// 1
#[pyclass(frozen, module = "picktools")]
pub(crate) struct Engine {
    pub(crate) inner: picktools::Engine,
    monitor: Arc<WorkMonitor>,
    names: OnceLock<NameTable>,
    /// The arguments of the constructor, for pickling.
    arguments: Py<PyDict>,
    /// The pairs of tools and requests that the engine has learned.
    learned: Vec<(String, String)>,
    /// Messages about skill files that cannot be read, or were read with changes.
    skill_errors: Vec<String>,
    is_tuned: bool,
    pid: u32,
}

/// The tool that a name means.
#[derive(Serialize)]
struct NameMeaning<'a> {
    name: &'a str,
    #[serde(flatten)]
    meaning: ToolMeaning,
}

impl Engine {
    /// Returns an error after a fork, if the engine needs threads of the parent process.
    pub(crate) fn check_process(&self, py: Python<'_>, has_deadline: bool) -> PyResult<()> {
        if self.pid == process::id() {
            return Ok(());
        }
        if self.is_tuned {
            return Err(errors::forked(py, "an engine with the tuned model"));
        }
        if has_deadline {
            return Err(errors::forked(py, "an engine that picks with a timeout"));
        }
        Ok(())
    }

    /// Returns an engine with the same arguments.
    fn with_inner(
        &self,
        py: Python<'_>,
        inner: picktools::Engine,
        learned: Vec<(String, String)>,
    ) -> Self {
        Self {
            inner,
            monitor: Arc::clone(&self.monitor),
            names: OnceLock::new(),
            arguments: self.arguments.clone_ref(py),
            learned,
            skill_errors: self.skill_errors.clone(),
            is_tuned: self.is_tuned,
            pid: self.pid,
        }
    }

    /// Returns the name table, created on first use.
    fn names(&self, py: Python<'_>) -> PyResult<&NameTable> {
        if self.names.get().is_none() {
            let pool = work::pool()?;
            let names = py.detach(|| pool.install(|| NameTable::new(self.inner.catalog())));
            let _is_set = self
                .names
                .set(names.map_err(|error| errors::saved(py, error))?);
        }
        self.names
            .get()
            .ok_or_else(|| errors::saved(py, "the names are missing"))
    }

    fn meaning(&self, name: &str, py: Python<'_>) -> PyResult<ToolMeaning> {
        let meaning = ToolMeaning::resolve(name, self.inner.catalog(), self.names(py)?);
        meaning.map_err(|error| errors::saved(py, error))
    }

    /// Returns the tools of a selection, of an iterable of tools and names, or all tools.
    fn tools(
        &self,
        tools: Option<&Bound<'_, PyAny>>,
        py: Python<'_>,
    ) -> PyResult<Vec<Arc<picktools::Tool>>> {
        let Some(tools) = tools else {
            let all = self.inner.catalog().tools();
            return Ok(all.map_err(|error| errors::saved(py, error))?.to_vec());
        };
        if let Ok(selection) = tools.cast::<Selection>() {
            return Ok(selection.get().0.shown_tools());
        }
        let find_tool = |(index, item): (usize, PyResult<Bound<'_, PyAny>>)| {
            let (item, place) = (item?, format!("tools[{index}]"));
            if let Ok(tool) = item.cast::<Tool>() {
                return Ok(Arc::clone(&tool.get().0));
            }
            let name = convert::string(&item, &place)?;
            let catalog = self.inner.catalog();
            match self.meaning(&name, py)? {
                ToolMeaning::Tool { tool, .. } => match catalog.find(&tool) {
                    Some(id) => {
                        let tool = catalog.tool(id);
                        tool.map(Arc::clone)
                            .map_err(|error| errors::saved(py, error))
                    }
                    None => Err(errors::argument(
                        py,
                        "tools",
                        format_args!("{place}: unknown tool {tool:?}"),
                    )),
                },
                other => Err(errors::argument(
                    py,
                    "tools",
                    format_args!("{place}: {name:?}: {other}"),
                )),
            }
        };
        convert::items(tools, "tools")?
            .enumerate()
            .map(find_tool)
            .collect()
    }
}

fn read_examples(argument: &Bound<'_, PyAny>) -> PyResult<Examples> {
    let py = argument.py();
    if convert::is_path(argument)? {
        let examples = Examples::load(convert::path(argument, "examples")?);
        return examples
            .map_err(|error| errors::argument(py, "examples", errors::join_causes(&error)));
    }
    let mut examples = Examples::default();
    for (tool, request) in convert::pairs(argument, "examples")? {
        examples.push(Example::new(tool, request));
    }
    Ok(examples)
}

fn read_sequences(argument: &Bound<'_, PyAny>) -> PyResult<Sequences> {
    let py = argument.py();
    if convert::is_path(argument)? {
        let sequences = Sequences::open(convert::path(argument, "sequences")?);
        return sequences
            .map_err(|error| errors::argument(py, "sequences", errors::join_causes(&error)));
    }
    let mut sequences = Sequences::default();
    for (index, item) in convert::items(argument, "sequences")?.enumerate() {
        sequences.push(&convert::strings(&item?, &format!("sequences[{index}]"))?);
    }
    Ok(sequences)
}

/// The `model` argument, which distinguishes None from a missing argument.
enum ModelArgument<'py> {
    Default,
    Value(Bound<'py, PyAny>),
}

impl<'py> FromPyObject<'_, 'py> for ModelArgument<'py> {
    type Error = PyErr;

    fn extract(argument: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self::Value(argument.to_owned()))
    }
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (
        catalog, model = ModelArgument::Default, *, model_name = None, cache_dir = None,
        skills = None, examples = None, sequences = None, on_progress = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python callers name them")]
    fn new(
        catalog: &Bound<'_, PyAny>,
        model: ModelArgument<'_>,
        model_name: Option<&Bound<'_, PyAny>>,
        cache_dir: Option<&Bound<'_, PyAny>>,
        skills: Option<&Bound<'_, PyAny>>,
        examples: Option<&Bound<'_, PyAny>>,
        sequences: Option<&Bound<'_, PyAny>>,
        on_progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = catalog.py();
        let Ok(catalog) = catalog.cast::<Catalog>() else {
            return Err(errors::argument_type(
                catalog,
                "catalog",
                "a Catalog, for example from Catalog.open or Catalog.from_tools",
            ));
        };
        let arguments = PyDict::new(py);
        let model = match model {
            ModelArgument::Default => PyString::new(py, "static").into_any(),
            ModelArgument::Value(model) => model,
        };
        arguments.set_item("model", &model)?;
        for (name, value) in [
            ("model_name", model_name),
            ("cache_dir", cache_dir),
            ("skills", skills),
            ("examples", examples),
            ("sequences", sequences),
        ] {
            if let Some(value) = value {
                arguments.set_item(name, value)?;
            }
        }
        let monitor = Arc::new(WorkMonitor::default());
        let name = model_name
            .map(|name| convert::string(name, "model_name"))
            .transpose()?;
        let mut builder = picktools::Engine::builder(catalog.get().0.clone())
            .token_counter(Arc::new(picktools_provider::Definitions));
        let mut is_tuned = false;
        match ModelChoice::open(&model, name, &monitor)? {
            ModelChoice::Static => {}
            ModelChoice::None => builder = builder.keyword_only(),
            ModelChoice::Model {
                embedder,
                is_tuned: is_tuned_model,
            } => {
                is_tuned = is_tuned_model;
                builder = builder.embedder(embedder);
            }
        }
        if let Some(folder) = cache_dir {
            builder = builder.cache_dir(convert::path(folder, "cache_dir")?);
        }
        let mut skill_errors = Vec::new();
        if let Some(folder) = skills {
            let folder = SkillFolder::open(convert::path(folder, "skills")?)
                .map_err(|error| errors::argument(py, "skills", errors::join_causes(&error)))?;
            skill_errors.extend(folder.errors.iter().map(ToString::to_string));
            builder = builder.skills(folder.skills);
        }
        if let Some(examples) = examples {
            builder = builder.examples(read_examples(examples)?);
        }
        if let Some(sequences) = sequences {
            builder = builder.sequences(read_sequences(sequences)?);
        }
        if let Some(report) = on_progress {
            if !report.is_callable() {
                return Err(errors::argument_type(report, "on_progress", "a callable"));
            }
            let (report, monitor) = (report.clone().unbind(), Arc::clone(&monitor));
            builder = builder.on_progress(move |done, all| {
                Python::attach(|py| {
                    if let Err(error) = report.call1(py, (done, all)) {
                        monitor.stop(error);
                    }
                });
            });
        }
        let built = work::run_long(py, &monitor.cancelled, || builder.build())?;
        let exception = monitor.take_exception();
        if monitor.cancelled.load(Ordering::Relaxed) {
            let error = errors::argument(py, "on_progress", "it raised an exception");
            error.set_cause(py, exception);
            return Err(error);
        }
        let inner = built.map_err(|error| errors::index(py, &error, exception))?;
        Ok(Self {
            inner,
            monitor,
            names: OnceLock::new(),
            arguments: arguments.unbind(),
            learned: Vec::new(),
            skill_errors,
            is_tuned,
            pid: process::id(),
        })
    }

    /// The catalog.
    #[getter]
    fn catalog(&self) -> Catalog {
        Catalog(self.inner.catalog().clone())
    }

    /// Statistics of the index.
    #[getter]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &self.inner.stats())
    }

    /// Messages about skills that are not picked, because their files cannot be read or the catalog
    /// does not have their tools, and about files that are not valid YAML.
    #[getter]
    fn skill_notices(&self) -> Vec<String> {
        let mut notices = self.skill_errors.clone();
        for report in self.inner.skill_reports() {
            if !report.is_compatible() {
                notices.push(report.to_string());
            }
        }
        notices
    }

    /// Picks the tools that a request needs, at most `k` besides the tools in use.
    ///
    /// The request is text, or a transcript in a provider's format. `access` is the access policy
    /// of the caller: roles, allow_unsafe, max_cost and others. Without it, unsafe tools and tools
    /// for roles are not picked. The options are those of `PickOptions`: min_score, mode, reasons,
    /// debug, timeout_ms, token_budget, always_include, fallbacks, in_use, max_per_source,
    /// trusted_sources, tell_blocked, choice, fusion, popularity.
    ///
    /// `scorer` replaces the ranking. It is a callable that takes the text of the request and the
    /// eligible tools, and returns one score from 0 to 1 per tool, or one pair (score, reason). With
    /// `shortlist` it gets only so many tools, the best of the built-in ranking. An exception of the
    /// scorer is not raised: `degraded` reports it, and the tools keep their order.
    #[pyo3(signature = (query, k = None, *, access = None, **options))]
    fn pick(
        &self,
        query: &Bound<'_, PyAny>,
        k: Option<&Bound<'_, PyAny>>,
        access: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Selection> {
        let py = query.py();
        let query = convert::query(query, "query")?;
        let ConfiguredPick { engine, options } =
            ConfiguredPick::configure(&self.inner, k, access, options, py)?;
        self.check_process(py, options.timeout.is_some())?;
        // The closure takes the query and the options, so that they are dropped without the lock.
        let selection = py.detach(move || engine.pick(&query, &options));
        selection
            .map(Selection::new)
            .map_err(|error| errors::pick(py, &error))
    }

    /// Picks on another thread, like `pick`. The result is awaited.
    #[pyo3(signature = (query, k = None, *, access = None, **options))]
    fn apick<'py>(
        slf: &Bound<'py, Self>,
        query: &Bound<'py, PyAny>,
        k: Option<&Bound<'py, PyAny>>,
        access: Option<&Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let options = options.map_or_else(|| Ok(PyDict::new(py)), |options| options.copy())?;
        options.set_item("k", k)?;
        options.set_item("access", access)?;
        py.import("asyncio")?.call_method(
            "to_thread",
            (slf.getattr("pick")?, query),
            Some(&options),
        )
    }

    /// Picks for many requests on all cores, like `pick`. The results have the order of the
    /// requests.
    #[pyo3(signature = (queries, k = None, *, access = None, **options))]
    fn pick_batch(
        &self,
        queries: &Bound<'_, PyAny>,
        k: Option<&Bound<'_, PyAny>>,
        access: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Vec<Selection>> {
        let py = queries.py();
        let items = convert::items(queries, "queries")?.enumerate();
        let queries =
            items.map(|(index, item)| convert::query(&item?, &format!("queries[{index}]")));
        let queries = queries.collect::<PyResult<Vec<_>>>()?;
        let ConfiguredPick { engine, options } =
            ConfiguredPick::configure(&self.inner, k, access, options, py)?;
        self.check_process(py, options.timeout.is_some())?;
        let pool = work::pool()?;
        let selections: Result<Vec<_>, _> = py.detach(|| {
            pool.install(|| {
                queries
                    .par_iter()
                    .map(|query| engine.pick(query, &options))
                    .collect()
            })
        });
        Ok(selections
            .map_err(|error| errors::pick(py, &error))?
            .into_iter()
            .map(Selection::new)
            .collect())
    }

    /// Resolves a name to a tool: `{"name", "tool", "via", "deprecated"}`, or `candidates`, or
    /// `suggestions`.
    fn resolve<'py>(&self, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = name.py();
        let name = convert::string(name, "name")?;
        let meaning = self.meaning(&name, py)?;
        convert::to_python(
            py,
            &NameMeaning {
                name: &name,
                meaning,
            },
        )
    }

    /// Translates the tools of a selection, tools or their names, or all tools, to a provider's
    /// format.
    #[pyo3(signature = (provider, tools = None, *, strict = None, deferred = None, names = None))]
    fn translate(
        &self,
        provider: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        strict: Option<&Bound<'_, PyAny>>,
        deferred: Option<&Bound<'_, PyAny>>,
        names: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Translation> {
        let py = provider.py();
        let provider = self::provider(provider)?;
        let options = translate_options(strict, deferred, names)?;
        translate_tools(py, &self.tools(tools, py)?, provider, &options)
    }

    /// Validates a model's calls against the tools' schemas and the access policy. Runs no call.
    ///
    /// `calls` is one call or a list of calls `{"name", "arguments", "id"}`. With the translation
    /// that the model was shown, it may also be the complete answer of the provider. With
    /// `text_calls`, calls that a local model wrote in the text of the answer are read, too.
    #[pyo3(signature = (calls, *, translation = None, access = None, text_calls = false))]
    fn validate(
        &self,
        calls: &Bound<'_, PyAny>,
        translation: Option<&Bound<'_, PyAny>>,
        access: Option<&Bound<'_, PyAny>>,
        text_calls: bool,
    ) -> PyResult<Vec<Call>> {
        let access = access.map_or_else(
            || Ok(Access::default()),
            |access| convert::deserialize(access, "access"),
        )?;
        let translation = match translation {
            None => None,
            Some(argument) => match argument.cast::<Translation>() {
                Ok(translation) => Some(&translation.get().0),
                Err(_) => {
                    let expected = "a Translation, as translate returns it";
                    return Err(errors::argument_type(argument, "translation", expected));
                }
            },
        };
        let text = if text_calls {
            AnswerText::MayHaveCalls
        } else {
            AnswerText::Ignored
        };
        validate_calls(self.inner.catalog(), calls, translation, &access, text)
    }

    /// Picks tools, sends them to a model with `ask`, and validates the model's calls.
    ///
    /// `ask` gets the `tools` of the API request, and returns the provider's answer.
    #[pyo3(signature = (query, ask, provider = None, k = None, *, access = None, **options))]
    fn tool_call(
        &self,
        query: &Bound<'_, PyAny>,
        ask: &Bound<'_, PyAny>,
        provider: Option<&Bound<'_, PyAny>>,
        k: Option<&Bound<'_, PyAny>>,
        access: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Vec<Call>> {
        let py = query.py();
        if !ask.is_callable() {
            return Err(errors::argument_type(ask, "ask", "a callable"));
        }
        let openai = PyString::new(py, "openai").into_any();
        let provider = self::provider(provider.unwrap_or(&openai))?;
        let access_policy = access.map_or_else(
            || Ok(Access::default()),
            |access| convert::deserialize(access, "access"),
        )?;
        let selection = self.pick(query, k, access, options)?;
        let tools = selection.0.shown_tools();
        let translation =
            translate_tools(py, &tools, provider, &translate_options(None, None, None)?)?;
        let answer = ask.call1((convert::to_python(py, &translation.0.tools)?,))?;
        validate_calls(
            self.inner.catalog(),
            &answer,
            Some(&translation.0),
            &access_policy,
            AnswerText::Ignored,
        )
    }

    /// Returns an engine with changed tools.
    ///
    /// `put` has tools to add or to replace by id, and `remove` has ids. Only changed tools are
    /// indexed.
    #[pyo3(signature = (put = None, remove = None))]
    fn update(
        &self,
        py: Python<'_>,
        put: Option<&Bound<'_, PyAny>>,
        remove: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        self.check_process(py, false)?;
        let changes = Changes {
            put: put
                .map(|put| definitions(put, "put"))
                .transpose()?
                .unwrap_or_default(),
            remove: remove
                .map(|remove| convert::strings(remove, "remove"))
                .transpose()?
                .unwrap_or_default(),
        };
        let updated = work::run_long(py, &self.monitor.cancelled, || self.inner.update(changes));
        let exception = self.monitor.take_exception();
        let inner = self
            .reset_cancellation(updated)?
            .map_err(|error| match &error {
                UpdateError::Change(ChangeError::UnknownTool { .. }) => {
                    errors::argument(py, "remove", error)
                }
                UpdateError::Change(ChangeError::Catalog(CatalogError::Saved(_))) => {
                    errors::saved(py, error)
                }
                UpdateError::Index(error) => errors::index(py, error, exception),
                other => errors::catalog(py, errors::join_causes(other)),
            })?;
        Ok(self.with_inner(py, inner, self.learned.clone()))
    }

    /// Returns an engine that has learned examples: pairs of a tool's name and a request that it
    /// served.
    fn learn(&self, served: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = served.py();
        self.check_process(py, false)?;
        let pairs = convert::pairs(served, "served")?;
        let served = pairs
            .iter()
            .map(|(tool, request)| (tool.as_str(), request.as_str()));
        let learned = work::run_long(py, &self.monitor.cancelled, || self.inner.learn(served));
        let exception = self.monitor.take_exception();
        let inner = self
            .reset_cancellation(learned)?
            .map_err(|error| errors::index(py, &error, exception))?;
        Ok(self.with_inner(py, inner, [self.learned.clone(), pairs].concat()))
    }

    /// Saves the catalog and its index in a folder.
    ///
    /// `Catalog.open` opens the folder, and so does the program with `--index`.
    fn save(&self, folder: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = folder.py();
        self.check_process(py, false)?;
        let folder = convert::path(folder, "folder")?;
        let pool = work::pool()?;
        let saved = py.detach(|| pool.install(|| self.inner.save(folder, Value::Null)));
        saved.map_err(|error| errors::saved(py, error))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.check_process(py, false)?;
        let folder = tempfile::tempdir().map_err(|error| errors::saved(py, error))?;
        self.inner
            .save(folder.path(), Value::Null)
            .map_err(|error| errors::saved(py, error))?;
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder.path())? {
            let path = entry?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            files.push((name, PyBytes::new(py, &std::fs::read(&path)?)));
        }
        let restore = py.import("picktools._native")?.getattr("restored")?;
        let arguments = self.arguments.bind(py).clone();
        Ok((restore, (files, arguments, self.learned.clone()))
            .into_pyobject(py)?
            .into_any())
    }

    fn __repr__(&self) -> String {
        format!("<Engine of {} tools>", self.inner.catalog().len())
    }
}

impl Engine {
    /// Clears a cancellation, so that later work can run, and returns the result.
    fn reset_cancellation<T>(&self, result: PyResult<T>) -> PyResult<T> {
        self.monitor.cancelled.store(false, Ordering::Relaxed);
        result
    }
}

/// Restores a pickled engine.
#[pyfunction]
#[pyo3(name = "restored")]
pub(crate) fn restore_engine<'py>(
    py: Python<'py>,
    files: Vec<(String, Vec<u8>)>,
    arguments: &Bound<'py, PyDict>,
    learned: Vec<(String, String)>,
) -> PyResult<Bound<'py, PyAny>> {
    let folder = tempfile::tempdir().map_err(|error| errors::saved(py, error))?;
    for (name, bytes) in files {
        // A name must not be a path out of the folder.
        if std::path::Path::new(&name)
            .file_name()
            .is_none_or(|file| file != name.as_str())
        {
            return Err(errors::saved(
                py,
                "it is not a pickled engine: a file in it has a path",
            ));
        }
        std::fs::write(folder.path().join(name), bytes)?;
    }
    let catalog = py.detach(|| picktools::Catalog::open_saved(folder.path()));
    let catalog = Catalog(catalog.map_err(|error| errors::saved(py, error))?);
    let engine = py.get_type::<Engine>().call((catalog,), Some(arguments))?;
    if learned.is_empty() {
        Ok(engine)
    } else {
        engine.call_method1("learn", (learned,))
    }
}
