//! Conversion of HTML descriptions to plain text.

use html5gum::{Token, Tokenizer};

use picktools::excerpt::cut;

/// The HTML elements of descriptions. Anything else in angle brackets, such as `<id>`, is text.
const ELEMENTS: [&str; 62] = [
    "a",
    "abbr",
    "article",
    "aside",
    "b",
    "big",
    "blockquote",
    "body",
    "br",
    "caption",
    "center",
    "cite",
    "code",
    "col",
    "dd",
    "del",
    "details",
    "dfn",
    "div",
    "dl",
    "dt",
    "em",
    "figure",
    "font",
    "footer",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "html",
    "i",
    "img",
    "ins",
    "kbd",
    "li",
    "main",
    "mark",
    "nav",
    "ol",
    "p",
    "pre",
    "s",
    "samp",
    "section",
    "small",
    "span",
    "strong",
    "sub",
    "summary",
    "sup",
    "table",
    "tbody",
    "td",
    "th",
    "tr",
    "tt",
    "u",
    "ul",
];
/// The elements that do not break a line.
const INLINE: [&str; 24] = [
    "a", "abbr", "b", "big", "cite", "code", "del", "dfn", "em", "font", "i", "ins", "kbd", "mark",
    "s", "samp", "small", "span", "strong", "sub", "sup", "tt", "u", "img",
];
/// The elements whose content is not text.
const HIDDEN: [&str; 2] = ["script", "style"];

/// Returns a description as plain text, without HTML, trailing spaces and empty lines, cut after
/// `chars` characters.
pub(super) fn clean(text: &str, chars: usize) -> String {
    let plain = if text.contains(['<', '&']) {
        without_html(text)
    } else {
        text.to_owned()
    };
    let mut cleaned = String::with_capacity(plain.len());
    for line in plain
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.trim().is_empty())
    {
        if !cleaned.is_empty() {
            cleaned.push('\n');
        }
        cleaned.push_str(if cleaned.is_empty() {
            line.trim_start()
        } else {
            line
        });
    }
    cut(&cleaned, chars).into_owned()
}

fn without_html(html: &str) -> String {
    let mut text = String::with_capacity(html.len());
    let mut hidden = 0_usize;
    for Ok(token) in Tokenizer::new(html) {
        match token {
            Token::String(run) if hidden == 0 => text.push_str(&String::from_utf8_lossy(&run)),
            Token::StartTag(tag) => {
                let name = String::from_utf8_lossy(&tag.name);
                if HIDDEN.contains(&&*name) {
                    hidden += usize::from(!tag.self_closing);
                } else {
                    replace(&mut text, &name, "");
                }
            }
            Token::EndTag(tag) => {
                let name = String::from_utf8_lossy(&tag.name);
                if HIDDEN.contains(&&*name) {
                    hidden = hidden.saturating_sub(1);
                } else {
                    replace(&mut text, &name, "/");
                }
            }
            _ => {}
        }
    }
    text
}

/// Replaces a tag by the white space that separates its text from the next one; keeps a tag that is
/// not HTML.
fn replace(text: &mut String, name: &str, slash: &str) {
    match name {
        name if !ELEMENTS.contains(&name) => text.push_str(&format!("<{slash}{name}>")),
        name if INLINE.contains(&name) => {}
        "td" | "th" => text.push(' '),
        _ => text.push('\n'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_removes_html_and_keeps_similar_text() {
        for (html, text) in [
            (
                "<p>Lists <b>all</b> pets.</p><p>Page by page.</p>",
                "Lists all pets.\nPage by page.",
            ),
            (
                "Removes /pets/<id> &amp; its owner",
                "Removes /pets/<id> & its owner",
            ),
            ("where a < b and b > a", "where a < b and b > a"),
            ("<ul><li>one</li><li>two</li></ul>", "one\ntwo"),
            (
                "<style>p { color: red }</style>shown<!-- hidden -->",
                "shown",
            ),
            ("<script>alert(1)", ""),
            ("  first \r\n\r\n   second  ", "first\n   second"),
            ("<tr><td>a</td><td>b</td></tr>", " a  b"),
        ] {
            assert_eq!(clean(html, 100), text.trim_start(), "{html}");
        }
        assert_eq!(clean("abcdef", 3), "abc…");
    }
}
