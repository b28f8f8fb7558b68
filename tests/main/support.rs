//! What the modules share: where the fixtures lie, the fixture engine, and short ways to say common things.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use picktools::call::{CallError, Hydrated, ValidCall};
use picktools::scorer::Scorer;
use picktools::{Access, Catalog, Engine, Hydrator, Mode, PickOptions, Query, Selection, Tool};

/// The engine over the fixture catalog, as it is built where nothing else is said.
pub(crate) static WORKPLACE: LazyLock<Engine> = LazyLock::new(|| engine(workplace()));

/// The same, built for keywords only.
pub(crate) static KEYWORDS: LazyLock<Engine> =
    LazyLock::new(|| Engine::builder(workplace()).keyword_only().build().expect("keywords need nothing"));

/// A path below the crate.
pub(crate) fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

pub(crate) fn fixture(path: &str) -> PathBuf {
    root("fixtures").join(path)
}

pub(crate) fn workplace() -> Catalog {
    Catalog::open(fixture("catalogs/workplace")).expect("the fixture catalog is valid")
}

pub(crate) fn engine(catalog: Catalog) -> Engine {
    Engine::new(catalog).expect("the static model needs nothing")
}

/// The engine over the fixture catalog whose tools this scorer ranks.
pub(crate) fn scored_by(scorer: Arc<dyn Scorer>) -> Engine {
    Engine::builder(workplace()).scorer(scorer).build().expect("the static model needs nothing")
}

/// Every file below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).expect("the folder can be read").map(|entry| entry.expect("it can be read").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// A catalog made in memory.
pub(crate) fn catalog(tools: impl IntoIterator<Item = Tool>) -> Catalog {
    Catalog::from_tools(tools).expect("the tools are valid")
}

/// A hydrator for a caller who may run unsafe tools too.
pub(crate) fn hydrator_of(catalog: Catalog) -> Hydrator {
    let access = Access { allow_unsafe: true, ..Access::default() };
    Hydrator::new(catalog, &access).expect("the access names no tool")
}

/// The call that may be run.
pub(crate) fn ready(hydrated: Result<Hydrated, CallError>) -> ValidCall {
    match hydrated {
        Ok(Hydrated::Ready(call)) => call,
        other => panic!("it may be run, but is {other:?}"),
    }
}

/// A tool of a source, without arguments.
pub(crate) fn tool(source: &str, name: &str, description: &str) -> Tool {
    let mut tool = Tool::without_arguments(name, description);
    tool.source = Some(source.to_owned());
    tool.id = tool.qualified_name();
    tool
}

pub(crate) fn in_mode(mode: Mode) -> PickOptions {
    PickOptions { mode: Some(mode), ..PickOptions::default() }
}

pub(crate) fn pick(engine: &Engine, query: &str, options: &PickOptions) -> Selection {
    engine.pick(&Query::new(query), options).expect("the options are valid")
}

/// The ids of the picks, best first.
pub(crate) fn ids(selection: &Selection) -> Vec<&str> {
    selection.picks.iter().map(|pick| pick.tool.id.as_str()).collect()
}

/// The ids of the tools that everybody may see, in registration order.
pub(crate) fn public_ids(catalog: &Catalog) -> Vec<&str> {
    let public = catalog.tools().iter().filter(|tool| !tool.is_unsafe() && tool.allowed_roles.is_empty());
    public.map(|tool| tool.id.as_str()).collect()
}

pub(crate) fn set(items: &[&str]) -> std::collections::BTreeSet<String> {
    items.iter().map(|&item| item.to_owned()).collect()
}
