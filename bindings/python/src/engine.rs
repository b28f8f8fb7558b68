//! The engine.

use std::process;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use picktools::catalog::{ChangeError, Changes};
use picktools::engine::UpdateError;
use picktools::examples::{Example, Examples};
use picktools::names::NameTable;
use picktools::sequences::Sequences;
use picktools::skills::ToolMeaning;
use picktools::{Access, PickOptions};
use picktools_skills::SkillFolder;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::answers::Selection;
use crate::calls::{Call, Translation, provider, translated, validated, view};
use crate::catalog::{Catalog, definitions};
use crate::model::{Given, Watch};
use crate::tool::Tool;
use crate::{convert, errors, work};

/// A catalog, indexed and ready to be picked from. It does not change: `update` and `learn` make
/// another.
///
/// `model` is what ranks by meaning: "static" (quick, inside), "tuned" (better, inside, about two
/// milliseconds a request), None for words alone, or a model of Python: a callable that takes a
/// list of texts and gives one vector a text, or an object with a method `encode` that does.
/// `model_name` names it; without, its vectors are not kept.
///
/// >>> engine = picktools.Engine(picktools.Catalog.from_tools([
/// ...     {"name": "book_room", "description": "Books a meeting room", "parameters": {}}]))
/// >>> len(engine.pick("we need a room to meet in"))
/// 1
#[pyclass(frozen, module = "picktools")]
pub(crate) struct Engine {
    pub(crate) inner: picktools::Engine,
    watch: Arc<Watch>,
    names: OnceLock<NameTable>,
    /// What it was made with, for pickling.
    given: Py<PyDict>,
    /// What it has learned since.
    learned: Vec<(String, String)>,
    is_tuned: bool,
    pid: u32,
}

/// What one name means.
#[derive(Serialize)]
struct Meaning<'a> {
    name: &'a str,
    #[serde(flatten)]
    meaning: ToolMeaning,
}

/// Reads the options of a pick: plain names as in `PickOptions`, `k` for `max_candidates`.
pub(crate) fn options(
    py: Python<'_>,
    k: Option<&Bound<'_, PyAny>>,
    access: Option<&Bound<'_, PyAny>>,
    others: Option<&Bound<'_, PyDict>>,
) -> PyResult<PickOptions> {
    let mut members = Map::new();
    if let Some(others) = others {
        for (name, value) in others {
            let name = convert::string(&name, "options")?;
            members.insert(name.clone(), convert::value(&value, &name)?);
        }
    }
    if let Some(k) = k {
        members.insert("max_candidates".to_owned(), convert::value(k, "k")?);
    }
    if let Some(access) = access {
        members.insert("access".to_owned(), convert::value(access, "access")?);
    }
    if members.is_empty() {
        return Ok(PickOptions::default());
    }
    let read =
        |members: Map<String, Value>| serde_json::from_value::<PickOptions>(Value::Object(members));
    read(members.clone()).map_err(|error| {
        // Of several, the one that is at fault.
        let alone = members
            .into_iter()
            .find(|(name, value)| read(Map::from_iter([(name.clone(), value.clone())])).is_err());
        let name = alone.map_or_else(|| "options".to_owned(), |(name, _)| name);
        errors::argument(
            py,
            if name == "max_candidates" { "k" } else { &name },
            error,
        )
    })
}

impl Engine {
    /// Fails where this process is not the one that the engine was made in and something of it did
    /// not come along.
    pub(crate) fn usable(&self, py: Python<'_>, has_deadline: bool) -> PyResult<()> {
        if self.pid == process::id() {
            return Ok(());
        }
        if self.is_tuned {
            return Err(errors::forked(py, "an engine with the tuned model"));
        }
        if has_deadline {
            return Err(errors::forked(py, "an engine that is to keep a timeout"));
        }
        Ok(())
    }

    fn made(
        &self,
        py: Python<'_>,
        inner: picktools::Engine,
        learned: Vec<(String, String)>,
    ) -> Self {
        Self {
            inner,
            watch: Arc::clone(&self.watch),
            names: OnceLock::new(),
            given: self.given.clone_ref(py),
            learned,
            is_tuned: self.is_tuned,
            pid: self.pid,
        }
    }

    fn names(&self, py: Python<'_>) -> PyResult<&NameTable> {
        if self.names.get().is_none() {
            let pool = work::pool()?;
            let names = py.detach(|| pool.install(|| NameTable::of(self.inner.catalog())));
            let _filled = self
                .names
                .set(names.map_err(|error| errors::saved(py, error))?);
        }
        self.names
            .get()
            .ok_or_else(|| errors::saved(py, "the names are not there"))
    }

    /// Finds tools that are given as such, or by name.
    fn tools(
        &self,
        given: Option<&Bound<'_, PyAny>>,
        py: Python<'_>,
    ) -> PyResult<Vec<Arc<picktools::Tool>>> {
        let Some(given) = given else {
            let all = self
                .inner
                .catalog()
                .read_all()
                .map_err(|error| errors::saved(py, error))?;
            return Ok(all.to_vec());
        };
        if let Ok(selection) = given.cast::<Selection>() {
            return Ok(selection.get().0.shown());
        }
        let one = |(index, item): (usize, PyResult<Bound<'_, PyAny>>)| {
            let (item, place) = (item?, format!("tools[{index}]"));
            if let Ok(tool) = item.cast::<Tool>() {
                return Ok(Arc::clone(&tool.get().0));
            }
            let name = convert::string(&item, &place)?;
            match ToolMeaning::of(&name, self.inner.catalog(), self.names(py)?) {
                ToolMeaning::Tool { tool, .. } => match self.inner.catalog().find(&tool) {
                    Some(id) => Ok(Arc::clone(self.inner.catalog().tool(id))),
                    None => Err(errors::argument(
                        py,
                        "tools",
                        format_args!("{place}: there is no tool {tool:?}"),
                    )),
                },
                other => Err(errors::argument(
                    py,
                    "tools",
                    format_args!("{place}: {name:?}: {other}"),
                )),
            }
        };
        convert::items(given, "tools")?
            .enumerate()
            .map(one)
            .collect()
    }
}

fn examples(given: &Bound<'_, PyAny>) -> PyResult<Examples> {
    let py = given.py();
    if convert::is_path(given)? {
        let opened = Examples::open(convert::path(given, "examples")?);
        return opened.map_err(|error| errors::argument(py, "examples", errors::whole(&error)));
    }
    let mut examples = Examples::default();
    convert::pairs(given, "examples")?
        .into_iter()
        .for_each(|(tool, request)| examples.push(Example::new(tool, request)));
    Ok(examples)
}

fn sequences(given: &Bound<'_, PyAny>) -> PyResult<Sequences> {
    let py = given.py();
    if convert::is_path(given)? {
        let opened = Sequences::open(convert::path(given, "sequences")?);
        return opened.map_err(|error| errors::argument(py, "sequences", errors::whole(&error)));
    }
    let mut sequences = Sequences::default();
    for (index, item) in convert::items(given, "sequences")?.enumerate() {
        sequences.push(&convert::strings(&item?, &format!("sequences[{index}]"))?);
    }
    Ok(sequences)
}

/// A model as it is given, were it None.
enum ModelArgument<'py> {
    Static,
    Given(Bound<'py, PyAny>),
}

impl<'py> FromPyObject<'_, 'py> for ModelArgument<'py> {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self::Given(given.to_owned()))
    }
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (
        catalog, model = ModelArgument::Static, *, model_name = None, cache_dir = None, skills = None, examples = None,
        sequences = None, on_progress = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are named in Python")]
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
            return Err(errors::of_type(
                catalog,
                "catalog",
                "a Catalog, as Catalog.open and Catalog.from_tools make",
            ));
        };
        let given = PyDict::new(py);
        let model = match model {
            ModelArgument::Static => PyString::new(py, "static").into_any(),
            ModelArgument::Given(model) => model,
        };
        given.set_item("model", &model)?;
        for (name, value) in [
            ("model_name", model_name),
            ("cache_dir", cache_dir),
            ("skills", skills),
            ("examples", examples),
            ("sequences", sequences),
        ] {
            if let Some(value) = value {
                given.set_item(name, value)?;
            }
        }
        let watch = Arc::new(Watch::default());
        let name = model_name
            .map(|name| convert::string(name, "model_name"))
            .transpose()?;
        let mut builder = picktools::Engine::builder(catalog.get().0.clone())
            .token_counter(Arc::new(picktools_provider::Definitions));
        let mut is_tuned = false;
        match Given::open(&model, name, &watch)? {
            Given::Static => {}
            Given::None => builder = builder.keyword_only(),
            Given::Model {
                embedder,
                is_tuned: tuned,
            } => {
                is_tuned = tuned;
                builder = builder.embedder(embedder);
            }
        }
        if let Some(folder) = cache_dir {
            builder = builder.cache_dir(convert::path(folder, "cache_dir")?);
        }
        if let Some(folder) = skills {
            let found = SkillFolder::open(convert::path(folder, "skills")?);
            builder = builder.skills(
                found
                    .map_err(|error| errors::argument(py, "skills", errors::whole(&error)))?
                    .skills,
            );
        }
        if let Some(given) = examples {
            builder = builder.examples(self::examples(given)?);
        }
        if let Some(given) = sequences {
            builder = builder.sequences(self::sequences(given)?);
        }
        if let Some(report) = on_progress {
            if !report.is_callable() {
                return Err(errors::of_type(report, "on_progress", "a callable"));
            }
            let (report, watch) = (report.clone().unbind(), Arc::clone(&watch));
            builder = builder.on_progress(move |done, all| {
                Python::attach(|py| {
                    if let Err(error) = report.call1(py, (done, all)) {
                        watch.stop(error);
                    }
                });
            });
        }
        let built = work::long(py, &watch.cancelled, || builder.build())?;
        let raised = watch.raised();
        if watch.cancelled.load(Ordering::Relaxed) {
            let error = errors::argument(py, "on_progress", "it raised an exception");
            error.set_cause(py, raised);
            return Err(error);
        }
        let inner = built.map_err(|error| errors::index(py, &error, raised))?;
        let pid = process::id();
        let learned = Vec::new();
        Ok(Self {
            inner,
            watch,
            names: OnceLock::new(),
            given: given.unbind(),
            learned,
            is_tuned,
            pid,
        })
    }

    /// The catalog.
    #[getter]
    fn catalog(&self) -> Catalog {
        Catalog(self.inner.catalog().clone())
    }

    /// What the index holds.
    #[getter]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::object_of(py, &self.inner.stats())
    }

    /// Picks the tools that a request needs, at most `k` besides those in use. The request is text,
    /// or a transcript as providers write it. `access` says who asks: roles, allow_unsafe, max_cost
    /// and others; without it nothing unsafe and nothing for roles is picked. Options are those of
    /// `PickOptions`: min_score, mode, reasons, debug, timeout_ms, token_budget, always_include,
    /// in_use, max_per_source, trusted_sources, tell_blocked, choice, fusion, popularity.
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
        let options = self::options(py, k, access, options)?;
        self.usable(py, options.timeout.is_some())?;
        // What was read is let go of there, too.
        let picked = py.detach(move || self.inner.pick(&query, &options));
        picked
            .map(Selection::new)
            .map_err(|error| errors::pick(py, &error))
    }

    /// As `pick`, on another thread, to be awaited.
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

    /// As `pick`, of many requests, on all cores. In the order of the requests.
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
        let options = self::options(py, k, access, options)?;
        self.usable(py, options.timeout.is_some())?;
        let pool = work::pool()?;
        let picked: Result<Vec<_>, _> = py.detach(|| {
            pool.install(|| {
                queries
                    .par_iter()
                    .map(|query| self.inner.pick(query, &options))
                    .collect()
            })
        });
        Ok(picked
            .map_err(|error| errors::pick(py, &error))?
            .into_iter()
            .map(Selection::new)
            .collect())
    }

    /// Tells which tool a name means: `{"name", "tool", "via", "deprecated"}`, or `candidates`, or
    /// `suggestions`.
    fn resolve<'py>(&self, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = name.py();
        let name = convert::string(name, "name")?;
        let meaning = ToolMeaning::of(&name, self.inner.catalog(), self.names(py)?);
        convert::object_of(
            py,
            &Meaning {
                name: &name,
                meaning,
            },
        )
    }

    /// Writes tools as a provider wants them: those of a selection, tools or their names, or all.
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
        let (provider, view) = (self::provider(provider)?, view(strict, deferred, names)?);
        translated(py, &self.tools(tools, py)?, provider, &view)
    }

    /// Holds calls of a model to the tools' schemas and to what the caller may do: one call or a
    /// list of calls `{"name", "arguments", "id"}`; with the translation that the model was shown
    /// also the provider's whole answer. None of them is run.
    #[pyo3(signature = (calls, *, translation = None, access = None))]
    fn validate(
        &self,
        calls: &Bound<'_, PyAny>,
        translation: Option<&Bound<'_, PyAny>>,
        access: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Call>> {
        let access = access.map_or_else(
            || Ok(Access::default()),
            |access| convert::parsed(access, "access"),
        )?;
        let translation = match translation.map(|given| (given, given.cast::<Translation>())) {
            None => None,
            Some((_, Ok(translation))) => Some(&translation.get().0),
            Some((given, Err(_))) => {
                return Err(errors::of_type(
                    given,
                    "translation",
                    "a Translation, as translate gives",
                ));
            }
        };
        validated(self.inner.catalog(), calls, translation, &access)
    }

    /// Picks tools, has `ask` send them to a model, and validates what it calls: `ask` is given the
    /// `tools` of the provider's request and returns the provider's answer.
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
            return Err(errors::of_type(ask, "ask", "a callable"));
        }
        let openai = PyString::new(py, "openai").into_any();
        let provider = self::provider(provider.unwrap_or(&openai))?;
        let allowed = access.map_or_else(
            || Ok(Access::default()),
            |access| convert::parsed(access, "access"),
        )?;
        let picked = self.pick(query, k, access, options)?;
        let translation = translated(py, &picked.0.shown(), provider, &view(None, None, None)?)?;
        let answer = ask.call1((convert::object_of(py, &translation.0.tools)?,))?;
        validated(
            self.inner.catalog(),
            &answer,
            Some(&translation.0),
            &allowed,
        )
    }

    /// Makes an engine with other tools: `put` are added, or take the place of those with their
    /// ids; `remove` are ids. Only what has changed is indexed.
    #[pyo3(signature = (put = None, remove = None))]
    fn update(
        &self,
        py: Python<'_>,
        put: Option<&Bound<'_, PyAny>>,
        remove: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        self.usable(py, false)?;
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
        let updated = work::long(py, &self.watch.cancelled, || self.inner.update(changes));
        let raised = self.watch.raised();
        let inner = self.settled(updated)?.map_err(|error| match &error {
            UpdateError::Change(ChangeError::UnknownTool { .. }) => {
                errors::argument(py, "remove", error)
            }
            UpdateError::Change(ChangeError::Damaged { .. }) => errors::saved(py, error),
            UpdateError::Index(error) => errors::index(py, error, raised),
            other => errors::catalog(py, errors::whole(other)),
        })?;
        Ok(self.made(py, inner, self.learned.clone()))
    }

    /// Makes an engine that has learned which requests tools have served, as pairs of a tool's name
    /// and a request.
    fn learn(&self, served: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = served.py();
        self.usable(py, false)?;
        let pairs = convert::pairs(served, "served")?;
        let served = pairs
            .iter()
            .map(|(tool, request)| (tool.as_str(), request.as_str()));
        let learned = work::long(py, &self.watch.cancelled, || self.inner.learn(served));
        let raised = self.watch.raised();
        let inner = self
            .settled(learned)?
            .map_err(|error| errors::index(py, &error, raised))?;
        Ok(self.made(py, inner, [self.learned.clone(), pairs].concat()))
    }

    /// Saves the catalog and its index in a folder, which `Catalog.open` opens, and the program
    /// with `--index`.
    fn save(&self, folder: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = folder.py();
        self.usable(py, false)?;
        let folder = convert::path(folder, "folder")?;
        let pool = work::pool()?;
        let saved = py.detach(|| pool.install(|| self.inner.save(folder, Value::Null)));
        saved.map_err(|error| errors::saved(py, error))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.usable(py, false)?;
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
        let restored = py.import("picktools._native")?.getattr("restored")?;
        Ok((
            restored,
            (files, self.given.bind(py).clone(), self.learned.clone()),
        )
            .into_pyobject(py)?
            .into_any())
    }

    fn __repr__(&self) -> String {
        format!("<Engine of {} tools>", self.inner.catalog().len())
    }
}

impl Engine {
    /// What long work came to; after an interrupt the next may go on.
    fn settled<T>(&self, done: PyResult<T>) -> PyResult<T> {
        self.watch.cancelled.store(false, Ordering::Relaxed);
        done
    }
}

/// Makes an engine of what pickling has made of one.
#[pyfunction]
pub(crate) fn restored<'py>(
    py: Python<'py>,
    files: Vec<(String, Vec<u8>)>,
    given: &Bound<'py, PyDict>,
    learned: Vec<(String, String)>,
) -> PyResult<Bound<'py, PyAny>> {
    let folder = tempfile::tempdir().map_err(|error| errors::saved(py, error))?;
    for (name, bytes) in files {
        // A name of ours is no path that leads out of the folder.
        if std::path::Path::new(&name)
            .file_name()
            .is_none_or(|file| file != name.as_str())
        {
            return Err(errors::saved(
                py,
                "it is no pickled engine: a file in it has a path",
            ));
        }
        std::fs::write(folder.path().join(name), bytes)?;
    }
    let catalog = py.detach(|| picktools::Catalog::open_saved(folder.path()));
    let catalog = Catalog(catalog.map_err(|error| errors::saved(py, error))?);
    let engine = py.get_type::<Engine>().call((catalog,), Some(given))?;
    if learned.is_empty() {
        Ok(engine)
    } else {
        engine.call_method1("learn", (learned,))
    }
}
