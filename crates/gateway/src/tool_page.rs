//! Pages of `tools/list` that consist of stored texts.
//!
//! The protocol library writes a page from values. Parsing and serialising 200 definitions takes
//! most of the time of a page. So the one tool of a [`text_page`] carries the texts of all
//! definitions, and [`write_message`] writes them unchanged.

use std::io;
use std::sync::{Arc, LazyLock};

use rmcp::RoleServer;
use rmcp::model::{JsonObject, JsonRpcMessage, ListToolsResult, ServerResult, Tool};
use rmcp::service::TxJsonRpcMessage;

/// Identifies the tool that carries texts, by its address.
static CARRIER_SCHEMA: LazyLock<Arc<JsonObject>> = LazyLock::new(Arc::default);

/// The end of a page without tools.
const EMPTY_END: &[u8] = b"[]}}";

/// Returns a page with the texts of definitions, separated by commas. Only [`write_message`] may
/// write it.
pub(crate) fn text_page(texts: String) -> ListToolsResult {
    let carrier = Tool::new("", texts, Arc::clone(&CARRIER_SCHEMA));
    ListToolsResult::with_all_items(vec![carrier])
}

/// Writes a message to a client, with the definitions of a [`text_page`] unchanged.
pub(crate) fn write_message(mut message: TxJsonRpcMessage<RoleServer>) -> io::Result<Vec<u8>> {
    let Some(texts) = take_texts(&mut message) else {
        return Ok(serde_json::to_vec(&message)?);
    };
    let mut written = Vec::with_capacity(texts.len() + 256);
    serde_json::to_writer(&mut written, &message)?;
    if !written.ends_with(EMPTY_END) {
        return Err(io::Error::other("a page of tools does not end with them"));
    }
    written.truncate(written.len() - EMPTY_END.len());
    written.push(b'[');
    written.extend_from_slice(texts.as_bytes());
    written.extend_from_slice(b"]}}");
    Ok(written)
}

/// Removes the tool that carries texts from a message, and returns the texts.
fn take_texts(message: &mut TxJsonRpcMessage<RoleServer>) -> Option<String> {
    let JsonRpcMessage::Response(response) = message else {
        return None;
    };
    let ServerResult::ListToolsResult(page) = &mut response.result else {
        return None;
    };
    let is_carrier = |tool: &mut Tool| Arc::ptr_eq(&tool.input_schema, &CARRIER_SCHEMA);
    let carrier = page.tools.pop_if(is_carrier)?;
    Some(carrier.description.unwrap_or_default().into_owned())
}

#[cfg(test)]
mod tests {
    use rmcp::model::RequestId;
    use serde_json::json;

    use super::*;

    fn response(mut page: ListToolsResult) -> TxJsonRpcMessage<RoleServer> {
        page.next_cursor = Some("digest:200".to_owned());
        JsonRpcMessage::response(ServerResult::ListToolsResult(page), RequestId::Number(7))
    }

    #[test]
    fn text_page_is_written_like_the_page_of_values() {
        let definitions = [
            json!({"name": "a", "description": "A \"tool\"", "inputSchema": {"z": 1, "a": []}}),
            json!({"name": "b", "title": "B", "inputSchema": {}, "annotations": {"readOnlyHint": true}}),
        ];
        for count in 0..=definitions.len() {
            let mut texts = Vec::new();
            let mut tools = Vec::new();
            for definition in &definitions[..count] {
                texts.push(definition.to_string());
                tools.push(serde_json::from_value(definition.clone()).expect("a tool"));
            }
            let expected = response(ListToolsResult::with_all_items(tools));
            let written = write_message(response(text_page(texts.join(","))));
            let written = String::from_utf8(written.expect("it is written")).expect("UTF-8");
            assert_eq!(
                written,
                serde_json::to_string(&expected).expect("a message")
            );
        }
    }

    #[test]
    fn other_messages_are_written_by_the_library() {
        let tool = Tool::new("a", "", Arc::new(JsonObject::new()));
        let message = response(ListToolsResult::with_all_items(vec![tool]));
        let expected = serde_json::to_vec(&message).expect("a message");
        assert_eq!(write_message(message).expect("it is written"), expected);
    }
}
