//! Signals in files, for `models/train/fusion`.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::iter;
use std::path::Path;

use anyhow::Context;

use super::args::progress_bar;
use picktools::engine::Retriever;
use picktools::{Engine, PickOptions};
use picktools_eval::{QuerySet, write_atomically};

/// What the file of what a retriever says of sources is called after the retriever.
const SOURCES: &str = "-sources";

/// Writes to `folder`: `RETRIEVER.npy` with a score for each query and tool,
/// `RETRIEVER-sources.npy` with one for the tool's source where sources tell something,
/// `ceiling.npy` with the largest keyword score that each query could give and `scope.npy` with
/// what a model says of each query alone, infinite where it says nothing, where the mode has these,
/// and `ids.json` with the ids of the tools and of the queries.
pub(super) fn write(
    folder: &Path,
    engine: &Engine,
    queries: &QuerySet,
    options: &PickOptions,
) -> anyhow::Result<()> {
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let tools = engine.catalog().tools();
    let mut arrays: Vec<(String, NpyFile)> = Vec::new();
    let (mut ceilings, mut scopes) = (Vec::new(), Vec::new());
    let bar = progress_bar("writing signals");
    bar.set_length(queries.len() as u64);
    for (row, query) in queries.iter().enumerate() {
        let signals = engine.retriever_scores(&query.query(), options)?;
        for signal in &signals {
            let name = signal.retriever.name();
            if signal.retriever == Retriever::Keyword {
                ceilings.resize(row, 0.0);
                ceilings.push(signal.ceiling);
            }
            if let Some(scope) = signal.scope {
                scopes.resize(row, f32::INFINITY);
                scopes.push(scope);
            }
            let of_sources = signal.sources.as_ref().map(|_| format!("{name}{SOURCES}"));
            for name in iter::once(name.to_owned()).chain(of_sources) {
                if !arrays.iter().any(|(known, _)| *known == name) {
                    let mut file = NpyFile::create(
                        &folder.join(format!("{name}.npy")),
                        &[queries.len(), tools.len()],
                    )?;
                    // A retriever that had nothing to say of the queries so far.
                    file.write(&vec![0.0; row * tools.len()])?;
                    arrays.push((name, file));
                }
            }
        }
        for (name, file) in &mut arrays {
            let (retriever, of_sources) = match name.strip_suffix(SOURCES) {
                Some(retriever) => (retriever, true),
                None => (&**name, false),
            };
            let signal = signals
                .iter()
                .find(|signal| signal.retriever.name() == retriever);
            match signal.and_then(|signal| {
                if of_sources {
                    signal.sources.as_ref()
                } else {
                    Some(&signal.scores)
                }
            }) {
                Some(scores) => file.write(scores)?,
                None => file.write(&vec![0.0; tools.len()])?,
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    for (name, mut values, without) in
        [("ceiling", ceilings, 0.0), ("scope", scopes, f32::INFINITY)]
    {
        if !values.is_empty() {
            values.resize(queries.len(), without);
            let mut file = NpyFile::create(&folder.join(format!("{name}.npy")), &[queries.len()])?;
            file.write(&values)?;
            arrays.push((name.to_owned(), file));
        }
    }
    for (name, file) in arrays {
        file.finish()
            .with_context(|| format!("cannot write {name}.npy to {}", folder.display()))?;
    }
    let tools: Vec<&str> = tools.iter().map(|tool| tool.id.as_str()).collect();
    let queries: Vec<&str> = queries.iter().map(|query| query.id.as_str()).collect();
    Ok(write_atomically(
        &folder.join("ids.json"),
        &serde_json::to_vec(&(tools, queries))?,
    )?)
}

/// An array of f32 in NumPy's format, version 1.0, little-endian, last index fastest.
struct NpyFile(BufWriter<File>);

impl NpyFile {
    fn create(path: &Path, shape: &[usize]) -> anyhow::Result<Self> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut file = BufWriter::new(file);
        let shape: String = shape.iter().map(|length| format!("{length},")).collect();
        let mut header =
            format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape}), }}");
        // The magic, the version, the length and the header fill a multiple of 64 bytes, and a line
        // feed ends it.
        let filled = (10 + header.len() + 1).next_multiple_of(64);
        header.extend(std::iter::repeat_n(' ', filled - 11 - header.len()));
        header.push('\n');
        file.write_all(b"\x93NUMPY\x01\x00")?;
        file.write_all(&u16::try_from(header.len())?.to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        Ok(Self(file))
    }

    fn write(&mut self, values: &[f32]) -> std::io::Result<()> {
        values
            .iter()
            .try_for_each(|value| self.0.write_all(&value.to_le_bytes()))
    }

    fn finish(mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}
