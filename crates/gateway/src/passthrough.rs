//! Resources, prompts and completions of upstreams, which the gateway passes through.

use std::sync::Arc;
use std::time::{Duration, Instant};

use picktools::excerpt::marked;
use picktools_mcp::{Connection, ItemListing, ListKind, ListLimits};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResult, CompleteRequestParams, CompleteResult, ContentBlock, GetPromptRequestParams,
    GetPromptResult, Prompt, PromptReference, ReadResourceRequestParams, ReadResourceResult,
    Reference, Resource, ResourceContents, ResourceTemplate, ResultType, SubscribeRequestParams,
    UnsubscribeRequestParams,
};
use rmcp::service::ServiceError;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::timeout_at;

use crate::naming;
use crate::refusal::Refusal;
use crate::results;
use crate::settings::{NameStyle, Share};
use crate::text_scan::{self, TextScan, mark};
use crate::upstream::{ClientTraits, Lease, Owner, Upstream};

/// The scheme of a resource address in the gateway; the upstream's name and its own address follow.
const SCHEME: &str = "picktools://";
/// The time that an upstream has for a list.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);
/// The limits of one upstream's list, and the most bytes of an address.
const LIST_LIMITS: ListLimits = ListLimits {
    pages: 100,
    items: 2_000,
    bytes: 4 << 20,
};
const MAX_URI_BYTES: usize = 2_048;

/// Returns the address in the gateway of a resource that an upstream calls `uri`.
pub(crate) fn gateway_uri(names: NameStyle, source: &str, uri: &str) -> String {
    match names {
        NameStyle::Bare => uri.to_owned(),
        _ => format!("{SCHEME}{}/{uri}", encode_source(source)),
    }
}

/// Returns the name of an upstream as part of an address.
fn encode_source(source: &str) -> String {
    source
        .bytes()
        .map(|byte| match byte {
            byte if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) => {
                char::from(byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

/// Replaces the upstream's addresses in a result with those of the gateway.
pub(crate) fn rewrite_uris(result: &mut CallToolResult, names: NameStyle, source: &str) {
    result
        .content
        .iter_mut()
        .for_each(|part| rewrite_part_uris(part, names, source));
}

fn rewrite_part_uris(part: &mut ContentBlock, names: NameStyle, source: &str) {
    match part {
        ContentBlock::ResourceLink(link) => link.uri = gateway_uri(names, source, &link.uri),
        ContentBlock::Resource(embedded) => {
            rewrite_contents_uris(&mut embedded.resource, names, source);
        }
        _ => {}
    }
}

fn rewrite_contents_uris(contents: &mut ResourceContents, names: NameStyle, source: &str) {
    if let ResourceContents::TextResourceContents { uri, .. }
    | ResourceContents::BlobResourceContents { uri, .. } = contents
    {
        *uri = gateway_uri(names, source, uri);
    }
}

/// The upstreams that a client may see, with the naming style.
pub(crate) struct PassthroughCapabilities {
    pub(crate) names: NameStyle,
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    /// The upstreams that have not listed their tools yet, so that nobody can decide about them.
    pub(crate) unlisted: Vec<String>,
    pub(crate) owner: Owner,
    pub(crate) share: Share,
    pub(crate) client: ClientTraits,
}

/// Merged lists of upstreams, and the upstreams whose list is missing or incomplete.
pub(crate) struct MergedListing<T> {
    pub(crate) items: Vec<T>,
    pub(crate) missing: Vec<String>,
}

/// Returns the valid items of a list, and the reason why the others are missing.
fn typed_items<T: DeserializeOwned>(
    listing: ItemListing,
    text_scan: &TextScan,
) -> (Vec<T>, Option<String>) {
    let mut items = Vec::with_capacity(listing.items.len());
    let mut reason = None;
    for mut item in listing.items {
        if let Err(refusal) = text_scan.list_item(&mut item) {
            reason = Some(refusal.message);
            continue;
        }
        match serde_json::from_value(item) {
            Ok(item) => items.push(item),
            Err(error) => reason = Some(format!("an item is not valid: {error}")),
        }
    }
    (items, reason)
}

impl PassthroughCapabilities {
    /// Merges the lists of all upstreams that have the capability.
    async fn list<T: DeserializeOwned>(
        &self,
        has: impl Fn(&rmcp::model::ServerCapabilities) -> bool,
        kind: ListKind,
        show: impl Fn(&str, T) -> Option<T>,
    ) -> MergedListing<T> {
        let deadline = Instant::now() + LIST_TIMEOUT;
        let pending = self.upstreams.iter().map(|upstream| {
            let has = &has;
            async move {
                let connection = upstream
                    .listing_connection(deadline)
                    .await
                    .map_err(|_| ())?;
                if !connection
                    .peer()
                    .peer_info()
                    .is_some_and(|info| has(&info.capabilities))
                {
                    return Ok(ItemListing::default());
                }
                timeout_at(deadline.into(), connection.items(kind, &LIST_LIMITS))
                    .await
                    .map_err(|_| ())?
                    .map_err(|_| ())
            }
        });
        let answers = futures_util::future::join_all(pending).await;
        let mut merged = MergedListing {
            items: Vec::new(),
            missing: self.unlisted.clone(),
        };
        for (upstream, answer) in self.upstreams.iter().zip(answers) {
            let source = &upstream.server.name;
            match answer {
                Ok(listing) => {
                    let incomplete = listing.incomplete.clone();
                    let (items, reason) = typed_items(listing, &upstream.text_scan());
                    if let Some(reason) = incomplete.or(reason) {
                        tracing::warn!(
                            target: "picktools::gateway", server = %source, ?kind, %reason,
                            "incomplete list"
                        );
                        merged.missing.push(source.clone());
                    }
                    let shown = items.into_iter().filter_map(|item| show(source, item));
                    merged.items.extend(shown);
                }
                Err(()) => merged.missing.push(source.clone()),
            }
        }
        merged
    }

    pub(crate) async fn resources(&self) -> MergedListing<Resource> {
        let show = |source: &str, mut resource: Resource| {
            resource.uri = gateway_uri(self.names, source, &resource.uri);
            (resource.uri.len() <= MAX_URI_BYTES).then_some(resource)
        };
        self.list(
            |capabilities| capabilities.resources.is_some(),
            ListKind::Resources,
            show,
        )
        .await
    }

    pub(crate) async fn templates(&self) -> MergedListing<ResourceTemplate> {
        let show = |source: &str, mut template: ResourceTemplate| {
            template.uri_template = gateway_uri(self.names, source, &template.uri_template);
            (template.uri_template.len() <= MAX_URI_BYTES).then_some(template)
        };
        self.list(
            |capabilities| capabilities.resources.is_some(),
            ListKind::Templates,
            show,
        )
        .await
    }

    pub(crate) async fn prompts(&self) -> MergedListing<Prompt> {
        let show = |source: &str, mut prompt: Prompt| {
            if self.names != NameStyle::Bare {
                prompt.name = naming::qualified_name(source, &prompt.name);
            }
            Some(prompt)
        };
        self.list(
            |capabilities| capabilities.prompts.is_some(),
            ListKind::Prompts,
            show,
        )
        .await
    }

    /// Finds the upstream of an address, and the upstream's own address. The text is not decoded,
    /// so nothing in it can be decoded twice.
    fn find_by_uri(&self, uri: &str) -> Option<(&Arc<Upstream>, String)> {
        if self.names == NameStyle::Bare {
            return Some((self.upstreams.first()?, uri.to_owned()));
        }
        let (source, own_uri) = uri.strip_prefix(SCHEME)?.split_once('/')?;
        let upstream = self
            .upstreams
            .iter()
            .find(|upstream| encode_source(&upstream.server.name) == source)?;
        Some((upstream, own_uri.to_owned()))
    }

    /// Finds the upstream of a prompt, and the upstream's own name for it.
    async fn find_by_prompt(&self, name: &str) -> Option<(&Arc<Upstream>, String)> {
        if self.names == NameStyle::Bare {
            return Some((self.upstreams.first()?, name.to_owned()));
        }
        for upstream in &self.upstreams {
            let source = &upstream.server.name;
            if let Some(own_name) = name.strip_prefix(&format!("{source}__"))
                && naming::qualified_name(source, own_name) == name
            {
                return Some((upstream, own_name.to_owned()));
            }
        }
        // A shortened name is looked up in the lists of prompts.
        let deadline = Instant::now() + LIST_TIMEOUT;
        for upstream in &self.upstreams {
            let Ok(connection) = upstream.listing_connection(deadline).await else {
                continue;
            };
            let prompts = connection.items(ListKind::Prompts, &LIST_LIMITS);
            let Ok(Ok(listing)) = timeout_at(deadline.into(), prompts).await else {
                continue;
            };
            let (prompts, _): (Vec<Prompt>, _) = typed_items(listing, &upstream.text_scan());
            let own_name = prompts
                .into_iter()
                .find(|prompt| naming::qualified_name(&upstream.server.name, &prompt.name) == name);
            if let Some(prompt) = own_name {
                return Some((upstream, prompt.name));
            }
        }
        None
    }

    async fn send<T, F>(
        &self,
        upstream: &Upstream,
        request: impl FnOnce(Arc<Connection>) -> F,
    ) -> Result<T, ErrorData>
    where
        F: Future<Output = Result<T, ServiceError>>,
    {
        self.send_with_lease(upstream, request, |_| {}).await
    }

    /// Sends a request to an upstream. `with` gets the lease before the request is sent.
    async fn send_with_lease<T, F>(
        &self,
        upstream: &Upstream,
        request: impl FnOnce(Arc<Connection>) -> F,
        on_lease: impl FnOnce(&Lease),
    ) -> Result<T, ErrorData>
    where
        F: Future<Output = Result<T, ServiceError>>,
    {
        let deadline = Instant::now() + upstream.rules.call_time();
        let internal_error = |message: String| ErrorData::internal_error(message, None);
        let lease = upstream
            .lease(&self.owner, self.share, self.client.clone(), deadline)
            .await;
        let mut lease = lease.map_err(|refusal| internal_error(refusal.message))?;
        on_lease(&lease);
        let answer = timeout_at(deadline.into(), request(Arc::clone(&lease.connection))).await;
        let answer = answer.map_err(|_| {
            internal_error(format!(
                "{} did not answer in time",
                upstream.display_name()
            ))
        })?;
        lease.record_answer();
        upstream.record_answer();
        answer.map_err(|error| match error {
            ServiceError::McpError(mut error) => {
                let message = marked(&error.message, 4_000).into_owned();
                let scanned = upstream.text_scan().text(message);
                error.message = scanned.unwrap_or_else(|refusal| refusal.message).into();
                error.data = None;
                error
            }
            other => internal_error(format!(
                "{}: {}",
                upstream.display_name(),
                lease.connection.describe_error(&other)
            )),
        })
    }

    pub(crate) async fn read_resource(
        &self,
        mut params: ReadResourceRequestParams,
    ) -> Result<ReadResourceResult, ErrorData> {
        let unknown = || ErrorData::resource_not_found("there is no such resource", None);
        let (upstream, own_uri) = self.find_by_uri(&params.uri).ok_or_else(unknown)?;
        params.uri = own_uri;
        params.meta = None;
        let mut result = self
            .send(upstream, |connection| async move {
                connection.peer().read_resource(params).await
            })
            .await?;
        result.result_type = Some(ResultType::COMPLETE);
        result.contents.iter_mut().for_each(|contents| {
            rewrite_contents_uris(contents, self.names, &upstream.server.name);
        });
        scan_resource(&mut result, &upstream.text_scan()).map_err(blocked)?;
        Ok(result)
    }

    /// Subscribes to a resource if `updates` is given, and unsubscribes otherwise. `updates`
    /// receives the upstream's own addresses of changed resources. Returns the upstream's name.
    pub(crate) async fn subscribe(
        &self,
        uri: &str,
        updates: Option<mpsc::Sender<String>>,
    ) -> Result<String, ErrorData> {
        let unknown = || ErrorData::resource_not_found("there is no such resource", None);
        let (upstream, own_uri) = self.find_by_uri(uri).ok_or_else(unknown)?;
        match updates {
            Some(updates) => {
                let request = |connection: Arc<Connection>| async move {
                    connection
                        .peer()
                        .subscribe(SubscribeRequestParams::new(own_uri))
                        .await
                };
                self.send_with_lease(upstream, request, |lease| lease.set_update_channel(updates))
                    .await?;
            }
            None => {
                let request = |connection: Arc<Connection>| async move {
                    connection
                        .peer()
                        .unsubscribe(UnsubscribeRequestParams::new(own_uri))
                        .await
                };
                self.send(upstream, request).await?;
            }
        }
        Ok(upstream.server.name.clone())
    }

    pub(crate) async fn get_prompt(
        &self,
        mut params: GetPromptRequestParams,
    ) -> Result<GetPromptResult, ErrorData> {
        let unknown = || ErrorData::invalid_params("there is no such prompt", None);
        let (upstream, own_name) = self
            .find_by_prompt(&params.name)
            .await
            .ok_or_else(unknown)?;
        params.name = own_name;
        params.meta = None;
        let mut result = self
            .send(upstream, |connection| async move {
                connection.peer().get_prompt(params).await
            })
            .await?;
        let source = &upstream.server.name;
        result.result_type = Some(ResultType::COMPLETE);
        result
            .messages
            .iter_mut()
            .for_each(|message| rewrite_part_uris(&mut message.content, self.names, source));
        scan_prompt(&mut result, &upstream.text_scan()).map_err(blocked)?;
        Ok(result)
    }

    pub(crate) async fn complete(
        &self,
        mut params: CompleteRequestParams,
    ) -> Result<CompleteResult, ErrorData> {
        let unknown = || ErrorData::invalid_params("there is no such prompt or template", None);
        let (upstream, own_reference) = match &params.r#ref {
            Reference::Prompt(PromptReference { name, .. }) => {
                let (upstream, own_reference) =
                    self.find_by_prompt(name).await.ok_or_else(unknown)?;
                (upstream, Reference::for_prompt(own_reference))
            }
            Reference::Resource(template) => {
                let (upstream, own_reference) =
                    self.find_by_uri(&template.uri).ok_or_else(unknown)?;
                (upstream, Reference::for_resource(own_reference))
            }
            _ => return Err(unknown()),
        };
        params.r#ref = own_reference;
        params.meta = None;
        let mut result = self
            .send(upstream, |connection| async move {
                connection.peer().complete(params).await
            })
            .await?;
        scan_completion(&mut result, &upstream.text_scan()).map_err(blocked)?;
        result.result_type = Some(ResultType::COMPLETE);
        Ok(result)
    }
}

/// Converts the refusal of a blocked text.
fn blocked(refusal: Refusal) -> ErrorData {
    ErrorData::invalid_request(refusal.message, None)
}

/// Scans the contents of a resource. Contents with findings get a text in front of them.
fn scan_resource(result: &mut ReadResourceResult, text_scan: &TextScan) -> Result<(), Refusal> {
    text_scan::remove_own_keys(&mut result.meta);
    let mut scanned = Vec::with_capacity(result.contents.len());
    for mut contents in std::mem::take(&mut result.contents) {
        results::remove_own_contents_keys(&mut contents);
        let codes = text_scan.value_codes(&contents)?;
        if !codes.is_empty()
            && let ResourceContents::TextResourceContents { uri, .. }
            | ResourceContents::BlobResourceContents { uri, .. } = &contents
        {
            scanned.push(ResourceContents::text(mark(&codes), uri.clone()));
        }
        scanned.push(contents);
    }
    result.contents = scanned;
    let codes = text_scan.value_codes(&result.meta)?;
    if !codes.is_empty() {
        result.meta = None;
    }
    Ok(())
}

/// Scans the description and the messages of a prompt. A message with findings gets a message in
/// front of it.
fn scan_prompt(result: &mut GetPromptResult, text_scan: &TextScan) -> Result<(), Refusal> {
    text_scan::remove_own_keys(&mut result.meta);
    if let Some(description) = result.description.take() {
        result.description = Some(text_scan.text(description)?);
    }
    let mut scanned = Vec::with_capacity(result.messages.len());
    for mut message in std::mem::take(&mut result.messages) {
        results::remove_own_part_keys(&mut message.content);
        let codes = results::part_codes(&message.content, text_scan)?;
        if !codes.is_empty() {
            let mut marking = message.clone();
            marking.content = ContentBlock::text(mark(&codes));
            scanned.push(marking);
        }
        scanned.push(message);
    }
    result.messages = scanned;
    let codes = text_scan.value_codes(&result.meta)?;
    if !codes.is_empty() {
        result.meta = None;
    }
    Ok(())
}

/// Scans completions. A value cannot have a mark, so a value with findings is left out.
fn scan_completion(result: &mut CompleteResult, text_scan: &TextScan) -> Result<(), Refusal> {
    text_scan::remove_own_keys(&mut result.meta);
    let mut values = Vec::with_capacity(result.completion.values.len());
    for value in std::mem::take(&mut result.completion.values) {
        if text_scan.codes(&value)?.is_empty() {
            values.push(value);
        } else {
            tracing::warn!(target: "picktools::gateway", "a completion with findings was left out");
        }
    }
    result.completion.values = values;
    let codes = text_scan.value_codes(&result.meta)?;
    if !codes.is_empty() {
        result.meta = None;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateway_uri_prefixes_upstream_and_keeps_address() {
        let qualified = |source, uri| gateway_uri(NameStyle::Qualified, source, uri);
        assert_eq!(
            qualified("git", "test://a/{name}?x=1#y"),
            "picktools://git/test://a/{name}?x=1#y"
        );
        assert_eq!(
            qualified("My Server", "a:%2F..%2F"),
            "picktools://My%20Server/a:%2F..%2F"
        );
        assert_eq!(gateway_uri(NameStyle::Bare, "git", "test://a"), "test://a");
    }
}
