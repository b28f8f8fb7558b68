//! Paths of fixtures, the fixture engine, and short helpers: for the engine's tests and, through
//! `picktools-testing`, for those of other crates.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use picktools::scorer::Scorer;
use picktools::{Catalog, Engine, Mode, PickOptions, Query, Selection, Tool};
use serde_json::Value;

/// The default engine over the fixture catalog.
pub static WORKPLACE: LazyLock<Engine> = LazyLock::new(|| engine(workplace()));

/// The same engine, built for keywords only.
pub static KEYWORDS: LazyLock<Engine> = LazyLock::new(|| {
    Engine::builder(workplace())
        .keyword_only()
        .build()
        .expect("keywords need nothing")
});

/// Returns a path below the workspace, from any crate in it.
pub fn root(path: &str) -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let root = folders
        .into_iter()
        .find(|folder| folder.join("fixtures/catalogs").is_dir());
    root.expect("the crate is in the workspace").join(path)
}

/// Returns a path below the fixtures.
pub fn fixture(path: &str) -> PathBuf {
    root("fixtures").join(path)
}

/// Returns the fixture catalog.
pub fn workplace() -> Catalog {
    Catalog::open(fixture("catalogs/workplace")).expect("the fixture catalog is valid")
}

/// Builds the default engine over a catalog.
pub fn engine(catalog: Catalog) -> Engine {
    Engine::new(catalog).expect("the static model needs nothing")
}

/// Builds an engine over the fixture catalog with this scorer.
pub fn scored_by(scorer: Arc<dyn Scorer>) -> Engine {
    Engine::builder(workplace())
        .scorer(scorer)
        .build()
        .expect("the static model needs nothing")
}

/// Returns every file below a folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .expect("the folder can be read")
        .map(|entry| entry.expect("it can be read").path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// Makes a catalog in memory.
pub fn catalog(tools: impl IntoIterator<Item = Tool>) -> Catalog {
    Catalog::from_tools(tools).expect("the tools are valid")
}

/// Makes a tool of a source without arguments.
pub fn tool(source: &str, name: &str, description: &str) -> Tool {
    let mut tool = Tool::without_arguments(name, description);
    tool.source = Some(source.to_owned());
    tool.id = tool.qualified_name();
    tool
}

/// Returns options for picks in a mode.
pub fn in_mode(mode: Mode) -> PickOptions {
    PickOptions {
        mode: Some(mode),
        ..PickOptions::default()
    }
}

/// Picks with valid options.
pub fn pick(engine: &Engine, query: &str, options: &PickOptions) -> Selection {
    engine
        .pick(&Query::new(query), options)
        .expect("the options are valid")
}

/// Returns the ids of the picks, best first.
pub fn ids(selection: &Selection) -> Vec<&str> {
    selection
        .picks
        .iter()
        .map(|pick| pick.tool.id.as_str())
        .collect()
}

/// Returns the ids of the tools without restrictions, in registration order.
pub fn public_ids(catalog: &Catalog) -> Vec<&str> {
    let public = catalog
        .tools()
        .expect("readable")
        .iter()
        .filter(|tool| !tool.is_unsafe() && tool.allowed_roles.is_empty());
    public.map(|tool| tool.id.as_str()).collect()
}

/// Makes a set of texts.
pub fn set(items: &[&str]) -> std::collections::BTreeSet<String> {
    items.iter().map(|&item| item.to_owned()).collect()
}

/// The dimensions of [`fake_vector`].
pub const DIMENSIONS: usize = 64;

/// Returns a vector that is near those of texts with the same words.
pub fn fake_vector(text: &str) -> Vec<f32> {
    let mut vector = vec![0.01; DIMENSIONS];
    for word in text
        .to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        vector[(hash >> 32) as usize % DIMENSIONS] += 1.0;
    }
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.iter().map(|value| value / length).collect()
}

/// The names and patterns of tools in `fixtures/names/patterns.json`.
pub struct PatternTable {
    /// The tools, in the native format.
    pub tools: Value,
    /// The patterns in order.
    pub patterns: Vec<PatternCase>,
}

/// A name or pattern with the ids of the tools that it matches.
pub struct PatternCase {
    /// The name or pattern.
    pub pattern: String,
    /// The ids in order.
    pub tools: Vec<String>,
}

impl PatternTable {
    /// Reads the table.
    pub fn open() -> Self {
        let text = fs::read(fixture("names/patterns.json")).expect("the fixture is readable");
        let document: Value = serde_json::from_slice(&text).expect("the fixture is JSON");
        let mut patterns = Vec::new();
        for case in document["patterns"].as_array().expect("patterns") {
            let tools = case["tools"].as_array().expect("tools").iter();
            patterns.push(PatternCase {
                pattern: case["pattern"].as_str().expect("a pattern").to_owned(),
                tools: tools
                    .map(|id| id.as_str().expect("an id").to_owned())
                    .collect(),
            });
        }
        Self {
            tools: document["tools"].clone(),
            patterns,
        }
    }

    /// Returns the tools as a catalog.
    pub fn catalog(&self) -> Catalog {
        let text = self.tools.to_string();
        Catalog::from_slice(text.as_bytes(), "patterns.json", None).expect("the tools are valid")
    }
}
