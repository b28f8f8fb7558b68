//! Resources, prompts and completions of upstreams: whose they are, and how they are asked for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use picktools::excerpt::marked;
use picktools_mcp::Connection;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResult, CompleteRequestParams, CompleteResult, ContentBlock, GetPromptRequestParams,
    GetPromptResult, Prompt, PromptReference, ReadResourceRequestParams, ReadResourceResult,
    Reference, Resource, ResourceContents, ResourceTemplate, ResultType, SubscribeRequestParams,
    UnsubscribeRequestParams,
};
use rmcp::service::ServiceError;
use tokio::sync::mpsc;
use tokio::time::timeout_at;

use crate::naming;
use crate::settings::{Names, Share};
use crate::upstream::{Client, Lease, Owner, Upstream};

/// How an address of a resource begins here; its upstream and its own address follow.
const SCHEME: &str = "picktools://";
/// How long an upstream may take to list what it has.
const LIST: Duration = Duration::from_secs(5);
/// The most that is taken of the list of one upstream, and the longest address.
const MAX_LISTED: usize = 2_000;
const MAX_URI_BYTES: usize = 2_048;

/// Returns the address here of what an upstream calls `uri`.
pub(crate) fn shown_uri(names: Names, source: &str, uri: &str) -> String {
    match names {
        Names::Bare => uri.to_owned(),
        _ => format!("{SCHEME}{}/{uri}", encoded(source)),
    }
}

/// The name of an upstream within an address.
fn encoded(source: &str) -> String {
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

/// Puts addresses of an upstream's result into those that it has here.
pub(crate) fn qualify(result: &mut CallToolResult, names: Names, source: &str) {
    result
        .content
        .iter_mut()
        .for_each(|part| qualify_part(part, names, source));
}

fn qualify_part(part: &mut ContentBlock, names: Names, source: &str) {
    match part {
        ContentBlock::ResourceLink(link) => link.uri = shown_uri(names, source, &link.uri),
        ContentBlock::Resource(embedded) => qualify_contents(&mut embedded.resource, names, source),
        _ => {}
    }
}

fn qualify_contents(contents: &mut ResourceContents, names: Names, source: &str) {
    if let ResourceContents::TextResourceContents { uri, .. }
    | ResourceContents::BlobResourceContents { uri, .. } = contents
    {
        *uri = shown_uri(names, source, uri);
    }
}

/// The upstreams that a client may see, and how their things are called.
pub(crate) struct Carried {
    pub(crate) names: Names,
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    pub(crate) owner: Owner,
    pub(crate) share: Share,
    pub(crate) client: Client,
}

/// What was listed, and of which upstreams it is missing.
pub(crate) struct Listed<T> {
    pub(crate) items: Vec<T>,
    pub(crate) missing: Vec<String>,
}

impl Carried {
    /// Asks each upstream that has such things for them.
    async fn list<T, F>(
        &self,
        has: impl Fn(&rmcp::model::ServerCapabilities) -> bool,
        ask: impl Fn(Arc<Connection>) -> F,
        show: impl Fn(&str, T) -> Option<T>,
    ) -> Listed<T>
    where
        F: Future<Output = Result<Vec<T>, ServiceError>>,
    {
        let deadline = Instant::now() + LIST;
        let asked = self.upstreams.iter().map(|upstream| {
            let (has, ask) = (&has, &ask);
            async move {
                let connection = upstream.listing(deadline).await.map_err(|_| ())?;
                if !connection
                    .peer()
                    .peer_info()
                    .is_some_and(|info| has(&info.capabilities))
                {
                    return Ok(Vec::new());
                }
                timeout_at(deadline.into(), ask(connection))
                    .await
                    .map_err(|_| ())?
                    .map_err(|_| ())
            }
        });
        let answers = futures_util::future::join_all(asked).await;
        let mut listed = Listed {
            items: Vec::new(),
            missing: Vec::new(),
        };
        for (upstream, answer) in self.upstreams.iter().zip(answers) {
            let source = &upstream.server.name;
            match answer {
                Ok(items) => {
                    listed.items.extend(
                        items
                            .into_iter()
                            .take(MAX_LISTED)
                            .filter_map(|item| show(source, item)),
                    );
                }
                Err(()) => listed.missing.push(source.clone()),
            }
        }
        listed
    }

    pub(crate) async fn resources(&self) -> Listed<Resource> {
        let ask = |connection: Arc<Connection>| async move {
            connection.peer().list_all_resources().await
        };
        let show = |source: &str, mut resource: Resource| {
            resource.uri = shown_uri(self.names, source, &resource.uri);
            (resource.uri.len() <= MAX_URI_BYTES).then_some(resource)
        };
        self.list(|capabilities| capabilities.resources.is_some(), ask, show)
            .await
    }

    pub(crate) async fn templates(&self) -> Listed<ResourceTemplate> {
        let ask = |connection: Arc<Connection>| async move {
            connection.peer().list_all_resource_templates().await
        };
        let show = |source: &str, mut template: ResourceTemplate| {
            template.uri_template = shown_uri(self.names, source, &template.uri_template);
            (template.uri_template.len() <= MAX_URI_BYTES).then_some(template)
        };
        self.list(|capabilities| capabilities.resources.is_some(), ask, show)
            .await
    }

    pub(crate) async fn prompts(&self) -> Listed<Prompt> {
        let ask =
            |connection: Arc<Connection>| async move { connection.peer().list_all_prompts().await };
        let show = |source: &str, mut prompt: Prompt| {
            if self.names != Names::Bare {
                prompt.name = naming::shown(source, &prompt.name);
            }
            Some(prompt)
        };
        self.list(|capabilities| capabilities.prompts.is_some(), ask, show)
            .await
    }

    /// The upstream of an address, and what it calls it. Read as text, so that nothing within it is
    /// decoded twice.
    fn of_uri(&self, uri: &str) -> Option<(&Arc<Upstream>, String)> {
        if self.names == Names::Bare {
            return Some((self.upstreams.first()?, uri.to_owned()));
        }
        let (source, own) = uri.strip_prefix(SCHEME)?.split_once('/')?;
        let upstream = self
            .upstreams
            .iter()
            .find(|upstream| encoded(&upstream.server.name) == source)?;
        Some((upstream, own.to_owned()))
    }

    /// The upstream of a prompt, and what it calls it.
    async fn of_prompt(&self, name: &str) -> Option<(&Arc<Upstream>, String)> {
        if self.names == Names::Bare {
            return Some((self.upstreams.first()?, name.to_owned()));
        }
        for upstream in &self.upstreams {
            let source = &upstream.server.name;
            if let Some(own) = name.strip_prefix(&format!("{source}__"))
                && naming::shown(source, own) == name
            {
                return Some((upstream, own.to_owned()));
            }
        }
        // A name that was cut is found among those that there are.
        let deadline = Instant::now() + LIST;
        for upstream in &self.upstreams {
            let Ok(connection) = upstream.listing(deadline).await else {
                continue;
            };
            let Ok(Ok(prompts)) =
                timeout_at(deadline.into(), connection.peer().list_all_prompts()).await
            else {
                continue;
            };
            let own = prompts
                .into_iter()
                .find(|prompt| naming::shown(&upstream.server.name, &prompt.name) == name);
            if let Some(prompt) = own {
                return Some((upstream, prompt.name));
            }
        }
        None
    }

    async fn ask<T, F>(
        &self,
        upstream: &Upstream,
        ask: impl FnOnce(Arc<Connection>) -> F,
    ) -> Result<T, ErrorData>
    where
        F: Future<Output = Result<T, ServiceError>>,
    {
        self.ask_and(upstream, ask, |_| {}).await
    }

    /// Asks an upstream, and does something with the place that it is asked on.
    async fn ask_and<T, F>(
        &self,
        upstream: &Upstream,
        ask: impl FnOnce(Arc<Connection>) -> F,
        with: impl FnOnce(&Lease),
    ) -> Result<T, ErrorData>
    where
        F: Future<Output = Result<T, ServiceError>>,
    {
        let deadline = Instant::now() + upstream.rules.call_time();
        let failed = |message: String| ErrorData::internal_error(message, None);
        let lease = upstream
            .lease(&self.owner, self.share, self.client, deadline)
            .await;
        let mut lease = lease.map_err(|refusal| failed(refusal.message))?;
        with(&lease);
        let answer = timeout_at(deadline.into(), ask(Arc::clone(&lease.connection))).await;
        let answer =
            answer.map_err(|_| failed(format!("{} did not answer in time", upstream.shown())))?;
        lease.answered();
        upstream.answered();
        answer.map_err(|error| match error {
            ServiceError::McpError(mut error) => {
                error.message = marked(&error.message, 4_000).into_owned().into();
                error.data = None;
                error
            }
            other => failed(format!(
                "{}: {}",
                upstream.shown(),
                lease.connection.said(&other)
            )),
        })
    }

    pub(crate) async fn read(
        &self,
        mut params: ReadResourceRequestParams,
    ) -> Result<ReadResourceResult, ErrorData> {
        let unknown = || ErrorData::resource_not_found("there is no such resource", None);
        let (upstream, own) = self.of_uri(&params.uri).ok_or_else(unknown)?;
        params.uri = own;
        params.meta = None;
        let mut result = self
            .ask(upstream, |connection| async move {
                connection.peer().read_resource(params).await
            })
            .await?;
        result.result_type = Some(ResultType::COMPLETE);
        result
            .contents
            .iter_mut()
            .for_each(|it| qualify_contents(it, self.names, &upstream.server.name));
        Ok(result)
    }

    /// Subscribes to a resource, or no longer. `updates` is told the addresses that the upstream
    /// has for what changed. Returns the upstream.
    pub(crate) async fn subscribe(
        &self,
        uri: &str,
        updates: Option<mpsc::Sender<String>>,
    ) -> Result<String, ErrorData> {
        let unknown = || ErrorData::resource_not_found("there is no such resource", None);
        let (upstream, own) = self.of_uri(uri).ok_or_else(unknown)?;
        match updates {
            Some(updates) => {
                let ask = |connection: Arc<Connection>| async move {
                    connection
                        .peer()
                        .subscribe(SubscribeRequestParams::new(own))
                        .await
                };
                self.ask_and(upstream, ask, |lease| lease.tell_updates(updates))
                    .await?;
            }
            None => {
                let ask = |connection: Arc<Connection>| async move {
                    connection
                        .peer()
                        .unsubscribe(UnsubscribeRequestParams::new(own))
                        .await
                };
                self.ask(upstream, ask).await?;
            }
        }
        Ok(upstream.server.name.clone())
    }

    pub(crate) async fn prompt(
        &self,
        mut params: GetPromptRequestParams,
    ) -> Result<GetPromptResult, ErrorData> {
        let unknown = || ErrorData::invalid_params("there is no such prompt", None);
        let (upstream, own) = self.of_prompt(&params.name).await.ok_or_else(unknown)?;
        params.name = own;
        params.meta = None;
        let mut result = self
            .ask(upstream, |connection| async move {
                connection.peer().get_prompt(params).await
            })
            .await?;
        let source = &upstream.server.name;
        result.result_type = Some(ResultType::COMPLETE);
        result
            .messages
            .iter_mut()
            .for_each(|message| qualify_part(&mut message.content, self.names, source));
        Ok(result)
    }

    pub(crate) async fn complete(
        &self,
        mut params: CompleteRequestParams,
    ) -> Result<CompleteResult, ErrorData> {
        let unknown = || ErrorData::invalid_params("there is no such prompt or template", None);
        let (upstream, own) = match &params.r#ref {
            Reference::Prompt(PromptReference { name, .. }) => {
                let (upstream, own) = self.of_prompt(name).await.ok_or_else(unknown)?;
                (upstream, Reference::for_prompt(own))
            }
            Reference::Resource(template) => {
                let (upstream, own) = self.of_uri(&template.uri).ok_or_else(unknown)?;
                (upstream, Reference::for_resource(own))
            }
            _ => return Err(unknown()),
        };
        params.r#ref = own;
        params.meta = None;
        let mut result = self
            .ask(upstream, |connection| async move {
                connection.peer().complete(params).await
            })
            .await?;
        result.result_type = Some(ResultType::COMPLETE);
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_upstream_and_is_otherwise_as_it_was() {
        let shown = |source, uri| shown_uri(Names::Qualified, source, uri);
        assert_eq!(
            shown("git", "test://a/{name}?x=1#y"),
            "picktools://git/test://a/{name}?x=1#y"
        );
        assert_eq!(
            shown("My Server", "a:%2F..%2F"),
            "picktools://My%20Server/a:%2F..%2F"
        );
        assert_eq!(shown_uri(Names::Bare, "git", "test://a"), "test://a");
    }
}
