//! Tools that are operations of HTTP interfaces.

mod addresses;
mod answer;
mod credentials;
mod request;
mod styles;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use reqwest::Client;

use self::addresses::{Private, Resolver};
use super::context::Context;
use super::lock;
use super::redaction;
use super::result::{ErrorType, ToolResult};
use super::tool::{RunFuture, RunnableTool};
use super::waiting;
use picktools::catalog::Tool;
use picktools::catalog::http::HttpOperation;
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_call::ValidCall;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The most characters that are told of why a request failed.
const MAX_ERROR_CHARS: usize = 500;

type Variable = dyn Fn(&str) -> Option<String> + Send + Sync;

/// How operations are called.
///
/// Credentials are variables: for the scheme `bearerAuth` of the source `github` it is
/// `PICKTOOLS_AUTH_GITHUB_BEARERAUTH` (in capitals, `_` for all but letters and digits), unless
/// [`credentials`](Self::credentials) names another. It holds the token, the key, or
/// `user:password` for `basic`. They go to the host that the definition names: where the operations
/// that would be sent one name several hosts, to those only that `PICKTOOLS_HOSTS_GITHUB` lists,
/// with commas between. Where a document names no server, `PICKTOOLS_SERVER_GITHUB` does.
pub struct HttpOptions {
    /// Looks up a variable; there are none unless told otherwise.
    pub variable: Box<Variable>,
    /// Variables of credentials, by `source/scheme`, where they are not as the rule has them.
    pub credentials: BTreeMap<String, String>,
    /// Hosts that may have addresses of this machine, of private networks, and the like.
    pub private_hosts: BTreeSet<String>,
    /// Whether all hosts may have such addresses.
    pub allow_private: bool,
    /// How much is read of an answer's body, in bytes; 1 MiB unless told otherwise.
    pub max_body_bytes: usize,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            variable: Box::new(|_| None),
            credentials: BTreeMap::new(),
            private_hosts: BTreeSet::new(),
            allow_private: false,
            max_body_bytes: 1 << 20,
        }
    }
}

impl HttpOptions {
    /// The value of a variable; an empty one counts as none.
    fn value(&self, variable: &str) -> Option<String> {
        (self.variable)(variable)
            .map(|value| value.trim().to_owned())
            .filter(|value| !value.is_empty())
    }
}

/// What the operations of a program share: how they are called, and to which hosts credentials go.
pub struct HttpClient {
    options: HttpOptions,
    private: Arc<Private>,
    client: OnceLock<Result<Client, String>>,
    /// The hosts that would be sent a credential, by its variable.
    hosts: Mutex<BTreeMap<String, BTreeSet<String>>>,
}

impl HttpClient {
    /// Makes a client.
    pub fn new(options: HttpOptions) -> Self {
        let hosts = options
            .private_hosts
            .iter()
            .map(|host| host.to_lowercase())
            .collect();
        let private = Arc::new(Private {
            all: options.allow_private,
            hosts,
        });
        Self {
            options,
            private,
            client: OnceLock::new(),
            hosts: Mutex::default(),
        }
    }

    fn client(&self) -> Result<&Client, &String> {
        let make = || {
            // It follows no redirects: what would be sent elsewhere was checked for here.
            let builder = picktools_net::client_builder()?
                // A proxy would look names up in our place.
                .no_proxy()
                .dns_resolver(Resolver(Arc::clone(&self.private)))
                .connect_timeout(CONNECT_TIMEOUT)
                // A connection belongs to the runtime that it was made on, which may be gone at the
                // next call.
                .pool_max_idle_per_host(0);
            builder.build().map_err(|error| error.to_string())
        };
        self.client.get_or_init(make).as_ref()
    }
}

/// Why a request is not sent, or came to nothing.
struct Stop {
    kind: ErrorType,
    message: String,
    suggestion: Option<String>,
}

impl Stop {
    fn new(kind: ErrorType, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            suggestion: None,
        }
    }

    /// The definition cannot be called as it is.
    fn definition(message: impl Into<String>) -> Self {
        Self::new(ErrorType::System, message)
    }

    fn suggest(self, suggestion: impl Into<String>) -> Self {
        Self {
            suggestion: Some(suggestion.into()),
            ..self
        }
    }
}

/// A tool that is an operation of an HTTP interface, as [`Tool::http`] describes it.
///
/// Its result has `status`, `content_type` and `body` (JSON where it is such, else text), and where
/// there are such `location`, `retry_after`, and `truncated` where the body was longer than is
/// read. Statuses from 400 are a `user_error`, 401 and 403 a `permission_error`; those from 500,
/// and redirects, which are not followed, a `system_error`.
///
/// ```no_run
/// use std::sync::Arc;
/// use picktools::Catalog;
/// use picktools_runtime::{HttpClient, HttpOptions, HttpTool};
///
/// let catalog = Catalog::open("library.yaml")?;
/// let variable = Box::new(|name: &str| (name == "PICKTOOLS_AUTH_LIBRARY_KEY").then(|| "secret".to_owned()));
/// let client = Arc::new(HttpClient::new(HttpOptions { variable, ..HttpOptions::default() }));
/// let tools = catalog.tools().iter().filter_map(|tool| HttpTool::new(tool.as_ref().clone(), Arc::clone(&client)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HttpTool {
    definition: Tool,
    operation: Arc<HttpOperation>,
    client: Arc<HttpClient>,
}

impl HttpTool {
    /// Makes a tool; `None` where the definition does not say how it is called over HTTP.
    pub fn new(definition: Tool, client: Arc<HttpClient>) -> Option<Self> {
        let operation = Arc::clone(definition.http.as_ref()?);
        let tool = Self {
            definition,
            operation,
            client,
        };
        if let Ok(target) = tool.target() {
            let mut hosts = lock(&tool.client.hosts);
            for scheme in tool.operation.security.iter().flat_map(BTreeMap::keys) {
                hosts
                    .entry(tool.credential(scheme))
                    .or_default()
                    .insert(target.authority().to_owned());
            }
        }
        Some(tool)
    }

    fn source(&self) -> &str {
        self.definition.source.as_deref().unwrap_or_default()
    }

    /// The variable that holds what a scheme asks for.
    fn credential(&self, scheme: &str) -> String {
        let given = self
            .client
            .options
            .credentials
            .get(&format!("{}/{scheme}", self.source()));
        given
            .cloned()
            .unwrap_or_else(|| credentials::variable(&["PICKTOOLS_AUTH", self.source(), scheme]))
    }

    fn target(&self) -> Result<request::Target, Stop> {
        let variable = credentials::variable(&["PICKTOOLS_SERVER", self.source()]);
        request::Target::of(&self.operation, &variable, |name| {
            self.client.options.value(name)
        })
    }

    async fn called(&self, arguments: &serde_json::Value, context: &Context) -> ToolResult {
        let mut secrets = Vec::new();
        match self.answered(arguments, context, &mut secrets).await {
            Ok(result) => result,
            Err(Stop {
                kind,
                message,
                suggestion,
            }) => {
                let failure = ToolResult::failure(kind, redaction::without(&message, &secrets));
                match suggestion {
                    Some(suggestion) => failure.suggest(suggestion),
                    None => failure,
                }
            }
        }
    }

    async fn answered(
        &self,
        arguments: &serde_json::Value,
        context: &Context,
        secrets: &mut Vec<String>,
    ) -> Result<ToolResult, Stop> {
        let target = self.target()?;
        self.client
            .private
            .permit_literal(target.url.host_str().unwrap_or_default())?;
        let proofs = self.proofs(&target)?;
        secrets.extend(
            proofs
                .iter()
                .flat_map(|proof| proof.secrets.iter().cloned()),
        );
        let request = request::build(&self.operation, &target, arguments, &proofs)?;
        let client = self.client.client();
        let client = client.map_err(|error| {
            Stop::new(
                ErrorType::System,
                format!("no request can be made: {error}"),
            )
        })?;
        let host = target.authority().to_owned();
        let work = async {
            let response = client
                .execute(request)
                .await
                .map_err(|error| failed(&host, error))?;
            answer::read(response, self.client.options.max_body_bytes, secrets)
                .await
                .map_err(|error| failed(&host, error))
        };
        waiting::telling(context, &format!("an answer of {host}"), work).await
    }
}

impl RunnableTool for HttpTool {
    fn definition(&self) -> &Tool {
        &self.definition
    }

    fn run<'a>(&'a self, call: &'a ValidCall, context: &'a Context) -> RunFuture<'a> {
        Box::pin(self.called(call.arguments(), context))
    }
}

/// Why there is no answer, without the URL, which may hold secrets.
fn failed(host: &str, error: reqwest::Error) -> Stop {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(&error);
    while let Some(cause) = source {
        if let Some(refused) = cause.downcast_ref::<addresses::Refused>() {
            return refused.stop();
        }
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    let host = marked(host, MAX_NAME_CHARS).into_owned();
    Stop::new(
        ErrorType::System,
        format!("{host} did not answer: {}", marked(&text, MAX_ERROR_CHARS)),
    )
}
