//! HTML by hand: escaping, and tables.

use std::borrow::Cow;
use std::fmt::{self, Display};

/// A text as HTML shows it: nothing in it is markup, and what would be invisible or turn the text around is spelt out.
pub(super) fn escape(text: &str) -> Escaped<'_> {
    Escaped(text)
}

pub(super) struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in plain(self.0).chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

/// Spells out control characters and those that set the direction of text; line ends and tabs become spaces.
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

/// A cell of a [`Table`], whose content is HTML.
pub(super) struct Cell {
    html: String,
    class: &'static str,
}

impl Cell {
    /// A name, to the left.
    pub(super) fn name(text: &str) -> Self {
        Self { html: escape(text).to_string(), class: "" }
    }

    /// A figure, to the right.
    pub(super) fn figure(text: impl Display) -> Self {
        Self { html: text.to_string(), class: "figure" }
    }

    /// The best figure of its row.
    pub(super) fn best(text: impl Display) -> Self {
        Self { html: text.to_string(), class: "figure best" }
    }

    /// A difference, to the right, coloured by its sign.
    pub(super) fn difference(value: f64) -> Self {
        let text = format!("{value:+.4}");
        let class = match text.as_str() {
            "+0.0000" | "-0.0000" => "figure",
            text if text.starts_with('+') => "figure won",
            _ => "figure lost",
        };
        Self { html: text.replace('-', "−"), class }
    }

    /// HTML that is safe already, to the left.
    pub(super) fn html(html: String) -> Self {
        Self { html, class: "" }
    }
}

/// A table; the first cell of each row names it.
pub(super) struct Table {
    head: Vec<String>,
    rows: Vec<(Vec<Cell>, bool)>,
}

impl Table {
    pub(super) fn new<S: AsRef<str>>(head: impl IntoIterator<Item = S>) -> Self {
        Self { head: head.into_iter().map(|name| escape(name.as_ref()).to_string()).collect(), rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push((cells, false));
    }

    /// A row that sums up the others.
    pub(super) fn sum(&mut self, cells: Vec<Cell>) {
        self.rows.push((cells, true));
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A column stands as its first cell does.
        let classes: Vec<&str> =
            self.rows.first().map(|(cells, _)| cells.iter().map(|cell| cell.class).collect()).unwrap_or_default();
        f.write_str("<div class=\"wide\"><table>\n<thead><tr>")?;
        for (column, name) in self.head.iter().enumerate() {
            let figures = classes.get(column).is_some_and(|class| class.starts_with("figure"));
            let class = if figures { " class=\"figure\"" } else { "" };
            write!(f, "<th scope=\"col\"{class}>{name}</th>")?;
        }
        f.write_str("</tr></thead>\n<tbody>\n")?;
        for (cells, sums) in &self.rows {
            f.write_str(if *sums { "<tr class=\"sum\">" } else { "<tr>" })?;
            for (column, Cell { html, class }) in cells.iter().enumerate() {
                match (column, *class) {
                    (0, "") => write!(f, "<th scope=\"row\">{html}</th>")?,
                    (0, class) => write!(f, "<th scope=\"row\" class=\"{class}\">{html}</th>")?,
                    (_, "") => write!(f, "<td>{html}</td>")?,
                    (_, class) => write!(f, "<td class=\"{class}\">{html}</td>")?,
                }
            }
            f.write_str("</tr>\n")?;
        }
        f.write_str("</tbody>\n</table></div>\n")
    }
}
