//! The model of tables and charts of the page.

use std::borrow::Cow;
use std::fmt::Display;

/// The content of a cell.
pub(super) enum CellContent {
    Text(String),
    /// A request with its id.
    Request {
        text: String,
        id: String,
    },
    /// Tools with their ranks, and the number of further tools.
    Relevant {
        tools: Vec<(String, String)>,
        more: usize,
    },
    /// Tools, each with `true` if it is relevant.
    Picks(Vec<(String, bool)>),
}

/// A cell of a [`Table`].
pub(super) struct Cell {
    pub(super) content: CellContent,
    pub(super) class: &'static str,
}

impl Cell {
    /// Creates a cell that is aligned to the left.
    pub(super) fn new(content: CellContent) -> Self {
        Self { content, class: "" }
    }

    /// Creates a name, aligned to the left.
    pub(super) fn name(text: &str) -> Self {
        Self::new(CellContent::Text(text.to_owned()))
    }

    /// Creates a figure, aligned to the right.
    pub(super) fn figure(text: impl Display) -> Self {
        Self {
            content: CellContent::Text(text.to_string()),
            class: "figure",
        }
    }

    /// Creates the best figure of its row.
    pub(super) fn best(text: impl Display) -> Self {
        Self {
            class: "figure best",
            ..Self::figure(text)
        }
    }

    /// Creates a difference, aligned to the right and coloured by its sign.
    pub(super) fn difference(value: f64) -> Self {
        let text = format!("{value:+.4}");
        let class = match text.as_str() {
            "+0.0000" | "-0.0000" => "figure",
            text if text.starts_with('+') => "figure won",
            _ => "figure lost",
        };
        Self {
            class,
            ..Self::figure(text.replace('-', "−"))
        }
    }
}

/// A row of a [`Table`]; its first cell names it.
pub(super) struct TableRow {
    pub(super) cells: Vec<Cell>,
    /// `true` if the row sums up the others.
    pub(super) sums: bool,
}

/// A table.
pub(super) struct Table {
    head: Vec<String>,
    pub(super) rows: Vec<TableRow>,
}

/// The header of a column.
pub(super) struct Column<'a> {
    pub(super) name: &'a str,
    pub(super) is_figure: bool,
}

impl Table {
    pub(super) fn new<S: AsRef<str>>(head: impl IntoIterator<Item = S>) -> Self {
        Self {
            head: head
                .into_iter()
                .map(|name| name.as_ref().to_owned())
                .collect(),
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(TableRow { cells, sums: false });
    }

    /// Adds a row that sums up the others.
    pub(super) fn sum(&mut self, cells: Vec<Cell>) {
        self.rows.push(TableRow { cells, sums: true });
    }

    /// Returns the headers. A column is aligned as its first cell.
    pub(super) fn columns(&self) -> Vec<Column<'_>> {
        let first_row = self.rows.first();
        let mut columns = Vec::new();
        for (index, name) in self.head.iter().enumerate() {
            let first_cell = first_row.and_then(|row| row.cells.get(index));
            columns.push(Column {
                name,
                is_figure: first_cell.is_some_and(|cell| cell.class.starts_with("figure")),
            });
        }
        columns
    }
}

/// A chart as SVG without its opening tag.
pub(super) struct Chart {
    /// The text alternative.
    pub(super) title: String,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) drawing: String,
}

/// A chart, and a table of its figures.
pub(super) struct ChartWithTable {
    pub(super) chart: Chart,
    pub(super) table: Table,
}

/// Spells out control characters and characters that set the direction of text. Line ends and tabs
/// become spaces.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' | '\n' | '\r' => plain.push(' '),
            c if is_odd(c) => plain.extend(c.escape_unicode()),
            c => plain.push(c),
        }
    }
    Cow::Owned(plain)
}

fn is_odd(c: char) -> bool {
    let is_direction_mark = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    // Zero-width characters, line separators, and the byte order mark.
    let is_invisible = matches!(
        c,
        '\u{200b}'..='\u{200d}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{2060}'
            | '\u{feff}'
            | '\u{fffe}'..='\u{ffff}'
    );
    c.is_control() || is_direction_mark || is_invisible
}

/// Returns the first `chars` characters of a text, with an ellipsis if it was cut.
pub(super) fn cut(text: &str, chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}
