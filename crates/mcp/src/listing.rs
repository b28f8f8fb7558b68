//! The lists of a server, page by page up to a number of items and bytes.

use std::collections::HashSet;
use std::io;

use rmcp::ServiceError;
use rmcp::model::{
    ClientRequest, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest,
    ListToolsRequest, PaginatedRequestParams, ServerResult,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::connection::Connection;

/// The longest cursor of a page, in bytes.
const MAX_CURSOR_BYTES: usize = 8 << 10;

/// The kind of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// The tools.
    Tools,
    /// The resources.
    Resources,
    /// The templates of resources.
    Templates,
    /// The prompts.
    Prompts,
}

/// The limits of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListLimits {
    /// The largest number of pages.
    pub pages: usize,
    /// The largest number of items.
    pub items: usize,
    /// The largest size of all items together, in bytes.
    pub bytes: usize,
}

/// The items of a list.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ItemListing {
    /// The items, unchanged.
    pub items: Vec<Value>,
    /// The reason why items are missing; `None` if the list is complete.
    pub incomplete: Option<String>,
}

impl ListKind {
    fn request(self, cursor: Option<String>) -> ClientRequest {
        let params = Some(PaginatedRequestParams::default().with_cursor(cursor));
        match self {
            Self::Tools => ClientRequest::ListToolsRequest(ListToolsRequest {
                method: Default::default(),
                params,
                extensions: Default::default(),
            }),
            Self::Resources => ClientRequest::ListResourcesRequest(ListResourcesRequest {
                method: Default::default(),
                params,
                extensions: Default::default(),
            }),
            Self::Templates => {
                ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest {
                    method: Default::default(),
                    params,
                    extensions: Default::default(),
                })
            }
            Self::Prompts => ClientRequest::ListPromptsRequest(ListPromptsRequest {
                method: Default::default(),
                params,
                extensions: Default::default(),
            }),
        }
    }

    /// Returns the member of a page with its items.
    fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    /// Returns the items of the kind in words.
    fn noun(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "templates of resources",
            Self::Prompts => "prompts",
        }
    }

    /// Returns the page of an answer. `rmcp` rejects a page with one malformed item; the raw page
    /// still has the others.
    fn page(self, answer: ServerResult) -> Option<Value> {
        let page = match (self, answer) {
            (Self::Tools, ServerResult::ListToolsResult(page)) => json!(page),
            (Self::Resources, ServerResult::ListResourcesResult(page)) => json!(page),
            (Self::Templates, ServerResult::ListResourceTemplatesResult(page)) => json!(page),
            (Self::Prompts, ServerResult::ListPromptsResult(page)) => json!(page),
            (_, ServerResult::CustomResult(page)) => page.0,
            _ => return None,
        };
        page.get(self.member())
            .is_some_and(Value::is_array)
            .then_some(page)
    }
}

impl Connection {
    /// Lists the items of a kind, page by page, up to the limits.
    ///
    /// # Errors
    ///
    /// [`ServiceError`] if the first page does not arrive. If only later items are missing,
    /// [`ItemListing::incomplete`] has the reason.
    pub async fn items(
        &self,
        kind: ListKind,
        limits: &ListLimits,
    ) -> Result<ItemListing, ServiceError> {
        let mut listing = ItemListing::default();
        match self.fetch_items(kind, limits, &mut listing.items).await {
            Ok(()) => {}
            Err(ListFailure::Service(error)) if listing.items.is_empty() => return Err(error),
            Err(ListFailure::Service(error)) => {
                listing.incomplete = Some(self.describe_error(&error));
            }
            Err(ListFailure::Limit(reason)) => listing.incomplete = Some(reason),
        }
        Ok(listing)
    }

    /// Appends the items of all pages to `items`.
    pub(super) async fn fetch_items(
        &self,
        kind: ListKind,
        limits: &ListLimits,
        items: &mut Vec<Value>,
    ) -> Result<(), ListFailure> {
        let mut cursors = Cursors::default();
        let mut cursor = None;
        let mut bytes = 0_usize;
        for _ in 0..limits.pages {
            let answer = self.peer().send_request(kind.request(cursor.take())).await;
            let answer = answer.map_err(ListFailure::Service)?;
            let Some(mut page) = kind.page(answer) else {
                let reason = format!("its answer is not a list of {}", kind.noun());
                return Err(ListFailure::Limit(reason));
            };
            let next = cursors.next(page.get("nextCursor"));
            let mut new_items = match page.get_mut(kind.member()).map(Value::take) {
                Some(Value::Array(new_items)) => new_items,
                _ => Vec::new(),
            };
            if kind == ListKind::Tools {
                self.tools.retain(&mut new_items);
            }
            for item in new_items {
                bytes = bytes.saturating_add(json_bytes(&item));
                if items.len() >= limits.items {
                    let reason = format!("it has more than {} {}", limits.items, kind.noun());
                    return Err(ListFailure::Limit(reason));
                }
                if bytes > limits.bytes {
                    let reason =
                        format!("its {} have more than {} bytes", kind.noun(), limits.bytes);
                    return Err(ListFailure::Limit(reason));
                }
                items.push(item);
            }
            match next.map_err(ListFailure::Limit)? {
                Some(next) => cursor = Some(next),
                None => return Ok(()),
            }
        }
        let reason = format!("its list has more than {} pages", limits.pages);
        Err(ListFailure::Limit(reason))
    }
}

/// The reason why items of a list are missing.
pub(super) enum ListFailure {
    /// A request failed.
    Service(ServiceError),
    /// A page is not valid, or a limit is reached.
    Limit(String),
}

/// The cursors of the pages so far.
#[derive(Default)]
struct Cursors(HashSet<String>);

impl Cursors {
    /// Returns the cursor of the next page; `None` after the last page.
    fn next(&mut self, cursor: Option<&Value>) -> Result<Option<String>, String> {
        let Some(cursor) = cursor.and_then(Value::as_str) else {
            return Ok(None);
        };
        if cursor.is_empty() {
            tracing::warn!(
                target: "picktools::mcp",
                "a list ends with an empty cursor; its last page should have none"
            );
            return Ok(None);
        }
        if cursor.len() > MAX_CURSOR_BYTES {
            return Err(format!(
                "a cursor of its list has more than {MAX_CURSOR_BYTES} bytes"
            ));
        }
        if !self.0.insert(cursor.to_owned()) {
            return Err("its list repeats a cursor, so it has no end".to_owned());
        }
        Ok(Some(cursor.to_owned()))
    }
}

/// Returns the size of a value as JSON.
fn json_bytes(value: &impl Serialize) -> usize {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
}
