//! Numbered lines of a file, as many as fit into a token budget.

use std::io::{self, BufRead};

use picktools_provider::Tokenizer;
use picktools_runtime::Context;

/// The most bytes of one line in a result.
const MAX_LINE_BYTES: usize = 4_000;
/// The tokens that are reserved for the last notes of a result.
const RESERVED_TOKENS: usize = 40;

/// The remaining size of a result, in tokens of `o200k_base`.
pub(super) struct ReadBudget {
    tokens: usize,
}

impl ReadBudget {
    pub(super) fn new(tokens: usize) -> Self {
        Self {
            tokens: tokens - RESERVED_TOKENS.min(tokens / 4),
        }
    }

    /// Takes the tokens of a line. If it does not fit, nothing fits any more.
    fn take_line(&mut self, line: &str) -> bool {
        let tokens = Tokenizer::O200k.count(line);
        let fits = tokens <= self.tokens;
        self.tokens = if fits { self.tokens - tokens } else { 0 };
        fits
    }

    /// Takes the tokens of a heading or a note, which is always shown.
    pub(super) fn take_note(&mut self, note: &str) {
        self.tokens = self.tokens.saturating_sub(Tokenizer::O200k.count(note));
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.tokens == 0
    }
}

/// The lines of a file that a call reads.
#[derive(Clone, Copy)]
pub(super) struct LineRange {
    /// The number of the first line, from 1.
    pub(super) offset: usize,
    /// The most lines; `None` for all.
    pub(super) limit: Option<usize>,
}

/// The reason for which no more lines follow. `next` is the number of the next line.
pub(super) enum StopReason {
    /// The end of the file.
    End,
    /// The file has fewer lines than the first one that was wanted.
    Beyond { lines: usize },
    /// The limit of the call.
    Limit { next: usize },
    /// The token budget.
    Budget { next: usize },
}

/// A line that may be cut.
struct Line {
    text: Vec<u8>,
    /// The number of bytes that are cut off.
    cut_bytes: usize,
}

/// Appends a range of lines to `content`, each after its number (six wide) and a tab.
pub(super) fn append(
    mut reader: impl BufRead,
    range: LineRange,
    budget: &mut ReadBudget,
    content: &mut String,
    context: &Context,
) -> io::Result<StopReason> {
    let LineRange { offset, limit } = range;
    let last = match limit {
        Some(limit) => offset.saturating_add(limit - 1),
        None => usize::MAX,
    };
    let mut number = 0;
    while let Some(line) = next_line(&mut reader, context)? {
        number += 1;
        if number < offset {
            continue;
        }
        if number > last {
            return Ok(StopReason::Limit { next: number });
        }
        let mut numbered = format!("{number:6}\t{}", String::from_utf8_lossy(&line.text));
        if line.cut_bytes > 0 {
            numbered.push_str(&format!("… [{} more bytes of the line]", line.cut_bytes));
        }
        numbered.push('\n');
        if !budget.take_line(&numbered) {
            return Ok(StopReason::Budget { next: number });
        }
        content.push_str(&numbered);
    }
    if number < offset && offset > 1 {
        return Ok(StopReason::Beyond { lines: number });
    }
    Ok(StopReason::End)
}

/// Reads the next line without its end. Only its first [`MAX_LINE_BYTES`] bytes are stored.
fn next_line(reader: &mut impl BufRead, context: &Context) -> io::Result<Option<Line>> {
    let mut line = Line {
        text: Vec::new(),
        cut_bytes: 0,
    };
    let mut has_bytes = false;
    loop {
        if context.is_cancelled() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let buffer = match reader.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if buffer.is_empty() {
            return Ok(has_bytes.then_some(line.cleaned()));
        }
        has_bytes = true;
        let end = buffer.iter().position(|&byte| byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let stored = part.len().min(MAX_LINE_BYTES - line.text.len());
        line.text.extend_from_slice(&part[..stored]);
        line.cut_bytes += part.len() - stored;
        let consumed = part.len() + usize::from(end.is_some());
        reader.consume(consumed);
        if end.is_some() {
            return Ok(Some(line.cleaned()));
        }
    }
}

impl Line {
    /// Removes the carriage return at the end and an incomplete last character.
    fn cleaned(mut self) -> Self {
        if self.cut_bytes == 0 && self.text.ends_with(b"\r") {
            self.text.pop();
        }
        if self.cut_bytes > 0
            && let Err(error) = std::str::from_utf8(&self.text)
            && error.error_len().is_none()
        {
            self.cut_bytes += self.text.len() - error.valid_up_to();
            self.text.truncate(error.valid_up_to());
        }
        // On a terminal, a carriage return inside the line would overwrite its number.
        for byte in &mut self.text {
            if *byte == b'\r' {
                *byte = b' ';
            }
        }
        self
    }
}
