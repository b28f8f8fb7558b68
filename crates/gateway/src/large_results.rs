//! Large results: a model gets the beginning and the end, or the first rows, and reads the rest in
//! pieces.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use picktools::schema::{name_from_pointer_part, pointer_part};
use picktools_provider::Tokenizer;
use picktools_state::keys::random;
use picktools_state::lock;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::naming::{CALL, READ_RESULT};
use crate::refusal::{Code, Refusal};
use crate::results;
use crate::settings::Scan;
use crate::upstream::Owner;

/// The prefix of a resource with a complete result.
pub(crate) const RESULT_PREFIX: &str = "picktools://result/";

/// The most results that are kept, their total size, and the time for which they are kept.
const MAX_RESULTS: usize = 256;
const MAX_TOTAL_BYTES: usize = 64 << 20;
const MAX_AGE: Duration = Duration::from_secs(3600);
/// The size from which tokens are estimated, because counting takes too long.
const MAX_COUNTED_BYTES: usize = 1 << 20;
/// The bytes of a token in an estimate.
const BYTES_PER_TOKEN: usize = 4;
/// The largest distance to a line end at which a text is cut there.
const MAX_LINE_DISTANCE: usize = 400;
/// The most matches of a search in a result, and the bytes around each.
const MAX_MATCHES: usize = 20;
const MATCH_CONTEXT: usize = 200;

/// Complete results of calls that were cut. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct LargeResults(Arc<Mutex<VecDeque<Arc<LargeResult>>>>);

/// A complete result.
#[derive(Debug)]
struct LargeResult {
    id: String,
    owner: Owner,
    text: String,
    /// The server, and the scan of its results.
    upstream: String,
    scan: Scan,
    stored: Instant,
}

/// The caller and the server of a result.
pub(crate) struct ResultOrigin {
    pub(crate) owner: Owner,
    pub(crate) upstream: String,
    pub(crate) scan: Scan,
    /// The schema that a client checks structured content with.
    pub(crate) output_schema: Option<Value>,
}

/// A result after it was cut, if that was necessary.
pub(crate) struct ShortenedResult {
    pub(crate) result: CallToolResult,
    /// The note about the cut for the end of the result; `None` if nothing was cut.
    pub(crate) note: Option<ContentBlock>,
}

impl LargeResults {
    /// Cuts a result as [`shorten`](Self::shorten) does, on a thread for long computations: tokens of
    /// a megabyte take a good part of a second to count. `origin` is called only if the result may be
    /// too long.
    pub(crate) async fn shorten_in_background(
        &self,
        mut result: CallToolResult,
        max_tokens: usize,
        origin: impl FnOnce() -> ResultOrigin,
    ) -> Result<ShortenedResult, Refusal> {
        if certainly_fits(&mut result, max_tokens) {
            return Ok(ShortenedResult { result, note: None });
        }
        let (results, origin) = (self.clone(), origin());
        let shorten = tokio::task::spawn_blocking(move || {
            let note = results.shorten(&mut result, max_tokens, &origin);
            ShortenedResult { result, note }
        });
        shorten.await.map_err(|error| {
            let message = format!("the result cannot be shortened: {error}");
            Refusal::new(Code::UpstreamError, message)
        })
    }

    /// Answers a call as [`read`](Self::read) does, on a thread for long computations.
    pub(crate) async fn read_in_background(
        &self,
        owner: &Owner,
        arguments: &Map<String, Value>,
        max_tokens: usize,
    ) -> Result<CallToolResult, Refusal> {
        let (results, owner, arguments) = (self.clone(), owner.clone(), arguments.clone());
        let read =
            tokio::task::spawn_blocking(move || results.read(&owner, &arguments, max_tokens));
        read.await.unwrap_or_else(|error| {
            let message = format!("the result cannot be read: {error}");
            Err(Refusal::new(Code::UpstreamError, message))
        })
    }

    /// Cuts a result to about `max_tokens`, and keeps the complete text. Returns the note about that
    /// for the end of the result; `None` if nothing was cut.
    pub(crate) fn shorten(
        &self,
        result: &mut CallToolResult,
        max_tokens: usize,
        origin: &ResultOrigin,
    ) -> Option<ContentBlock> {
        let structured = result.structured_content.take();
        let structured_text = structured.as_ref().map(Value::to_string);
        let mut parts = text_parts(result);
        let counts: Vec<usize> = parts.iter().map(|text| count(text)).collect();
        let tokens = counts.iter().sum::<usize>();
        let fits = |text: &String| count(text) <= max_tokens;
        if tokens <= max_tokens && structured_text.as_ref().is_none_or(fits) {
            result.structured_content = structured;
            return None;
        }
        // Most servers have the structured content as text, too.
        let is_repeated = structured.as_ref().is_some_and(|structured| {
            let is_same = |text: &String| {
                serde_json::from_str::<Value>(text).is_ok_and(|value| value == *structured)
            };
            parts.iter().any(|text| is_same(text))
        });
        let mut complete = String::new();
        let mut notes = Vec::new();
        // The first byte of the complete text that is left out.
        let mut first_gap = None;
        let (mut room, mut parts_left) = (max_tokens, parts.len());
        for (text, part_tokens) in parts.iter_mut().zip(counts) {
            if !complete.is_empty() {
                complete.push('\n');
            }
            let start = complete.len();
            complete.push_str(text);
            if tokens <= max_tokens {
                continue;
            }
            let share = room / parts_left.max(1);
            if part_tokens > share {
                let cut = CutText::new(text, part_tokens, share, start);
                **text = cut.text;
                notes.push(cut.note);
                first_gap.get_or_insert(cut.gap);
            }
            room -= part_tokens.min(share);
            parts_left -= 1;
        }
        if let Some((structured, text)) = structured.zip(structured_text) {
            let schema = origin.output_schema.as_ref();
            let (kept, note) = cut_structured(structured, &text, max_tokens, schema);
            if note.is_some() && !is_repeated {
                complete.push('\n');
                first_gap.get_or_insert(complete.len());
                complete.push_str(&text);
            }
            result.structured_content = kept;
            notes.extend(note);
        }
        if notes.is_empty() {
            return None;
        }
        let (what, total) = (notes.join("; "), complete.len());
        let offset = first_gap.unwrap_or_default();
        let text = match self.keep(complete, origin) {
            Some(id) => format!(
                "[This result was cut ({what}). It has {total} bytes. Read more with {READ_RESULT} \
                 (through {CALL} if it is not listed): {{\"id\": \"{id}\", \"offset\": {offset}}}, or \
                 find a place in it with {{\"id\": \"{id}\", \"search\": \"a text\"}}. The complete \
                 text is also the resource {RESULT_PREFIX}{id}.]"
            ),
            None => format!("[This result was cut ({what}). It had {total} bytes.]"),
        };
        Some(ContentBlock::text(text))
    }

    /// Keeps a complete text, and returns its id. Returns `None` if it is too large.
    fn keep(&self, text: String, origin: &ResultOrigin) -> Option<String> {
        if text.len() > MAX_TOTAL_BYTES / 4 {
            return None;
        }
        let id = random().ok()?;
        let mut results = lock(&self.0);
        results.push_back(Arc::new(LargeResult {
            id: id.clone(),
            owner: origin.owner.clone(),
            text,
            upstream: origin.upstream.clone(),
            scan: origin.scan,
            stored: Instant::now(),
        }));
        let total = |results: &VecDeque<Arc<LargeResult>>| {
            let sizes = results.iter().map(|result| result.text.len());
            sizes.sum::<usize>()
        };
        while results.len() > MAX_RESULTS || total(&results) > MAX_TOTAL_BYTES {
            results.pop_front();
        }
        Some(id)
    }

    fn get(&self, owner: &Owner, id: &str) -> Option<Arc<LargeResult>> {
        let mut results = lock(&self.0);
        results.retain(|result| result.stored.elapsed() < MAX_AGE);
        let is_it = |result: &&Arc<LargeResult>| result.id == id && result.owner == *owner;
        results.iter().find(is_it).cloned()
    }

    /// Returns `true` if a result of the caller is kept.
    pub(crate) fn has_any(&self, owner: &Owner) -> bool {
        let mut results = lock(&self.0);
        results.retain(|result| result.stored.elapsed() < MAX_AGE);
        results.iter().any(|result| result.owner == *owner)
    }

    /// Returns the complete text of a result that belongs to the caller, after the scan of its
    /// server.
    pub(crate) fn text(&self, owner: &Owner, id: &str) -> Option<Result<String, Refusal>> {
        let result = self.get(owner, id)?;
        let parts = vec![ContentBlock::text(result.text.clone())];
        let mut scanned = CallToolResult::success(parts);
        if let Err(refusal) = results::scan(&mut scanned, result.scan, &result.upstream) {
            return Some(Err(refusal));
        }
        let parts = text_parts(&mut scanned);
        let texts: Vec<&str> = parts.iter().map(|text| text.as_str()).collect();
        Some(Ok(texts.join("\n")))
    }

    /// Answers a call of [`READ_RESULT`] with at most `max_tokens` of a result.
    pub(crate) fn read(
        &self,
        owner: &Owner,
        arguments: &Map<String, Value>,
        max_tokens: usize,
    ) -> Result<CallToolResult, Refusal> {
        let invalid = |message: String| Refusal::new(Code::InvalidArguments, message);
        let id = arguments.get("id").and_then(Value::as_str).ok_or_else(|| {
            invalid("`id` is missing; give the id of a result that was cut".to_owned())
        })?;
        let id = id.strip_prefix(RESULT_PREFIX).unwrap_or(id);
        let result = self.get(owner, id).ok_or_else(|| {
            invalid(
                "no kept result has this id; results are deleted after an hour, or earlier to make \
                 room, so call the tool again"
                    .into(),
            )
        })?;
        let text = &result.text;
        let (piece, note) = match arguments.get("search").and_then(Value::as_str) {
            Some(search) if !search.trim().is_empty() => find(text, search, max_tokens),
            _ => {
                let offset = match arguments.get("offset") {
                    None | Some(Value::Null) => 0,
                    Some(offset) => whole_number(offset).ok_or_else(|| {
                        invalid("`offset` must be a whole number of bytes".to_owned())
                    })?,
                };
                if offset >= text.len() {
                    let length = text.len();
                    return Err(invalid(format!("`offset` must be less than {length}")));
                }
                let start = text.floor_char_boundary(offset);
                let end = end_of_piece(text, start, max_tokens);
                let next = match end < text.len() {
                    true => format!("the next offset is {end}"),
                    false => "this is the end".to_owned(),
                };
                let note = format!("[bytes {start} to {end} of {}; {next}]", text.len());
                (text[start..end].to_owned(), note)
            }
        };
        let parts = vec![ContentBlock::text(piece), ContentBlock::text(note)];
        let mut answer = CallToolResult::success(parts);
        results::scan(&mut answer, result.scan, &result.upstream)?;
        Ok(answer)
    }
}

/// Returns the definition of [`READ_RESULT`].
pub(crate) fn definition() -> Value {
    json!({
        "name": READ_RESULT,
        "title": "Read a large result",
        "description": "Reads more of a result that was cut. The end of such a result has its id.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "id": {"type": "string", "description": "The id of the result"},
                "offset": {
                    "type": "integer", "minimum": 0, "default": 0,
                    "description": "The byte at which to begin"
                },
                "search": {
                    "type": "string",
                    "description": "A text to look for, instead of an offset"
                }
            },
            "required": ["id"],
            "additionalProperties": false
        },
        "annotations": {"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false}
    })
}

fn whole_number(value: &Value) -> Option<usize> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok()?,
        value => value.as_u64()?,
    };
    usize::try_from(number).ok()
}

/// Counts the tokens of a text, and estimates those of a very large one.
fn count(text: &str) -> usize {
    if text.len() > MAX_COUNTED_BYTES {
        return text.len() / BYTES_PER_TOKEN;
    }
    Tokenizer::O200k.count(text)
}

/// Returns `true` if a result has no more bytes than a number of tokens, of which each has a byte.
fn certainly_fits(result: &mut CallToolResult, max_tokens: usize) -> bool {
    let structured = result.structured_content.as_ref();
    let mut bytes = structured.map_or(0, |structured| structured.to_string().len());
    for text in text_parts(result) {
        bytes += text.len();
    }
    bytes <= max_tokens
}

/// Returns the texts of a result.
fn text_parts(result: &mut CallToolResult) -> Vec<&mut String> {
    let mut parts = Vec::new();
    for part in &mut result.content {
        match part {
            ContentBlock::Text(text) => parts.push(&mut text.text),
            ContentBlock::Resource(resource) => {
                if let ResourceContents::TextResourceContents { text, .. } = &mut resource.resource
                {
                    parts.push(text);
                }
            }
            _ => {}
        }
    }
    parts
}

/// Cuts structured content of this text, and describes the cut. Content that a schema requires stays
/// complete if it would not fit the schema any more, because a client refuses such a result.
fn cut_structured(
    structured: Value,
    text: &str,
    max_tokens: usize,
    output_schema: Option<&Value>,
) -> (Option<Value>, Option<String>) {
    if count(text) <= max_tokens {
        return (Some(structured), None);
    }
    if output_schema.is_none_or(may_lose_items) {
        let mut cut = structured.clone();
        if let Some(Rows { kept, total }) = keep_rows(&mut cut, max_tokens) {
            let note = format!("{kept} of {total} rows of the structured content");
            return (Some(cut), Some(note));
        }
    }
    match output_schema {
        Some(_) => (Some(structured), None),
        None => (None, Some("no structured content".to_owned())),
    }
}

/// A text that was cut.
struct CutText {
    text: String,
    /// A description of the part that is shown, or of the part that is left out.
    note: String,
    /// The first byte of the complete result that is left out.
    gap: usize,
}

impl CutText {
    /// Cuts a text that begins at byte `start` of the complete result: to rows of a JSON list, or
    /// else to its beginning and its end.
    fn new(text: &str, tokens: usize, max_tokens: usize, start: usize) -> Self {
        if let Some((text, Rows { kept, total })) = keep_text_rows(text, max_tokens) {
            return Self {
                text,
                note: format!("{kept} of {total} rows are shown"),
                gap: start,
            };
        }
        // Three quarters are for the beginning.
        let room = text.len() / tokens.max(1) * max_tokens;
        let head = line_start(text, room / 4 * 3);
        let tail = text.ceil_char_boundary(text.len().saturating_sub(room / 4).max(head));
        let (left_out, gap) = (tail - head, start + head);
        Self {
            text: format!(
                "{}\n[… {left_out} bytes left out, from byte {gap} …]\n{}",
                &text[..head],
                &text[tail..]
            ),
            note: format!("{left_out} of {} bytes are left out", text.len()),
            gap,
        }
    }
}

/// Returns the last line start near a position, or the position itself.
fn line_start(text: &str, position: usize) -> usize {
    let position = text.floor_char_boundary(position.min(text.len()));
    match text[..position].rfind('\n') {
        Some(end) if position - end <= MAX_LINE_DISTANCE => end + 1,
        _ => position,
    }
}

/// The rows of a list that are kept.
struct Rows {
    kept: usize,
    total: usize,
}

/// Keeps the first rows of the largest list of a value, as many as fit. Returns `None`, and leaves
/// the value as it is, if it has no such list, or if none or all of the rows fit.
fn keep_rows(value: &mut Value, max_tokens: usize) -> Option<Rows> {
    let pointer = largest_list(value)?;
    let rows = std::mem::take(value.pointer_mut(&pointer)?.as_array_mut()?);
    let total = rows.len();
    let rest = count(&value.to_string());
    let mut kept = 0;
    let mut used = rest;
    for row in &rows {
        used += count(&row.to_string()) + 1;
        if used > max_tokens {
            break;
        }
        kept += 1;
    }
    let fits = rest <= max_tokens && kept > 0 && kept < total;
    let list = value.pointer_mut(&pointer)?.as_array_mut()?;
    list.extend(rows.into_iter().take(if fits { kept } else { total }));
    fits.then_some(Rows { kept, total })
}

/// Returns a JSON text with the first rows of its largest list, as many as fit; `None` as for
/// [`keep_rows`]. The rows are copied as text, so that numbers of more than 64 bits keep their value.
fn keep_text_rows(text: &str, max_tokens: usize) -> Option<(String, Rows)> {
    let value: Value = serde_json::from_str(text).ok()?;
    let pointer = largest_list(&value)?;
    let mut list = text;
    for key in pointer.split('/').skip(1) {
        let key = name_from_pointer_part(key);
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(list).ok()?;
        list = members.get(&key)?.get();
    }
    let list = list.trim();
    let rows: Vec<&RawValue> = serde_json::from_str(list).ok()?;
    let list_start = list.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    let before = text.get(..list_start)?;
    let after = text.get(list_start + list.len()..)?;
    let (rest, total) = (count(before) + count(after) + 1, rows.len());
    let (mut used, mut kept) = (rest, 0);
    for row in &rows {
        used += count(row.get()) + 1;
        if used > max_tokens {
            break;
        }
        kept += 1;
    }
    if rest > max_tokens || kept == 0 || kept == total {
        return None;
    }
    let kept_rows: Vec<&str> = rows[..kept].iter().map(|row| row.get()).collect();
    let text = format!("{before}[{}]{after}", kept_rows.join(","));
    Some((text, Rows { kept, total }))
}

/// Returns the JSON pointer to the list of a value that takes the most bytes, down to three levels.
fn largest_list(value: &Value) -> Option<String> {
    fn visit(value: &Value, pointer: &str, depth: usize, largest: &mut Option<(usize, String)>) {
        match value {
            Value::Array(rows) if rows.len() > 1 => {
                let bytes = value.to_string().len();
                if largest.as_ref().is_none_or(|(most, _)| bytes > *most) {
                    *largest = Some((bytes, pointer.to_owned()));
                }
            }
            Value::Object(members) if depth > 0 => {
                for (key, member) in members {
                    let key = pointer_part(key);
                    visit(member, &format!("{pointer}/{key}"), depth - 1, largest);
                }
            }
            _ => {}
        }
    }
    let mut largest = None;
    visit(value, "", 3, &mut largest);
    largest.map(|(_, pointer)| pointer)
}

/// Returns `true` if a schema has no keyword with which a list may need its last items.
fn may_lose_items(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.iter().all(|(key, value)| {
            !matches!(
                key.as_str(),
                "minItems" | "contains" | "minContains" | "const"
            ) && may_lose_items(value)
        }),
        Value::Array(items) => items.iter().all(may_lose_items),
        _ => true,
    }
}

/// Returns the end of the piece that begins at `start`.
fn end_of_piece(text: &str, start: usize, max_tokens: usize) -> usize {
    // A token has at least one byte and seldom more than eight.
    let mut end = text.floor_char_boundary(start.saturating_add(max_tokens * 8));
    loop {
        let tokens = count(&text[start..end]);
        if tokens <= max_tokens {
            break;
        }
        let bytes = (end - start) * max_tokens / tokens;
        end = text.floor_char_boundary(start + bytes * 9 / 10);
    }
    if end < text.len() {
        let line = line_start(text, end);
        if line > start {
            end = line;
        }
    }
    // Each piece makes progress.
    end.max(text.ceil_char_boundary(start + 1))
}

/// Finds a text, whatever its case, and returns its matches with what is around them, of at most
/// about `max_tokens`.
fn find(text: &str, search: &str, max_tokens: usize) -> (String, String) {
    let folded = text.to_lowercase();
    // The positions in a folded text hold for the text only if both are as long.
    let (searched, needle) = if folded.len() == text.len() {
        (folded.as_str(), search.to_lowercase())
    } else {
        (text, search.to_owned())
    };
    let mut matches = String::new();
    let (mut found_count, mut shown) = (0, 0);
    let mut at = 0;
    while let Some(found) = searched.get(at..).and_then(|rest| rest.find(&needle)) {
        let position = at + found;
        at = position + needle.len();
        found_count += 1;
        if shown < MAX_MATCHES && matches.len() < max_tokens * BYTES_PER_TOKEN {
            shown += 1;
            let start = text.floor_char_boundary(position.saturating_sub(MATCH_CONTEXT));
            let end = text.ceil_char_boundary((at + MATCH_CONTEXT).min(text.len()));
            matches.push_str(&format!("[byte {position}] …{}…\n", &text[start..end]));
        }
    }
    let note = match found_count {
        0 => "[nothing was found]".to_owned(),
        count if count > shown => format!("[the first {shown} of {count} matches]"),
        count => format!("[{count} matches]"),
    };
    (matches, note)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Owner {
        Owner(name.into())
    }

    fn shorten(
        results: &LargeResults,
        result: &mut CallToolResult,
        max_tokens: usize,
        output_schema: Option<&Value>,
    ) -> bool {
        let origin = ResultOrigin {
            owner: owner("a"),
            upstream: "the server \"up\"".to_owned(),
            scan: Scan::Off,
            output_schema: output_schema.cloned(),
        };
        let note = results.shorten(result, max_tokens, &origin);
        let is_cut = note.is_some();
        result.content.extend(note);
        is_cut
    }

    fn text(results: &LargeResults, name: &str, id: &str) -> Option<String> {
        results.text(&owner(name), id)?.ok()
    }

    fn texts(result: &CallToolResult) -> Vec<String> {
        let mut texts = Vec::new();
        for part in &result.content {
            if let ContentBlock::Text(text) = part {
                texts.push(text.text.clone());
            }
        }
        texts
    }

    fn id(result: &CallToolResult) -> String {
        let texts = texts(result);
        let note = texts.last().expect("a note");
        let (_, id) = note.split_once("\"id\": \"").expect("an id");
        id.split('"').next().expect("an id").to_owned()
    }

    fn arguments(value: Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn small_result_stays_as_it_is() {
        let results = LargeResults::default();
        let mut result = CallToolResult::success(vec![ContentBlock::text("short")]);
        result.structured_content = Some(json!({"a": [1, 2]}));
        let before = result.clone();
        assert!(!shorten(&results, &mut result, 100, None));
        assert_eq!(result, before);
    }

    #[test]
    fn long_text_keeps_beginning_and_end_and_is_read_in_pieces() {
        let results = LargeResults::default();
        let lines: Vec<String> = (0..5_000)
            .map(|line| format!("line {line} of the log"))
            .collect();
        let text = lines.join("\n");
        let mut result = CallToolResult::success(vec![ContentBlock::text(text.clone())]);
        assert!(shorten(&results, &mut result, 500, None));
        let shown = &texts(&result)[0];
        assert!(
            shown.starts_with("line 0 of the log\n") && shown.ends_with("line 4999 of the log")
        );
        assert!(count(shown) < 600, "{}", count(shown));
        let id = id(&result);
        let mut read = String::new();
        let mut offset = 0;
        loop {
            let piece = results
                .read(
                    &owner("a"),
                    &arguments(json!({"id": id, "offset": offset})),
                    900,
                )
                .expect("it is kept");
            let texts = texts(&piece);
            assert!(count(&texts[0]) <= 900);
            read.push_str(&texts[0]);
            match texts[1].split_once("next offset is ") {
                Some((_, next)) => offset = next.trim_end_matches(']').parse().expect("a number"),
                None => break,
            }
        }
        assert_eq!(read, text);
        let found = results
            .read(
                &owner("a"),
                &arguments(json!({"id": id, "search": "LINE 4321 OF"})),
                900,
            )
            .expect("it is kept");
        assert!(texts(&found)[0].contains("line 4321 of the log"));
        assert_eq!(self::text(&results, "a", &id), Some(text));
        // Another caller does not get it.
        assert_eq!(self::text(&results, "b", &id), None);
        results
            .read(&owner("b"), &arguments(json!({"id": id})), 900)
            .expect_err("it belongs to another caller");
    }

    #[test]
    fn json_lists_lose_rows_and_stay_json() {
        let rows: Vec<Value> = (0..2_000)
            .map(|row| json!({"id": row, "name": "x"}))
            .collect();
        for (value, pointer) in [
            (json!(rows), ""),
            (json!({"total": 2_000, "items": rows}), "/items"),
            (json!({"data": {"rows": rows}}), "/data/rows"),
        ] {
            let results = LargeResults::default();
            let mut result = CallToolResult::success(vec![ContentBlock::text(value.to_string())]);
            result.structured_content = Some(value.clone()).filter(Value::is_object);
            assert!(shorten(&results, &mut result, 1_000, None));
            let shown: Value = serde_json::from_str(&texts(&result)[0]).expect("JSON");
            let kept = shown
                .pointer(pointer)
                .and_then(Value::as_array)
                .map_or(0, Vec::len);
            assert!((10..500).contains(&kept), "{kept}");
            assert!(texts(&result)[1].contains("of 2000 rows are shown"));
            if let Some(structured) = &result.structured_content {
                assert!(count(&structured.to_string()) <= 1_000);
            }
        }
    }

    #[test]
    fn numbers_of_kept_rows_keep_their_digits() {
        let row = r#"{"id": 123456789012345678901234567890, "rate": 0.1000000000000000000001}"#;
        let rows = vec![row; 1_000].join(", ");
        for text in [
            format!("[{rows}]"),
            format!("{{\"total\": 98765432109876543210987, \"a/b~c\": [{rows}], \"end\": 1}}\n"),
        ] {
            let results = LargeResults::default();
            let mut result = CallToolResult::success(vec![ContentBlock::text(text.clone())]);
            assert!(shorten(&results, &mut result, 1_000, None));
            let shown = &texts(&result)[0];
            assert!(count(shown) <= 1_000, "{}", count(shown));
            assert!(shown.contains(row), "{}", &shown[..200]);
            serde_json::from_str::<Value>(shown).expect("valid JSON");
            assert_eq!(
                shown.contains("98765432109876543210987"),
                text.contains("total")
            );
            assert_eq!(shown.ends_with("\"end\": 1}\n"), text.contains("end"));
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn large_result_is_counted_beside_the_async_threads() {
        let results = LargeResults::default();
        let text = "many words of a result ".repeat(40_000);
        let result = CallToolResult::success(vec![ContentBlock::text(text)]);
        let origin = || ResultOrigin {
            owner: owner("a"),
            upstream: "the server \"up\"".to_owned(),
            scan: Scan::Off,
            output_schema: None,
        };
        let mut shortened = std::pin::pin!(results.shorten_in_background(result, 1_000, origin));
        // The first poll only starts the work.
        let first = futures_util::poll!(&mut shortened);
        assert!(first.is_pending());
        let shortened = shortened.await.expect("it works");
        assert!(shortened.note.is_some());
        let short = CallToolResult::success(vec![ContentBlock::text("short")]);
        let origin = || unreachable!("a short result needs no origin");
        let short = results.shorten_in_background(short, 1_000, origin).await;
        assert!(short.expect("it works").note.is_none());
    }

    #[test]
    fn structured_content_never_contradicts_the_schema() {
        let rows: Vec<u32> = (0..5_000).collect();
        let value = json!({"rows": rows});
        let list = json!({"type": "object", "required": ["rows"],
            "properties": {"rows": {"type": "array", "items": {"type": "integer"}}}});
        let fixed = json!({"type": "object", "required": ["rows"],
            "properties": {"rows": {"type": "array", "minItems": 5_000}}});
        for (schema, is_cut) in [(&list, true), (&fixed, false)] {
            let results = LargeResults::default();
            let mut result = CallToolResult::success(vec![ContentBlock::text("5,000 rows")]);
            result.structured_content = Some(value.clone());
            assert_eq!(shorten(&results, &mut result, 1_000, Some(schema)), is_cut);
            let structured = result
                .structured_content
                .as_ref()
                .expect("the schema requires it");
            let kept = structured["rows"].as_array().map_or(0, Vec::len);
            assert_eq!(kept < 5_000, is_cut, "{kept}");
            if !is_cut {
                assert_eq!(result.content.len(), 1, "nothing is said to be cut");
                continue;
            }
            let complete = self::text(&results, "a", &id(&result)).expect("it is kept");
            assert!(complete.contains("4999"));
        }
        // Without a list and a schema, the text is left.
        let results = LargeResults::default();
        let mut result = CallToolResult::success(Vec::new());
        result.structured_content = Some(json!({"text": "word ".repeat(5_000)}));
        assert!(shorten(&results, &mut result, 1_000, None));
        assert_eq!(result.structured_content, None);
    }

    #[test]
    fn gaps_of_later_parts_are_found_in_the_complete_text() {
        let results = LargeResults::default();
        let text = (0..5_000)
            .map(|line| format!("line {line}\n"))
            .collect::<String>();
        let parts = vec![ContentBlock::text("a short part"), ContentBlock::text(text)];
        let mut result = CallToolResult::success(parts);
        assert!(shorten(&results, &mut result, 500, None));
        let shown = texts(&result);
        assert_eq!(shown[0], "a short part");
        let (head, rest) = shown[1].split_once("\n[… ").expect("a gap");
        let (_, gap) = rest.split_once("from byte ").expect("a position");
        let gap: usize = gap
            .split(' ')
            .next()
            .expect("a number")
            .parse()
            .expect("a number");
        assert!(
            shown[2].contains(&format!("\"offset\": {gap}}}")),
            "{}",
            shown[2]
        );
        let complete = self::text(&results, "a", &id(&result)).expect("it is kept");
        let last = head.lines().last().expect("a line");
        assert!(complete[..gap].trim_end().ends_with(last), "{last}");
    }

    #[test]
    fn kept_results_are_bounded() {
        let results = LargeResults::default();
        let text = "x ".repeat(MAX_TOTAL_BYTES / 16);
        for _ in 0..20 {
            let mut result = CallToolResult::success(vec![ContentBlock::text(text.clone())]);
            assert!(shorten(&results, &mut result, 100, None));
        }
        let kept = lock(&results.0);
        let total: usize = kept.iter().map(|result| result.text.len()).sum();
        assert!(total <= MAX_TOTAL_BYTES && !kept.is_empty(), "{total}");
    }
}
