//! Tables and charts of the page, before they are written.

use std::borrow::Cow;
use std::fmt::Display;

/// What stands in a cell.
pub(super) enum Content {
    Text(String),
    /// A request, and its id.
    Request {
        text: String,
        id: String,
    },
    /// Tools, each with its ranks, and how many more there are.
    Relevant {
        tools: Vec<(String, String)>,
        more: usize,
    },
    /// Tools, and whether each is relevant.
    Picks(Vec<(String, bool)>),
}

/// A cell of a [`Table`].
pub(super) struct Cell {
    pub(super) content: Content,
    pub(super) class: &'static str,
}

impl Cell {
    /// To the left.
    pub(super) fn of(content: Content) -> Self {
        Self { content, class: "" }
    }

    /// A name, to the left.
    pub(super) fn name(text: &str) -> Self {
        Self::of(Content::Text(text.to_owned()))
    }

    /// A figure, to the right.
    pub(super) fn figure(text: impl Display) -> Self {
        Self {
            content: Content::Text(text.to_string()),
            class: "figure",
        }
    }

    /// The best figure of its row.
    pub(super) fn best(text: impl Display) -> Self {
        Self {
            class: "figure best",
            ..Self::figure(text)
        }
    }

    /// A difference, to the right, coloured by its sign.
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
pub(super) struct Row {
    pub(super) cells: Vec<Cell>,
    /// Whether it sums up the others.
    pub(super) sums: bool,
}

/// A table.
pub(super) struct Table {
    head: Vec<String>,
    pub(super) rows: Vec<Row>,
}

/// What stands above a column.
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
        self.rows.push(Row { cells, sums: false });
    }

    /// A row that sums up the others.
    pub(super) fn sum(&mut self, cells: Vec<Cell>) {
        self.rows.push(Row { cells, sums: true });
    }

    /// A column stands as its first cell does.
    pub(super) fn columns(&self) -> Vec<Column<'_>> {
        let first = self
            .rows
            .first()
            .map(|row| row.cells.as_slice())
            .unwrap_or_default();
        let is_figure = |column: usize| {
            first
                .get(column)
                .is_some_and(|cell| cell.class.starts_with("figure"))
        };
        let columns = self.head.iter().enumerate();
        columns
            .map(|(column, name)| Column {
                name,
                is_figure: is_figure(column),
            })
            .collect()
    }
}

/// A chart as SVG, but for its opening tag.
pub(super) struct Chart {
    /// For those who cannot see it.
    pub(super) title: String,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) drawing: String,
}

/// A chart, and its figures.
pub(super) struct Drawn {
    pub(super) chart: Chart,
    pub(super) table: Table,
}

/// Spells out control characters and those that set the direction of text; line ends and tabs
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
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // Zero widths, line separators, and the byte order mark.
    let hides = matches!(c, '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}' | '\u{2060}' | '\u{feff}' | '\u{fffe}'..='\u{ffff}');
    c.is_control() || turns || hides
}

/// The first `chars` characters of a text; what is cut off is marked.
pub(super) fn cut(text: &str, chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}
