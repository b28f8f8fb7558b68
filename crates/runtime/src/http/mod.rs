//! Tools that call operations of HTTP APIs.

mod addresses;
mod answer;
mod credential;
mod credentials;
mod error;
mod multipart;
mod request;
mod styles;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use reqwest::Client;

use self::addresses::{AddressPolicy, CheckedResolver};
use self::error::HttpCallError;
use self::request::RequestTarget;
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
/// The most characters of the cause of a failed request.
const MAX_ERROR_CHARS: usize = 500;

type Variable = dyn Fn(&str) -> Option<String> + Send + Sync;

/// The options for calling operations.
///
/// Credentials come from variables. The scheme `bearerAuth` of the source `github` uses
/// `PICKTOOLS_AUTH_GITHUB_BEARERAUTH`, unless [`credentials`](Self::credentials) names another
/// variable. The name is in capitals, with `_` in place of all but letters and digits. The variable
/// contains the token, the key, or `user:password` for `basic`.
///
/// A credential goes to the host of the definition. If the operations that use a credential have
/// several hosts, it goes only to the hosts in `PICKTOOLS_HOSTS_GITHUB`, separated by commas. If a
/// document names no server, `PICKTOOLS_SERVER_GITHUB` sets it.
pub struct HttpOptions {
    /// Looks up a variable. The default has no variables.
    pub variable: Box<Variable>,
    /// The names of credential variables by `source/scheme`, if they differ from the rule.
    pub credentials: BTreeMap<String, String>,
    /// The hosts that may have loopback, private or other special addresses.
    pub private_hosts: BTreeSet<String>,
    /// `true` if all hosts may have such addresses.
    pub allow_private: bool,
    /// The most bytes that are read of a response's body. The default is 1 MiB.
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
    /// Returns the trimmed value of a variable; `None` if it is empty or not set.
    fn value(&self, variable: &str) -> Option<String> {
        let value = (self.variable)(variable)?;
        let value = value.trim();
        if value.is_empty() {
            return None;
        }
        Some(value.to_owned())
    }
}

/// The HTTP client that the operations of a program share, with the options and the hosts that get
/// credentials.
pub struct HttpClient {
    options: HttpOptions,
    address_policy: Arc<AddressPolicy>,
    client: OnceLock<Result<Client, String>>,
    /// The hosts that would get a credential, by the name of its variable.
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
        let address_policy = Arc::new(AddressPolicy {
            allow_all: options.allow_private,
            hosts,
        });
        Self {
            options,
            address_policy,
            client: OnceLock::new(),
            hosts: Mutex::default(),
        }
    }

    fn client(&self) -> Result<&Client, &String> {
        let make = || {
            // It follows no redirects: the checks apply to this host only.
            let builder = picktools_net::client_builder()?
                // A proxy would resolve names instead of the checked resolver.
                .no_proxy()
                .dns_resolver(CheckedResolver(Arc::clone(&self.address_policy)))
                .connect_timeout(CONNECT_TIMEOUT)
                // A connection belongs to the runtime that opened it, which may be gone at the next
                // call.
                .pool_max_idle_per_host(0);
            builder.build().map_err(|error| error.to_string())
        };
        self.client.get_or_init(make).as_ref()
    }
}

/// A tool that calls an operation of an HTTP API, as [`Tool::http`] describes it.
///
/// Its result has the fields `status`, `content_type` and `body`. The body is parsed if it is JSON,
/// else it is text. Optional fields are `location`, `retry_after`, and `truncated` if the body was
/// longer than the limit.
///
/// Statuses from 400 are a `user_error`, except for 401 and 403, which are a `permission_error`.
/// Statuses from 500 are a `system_error`, and so are redirects, which are not followed.
///
/// ```no_run
/// use std::sync::Arc;
/// use picktools::Catalog;
/// use picktools_runtime::{HttpClient, HttpOptions, HttpTool};
///
/// let catalog = Catalog::open("library.yaml")?;
/// let variable = Box::new(|name: &str| match name {
///     "PICKTOOLS_AUTH_LIBRARY_KEY" => Some("secret".to_owned()),
///     _ => None,
/// });
/// let client = Arc::new(HttpClient::new(HttpOptions { variable, ..HttpOptions::default() }));
/// let mut tools = Vec::new();
/// for tool in catalog.tools()? {
///     tools.extend(HttpTool::new(tool.as_ref().clone(), Arc::clone(&client)));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HttpTool {
    definition: Tool,
    operation: Arc<HttpOperation>,
    client: Arc<HttpClient>,
}

impl HttpTool {
    /// Makes a tool; `None` if the definition has no HTTP operation.
    pub fn new(definition: Tool, client: Arc<HttpClient>) -> Option<Self> {
        let operation = Arc::clone(definition.http.as_ref()?);
        let tool = Self {
            definition,
            operation,
            client,
        };
        if let Ok(target) = tool.target() {
            let mut hosts = lock(&tool.client.hosts);
            for schemes in &tool.operation.security {
                for scheme in schemes.keys() {
                    hosts
                        .entry(tool.credential_variable(scheme))
                        .or_default()
                        .insert(target.authority().to_owned());
                }
            }
        }
        Some(tool)
    }

    fn source(&self) -> &str {
        self.definition.source.as_deref().unwrap_or_default()
    }

    /// Returns the name of the variable with the credential of a security scheme.
    fn credential_variable(&self, scheme: &str) -> String {
        let key = format!("{}/{scheme}", self.source());
        match self.client.options.credentials.get(&key) {
            Some(variable) => variable.clone(),
            None => credential::variable_name(&["PICKTOOLS_AUTH", self.source(), scheme]),
        }
    }

    fn target(&self) -> Result<RequestTarget, HttpCallError> {
        let variable = credential::variable_name(&["PICKTOOLS_SERVER", self.source()]);
        RequestTarget::from_operation(&self.operation, &variable, |name| {
            self.client.options.value(name)
        })
    }

    /// Calls the operation, and converts an error to a result without secrets.
    async fn call(&self, arguments: &serde_json::Value, context: &Context) -> ToolResult {
        let mut secrets = Vec::new();
        match self.request(arguments, context, &mut secrets).await {
            Ok(result) => result,
            Err(HttpCallError {
                kind,
                message,
                suggestion,
            }) => {
                let message = redaction::redact_text(&message, &secrets);
                let failure = ToolResult::failure(kind, message);
                match suggestion {
                    Some(suggestion) => failure.suggest(suggestion),
                    None => failure,
                }
            }
        }
    }

    /// Sends the request and reads the response. Adds the secrets of the request to `secrets`.
    async fn request(
        &self,
        arguments: &serde_json::Value,
        context: &Context,
        secrets: &mut Vec<String>,
    ) -> Result<ToolResult, HttpCallError> {
        let target = self.target()?;
        let host_name = target.url.host_str().unwrap_or_default();
        self.client.address_policy.check_literal(host_name)?;
        let credentials = self.credentials(&target)?;
        for credential in &credentials {
            secrets.extend_from_slice(&credential.secrets);
        }
        let request = request::build(&self.operation, &target, arguments, &credentials)?;
        let client = self.client.client().map_err(|error| {
            let message = format!("cannot create the HTTP client: {error}");
            HttpCallError::new(ErrorType::System, message)
        })?;
        let host = target.authority().to_owned();
        let work = async {
            let response = client
                .execute(request)
                .await
                .map_err(|error| request_error(&host, error))?;
            answer::read_response(response, self.client.options.max_body_bytes, secrets)
                .await
                .map_err(|error| request_error(&host, error))
        };
        waiting::report_while(context, &format!("an answer from {host}"), work).await
    }
}

impl RunnableTool for HttpTool {
    fn definition(&self) -> &Tool {
        &self.definition
    }

    fn run<'a>(&'a self, call: &'a ValidCall, context: &'a Context) -> RunFuture<'a> {
        Box::pin(self.call(call.arguments(), context))
    }
}

/// Converts the error of a request. The message has no URL, because it may contain secrets.
fn request_error(host: &str, error: reqwest::Error) -> HttpCallError {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(&error);
    while let Some(cause) = source {
        if let Some(blocked) = cause.downcast_ref::<addresses::BlockedAddress>() {
            return blocked.to_call_error();
        }
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    let host = marked(host, MAX_NAME_CHARS).into_owned();
    HttpCallError::new(
        ErrorType::System,
        format!("{host} did not answer: {}", marked(&text, MAX_ERROR_CHARS)),
    )
}
