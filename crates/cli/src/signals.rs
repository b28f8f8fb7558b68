//! Files of retriever signals, for `models/train/fusion`.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;

use super::args::progress_bar;
use picktools::engine::{Retriever, RetrieverScores};
use picktools::{Engine, PickOptions};
use picktools_eval::{QuerySet, write_atomically};

/// The suffix of files that contain a retriever's scores of sources.
const SOURCES: &str = "-sources";

/// Writes the signals of all queries to `folder`.
///
/// - `RETRIEVER.npy` has the score of each query and tool.
/// - `RETRIEVER-sources.npy` has the score of each tool's source, if sources have scores.
/// - `ceiling.npy` has the largest possible keyword score of each query.
/// - `scope.npy` has the model's score of each query alone, infinite without one.
/// - `ids.json` has the ids of the tools and of the queries.
pub(super) fn write(
    folder: &Path,
    engine: &Engine,
    queries: &QuerySet,
    options: &PickOptions,
) -> anyhow::Result<()> {
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    let tools = engine.catalog().tools()?;
    let mut files = SignalFiles {
        folder,
        shape: [queries.len(), tools.len()],
        files: Vec::new(),
    };
    let (mut ceilings, mut scopes) = (Vec::new(), Vec::new());
    let bar = progress_bar("writing signals");
    bar.set_length(queries.len() as u64);
    for (row, query) in queries.iter().enumerate() {
        let signals = engine.retriever_scores(&query.query(), options)?;
        for signal in &signals {
            if signal.retriever == Retriever::Keyword {
                ceilings.resize(row, 0.0);
                ceilings.push(signal.ceiling);
            }
            if let Some(scope) = signal.scope {
                scopes.resize(row, f32::INFINITY);
                scopes.push(scope);
            }
        }
        files.write_row(row, &signals)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    files.write_column("ceiling", ceilings, 0.0)?;
    files.write_column("scope", scopes, f32::INFINITY)?;
    files.finish()?;
    let tools: Vec<&str> = tools.iter().map(|tool| tool.id.as_str()).collect();
    let queries: Vec<&str> = queries.iter().map(|query| query.id.as_str()).collect();
    Ok(write_atomically(
        &folder.join("ids.json"),
        &serde_json::to_vec(&(tools, queries))?,
    )?)
}

/// The files of a folder by their names, without the extension.
struct SignalFiles<'a> {
    folder: &'a Path,
    /// The number of queries and of tools.
    shape: [usize; 2],
    files: Vec<(String, NpyFile)>,
}

impl SignalFiles<'_> {
    /// Writes the scores of one query. The row of a retriever without scores is zero.
    fn write_row(&mut self, row: usize, signals: &[RetrieverScores]) -> anyhow::Result<()> {
        for signal in signals {
            let name = signal.retriever.name();
            self.open_scores(name.to_owned(), row)?;
            if signal.sources.is_some() {
                self.open_scores(format!("{name}{SOURCES}"), row)?;
            }
        }
        let [_, tools] = self.shape;
        for (name, file) in &mut self.files {
            match find_scores(signals, name) {
                Some(scores) => file.write(scores)?,
                None => file.write(&vec![0.0; tools])?,
            }
        }
        Ok(())
    }

    /// Creates a file of scores unless it exists.
    fn open_scores(&mut self, name: String, row: usize) -> anyhow::Result<()> {
        if self.files.iter().any(|(known, _)| *known == name) {
            return Ok(());
        }
        let mut file = self.create(&name, &self.shape)?;
        // The retriever had no scores for the earlier queries.
        let [_, tools] = self.shape;
        file.write(&vec![0.0; row * tools])?;
        self.files.push((name, file));
        Ok(())
    }

    /// Writes a file with one value per query, unless there are no values. `missing` is the value
    /// of the last queries if they have none.
    fn write_column(
        &mut self,
        name: &str,
        mut values: Vec<f32>,
        missing: f32,
    ) -> anyhow::Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        let [queries, _] = self.shape;
        values.resize(queries, missing);
        let mut file = self.create(name, &[queries])?;
        file.write(&values)?;
        self.files.push((name.to_owned(), file));
        Ok(())
    }

    fn create(&self, name: &str, shape: &[usize]) -> anyhow::Result<NpyFile> {
        NpyFile::create(&self.folder.join(format!("{name}.npy")), shape)
    }

    fn finish(self) -> anyhow::Result<()> {
        for (name, file) in self.files {
            file.finish()
                .with_context(|| format!("cannot write {name}.npy to {}", self.folder.display()))?;
        }
        Ok(())
    }
}

/// Returns the scores that the file with this name contains.
fn find_scores<'a>(signals: &'a [RetrieverScores], name: &str) -> Option<&'a Vec<f32>> {
    let (retriever, is_sources) = match name.strip_suffix(SOURCES) {
        Some(retriever) => (retriever, true),
        None => (name, false),
    };
    let signal = signals
        .iter()
        .find(|signal| signal.retriever.name() == retriever)?;
    if is_sources {
        signal.sources.as_ref()
    } else {
        Some(&signal.scores)
    }
}

/// A NumPy file (version 1.0) of an f32 array: little-endian, last index fastest.
struct NpyFile(BufWriter<File>);

impl NpyFile {
    fn create(path: &Path, shape: &[usize]) -> anyhow::Result<Self> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut file = BufWriter::new(file);
        let shape: String = shape.iter().map(|length| format!("{length},")).collect();
        let mut header =
            format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape}), }}");
        // Magic, version, length and header together fill a multiple of 64 bytes. The header ends
        // with a line feed.
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
