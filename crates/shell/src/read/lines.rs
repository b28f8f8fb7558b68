//! Lines with their numbers, as many as fit.

use std::io::{self, BufRead};

use picktools_runtime::Context;

/// The most bytes of one line that are shown.
const MAX_LINE_BYTES: usize = 4_000;
/// Bytes of a token, about: those of English text and of code.
const BYTES_OF_TOKEN: usize = 4;

/// How much may still be shown.
pub(super) struct Budget {
    bytes: usize,
}

impl Budget {
    pub(super) fn new(tokens: usize) -> Self {
        Self {
            bytes: tokens.saturating_mul(BYTES_OF_TOKEN),
        }
    }
}

/// Why no more lines are shown.
pub(super) enum Stopped {
    End,
    /// The caller wanted no more.
    Limit {
        next: usize,
    },
    /// More would not fit.
    Budget {
        next: usize,
    },
}

/// A line: its beginning, and how much more of it there is.
struct Line {
    text: Vec<u8>,
    more: usize,
}

/// Writes lines from the number `offset` on, each behind its number, six wide, and a tab.
pub(super) fn write(
    mut reader: impl BufRead,
    offset: usize,
    limit: Option<usize>,
    budget: &mut Budget,
    content: &mut String,
    context: &Context,
) -> io::Result<Stopped> {
    let last = limit.map_or(usize::MAX, |limit| offset.saturating_add(limit - 1));
    let mut number = 0;
    while let Some(line) = next(&mut reader, context)? {
        number += 1;
        if number < offset {
            continue;
        }
        if number > last {
            return Ok(Stopped::Limit { next: number });
        }
        let mut shown = format!("{number:6}\t{}", String::from_utf8_lossy(&line.text));
        if line.more > 0 {
            shown.push_str(&format!("… [{} more bytes of the line]", line.more));
        }
        shown.push('\n');
        if shown.len() > budget.bytes {
            budget.bytes = 0;
            return Ok(Stopped::Budget { next: number });
        }
        budget.bytes -= shown.len();
        content.push_str(&shown);
    }
    if number < offset && offset > 1 {
        content.push_str(&format!("[it has {number} lines]\n"));
    }
    Ok(Stopped::End)
}

/// The next line, without its end. However long it is, only its beginning is kept.
fn next(reader: &mut impl BufRead, context: &Context) -> io::Result<Option<Line>> {
    let mut line = Line {
        text: Vec::new(),
        more: 0,
    };
    let mut begun = false;
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
            return Ok(begun.then_some(line.ended()));
        }
        begun = true;
        let end = buffer.iter().position(|&byte| byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let kept = part.len().min(MAX_LINE_BYTES - line.text.len());
        line.text.extend_from_slice(&part[..kept]);
        line.more += part.len() - kept;
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            return Ok(Some(line.ended()));
        }
    }
}

impl Line {
    /// The line without the carriage return before its end, and without half a character.
    fn ended(mut self) -> Self {
        if self.more == 0 && self.text.ends_with(b"\r") {
            self.text.pop();
        }
        if self.more > 0
            && let Err(error) = std::str::from_utf8(&self.text)
            && error.error_len().is_none()
        {
            self.more += self.text.len() - error.valid_up_to();
            self.text.truncate(error.valid_up_to());
        }
        // A carriage return by itself would begin the line anew on a terminal, behind another
        // number.
        self.text
            .iter_mut()
            .filter(|byte| **byte == b'\r')
            .for_each(|byte| *byte = b' ');
        self
    }
}
