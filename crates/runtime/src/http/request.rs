//! Construction of HTTP requests from arguments. No argument can change the host or the structure
//! of the path.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use reqwest::header::{ACCEPT, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Body, Method, Request, Url};
use serde_json::{Map, Value};

use super::credential::{Credential, CredentialPart};
use super::error::HttpCallError;
use super::multipart;
use super::styles::{HttpArgument, percent_encode};
use crate::ErrorType;
use picktools::catalog::http::{ArgumentLocation, HttpOperation};
use picktools::excerpt::{MAX_NAME_CHARS, marked};

const METHODS: [Method; 7] = [
    Method::GET,
    Method::HEAD,
    Method::OPTIONS,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
];
/// The longest URL, in bytes.
const MAX_URL_BYTES: usize = 16 << 10;
/// The longest value of a header, in bytes.
const MAX_HEADER_BYTES: usize = 8 << 10;
/// The media types that are accepted as a response.
const ACCEPTED: &str = "application/json, text/*;q=0.9, */*;q=0.5";
/// The characters that a document may have in a path, but a URL may not.
const NOT_IN_PATHS: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'`')
    .add(b'^')
    .add(b'|')
    .add(b'{')
    .add(b'}');
/// The headers that no argument may set. The client sets them itself, or proxies between the client
/// and the server trust them.
const FORBIDDEN: [&str; 24] = [
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "max-forwards",
    "origin",
    "referer",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
];

/// Returns `true` if an argument must not set a header.
pub(super) fn is_forbidden(name: &HeaderName) -> bool {
    let name = name.as_str();
    let prefixes = ["proxy-", "sec-", "x-forwarded-"];
    FORBIDDEN.contains(&name) || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// The server, path and query of an operation.
pub(super) struct RequestTarget {
    /// The scheme, host and port.
    pub(super) url: Url,
    authority: String,
    /// The path as in the definition, with placeholders.
    path: String,
    query: Option<String>,
}

impl RequestTarget {
    /// Makes the target of an operation. If the document names no server, `server_variable` is the
    /// variable that does.
    pub(super) fn from_operation(
        operation: &HttpOperation,
        server_variable: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, HttpCallError> {
        let full_url = if is_absolute(&operation.url) {
            operation.url.clone()
        } else if operation.url.contains("://") {
            return Err(HttpCallError::definition(
                "the URL of the operation is not an HTTP URL",
            ));
        } else {
            let base = variable(server_variable).unwrap_or_default();
            if !is_absolute(&base) {
                let remedy = format!(
                    "Ask the operator to set {server_variable}, as in https://api.example.org."
                );
                return Err(
                    HttpCallError::definition("the document names no server").suggest(remedy)
                );
            }
            format!(
                "{}/{}",
                base.trim_end_matches('/'),
                operation.url.trim_start_matches('/')
            )
        };
        if full_url
            .chars()
            .any(|c| c.is_control() || c.is_whitespace() || matches!(c, '#' | '\\'))
        {
            return Err(HttpCallError::definition(
                "the URL of the operation contains invalid characters",
            ));
        }
        let host_start = full_url.find("://").map_or(0, |at| at + 3);
        let host_end = match full_url[host_start..].find(['/', '?']) {
            Some(at) => host_start + at,
            None => full_url.len(),
        };
        let (origin, rest) = full_url.split_at(host_end);
        if origin[host_start..].contains(['@', '{', '}', '%']) {
            return Err(HttpCallError::definition(
                "the server in the URL of the operation is not fixed, or contains a user name",
            ));
        }
        let url = Url::parse(origin)
            .map_err(|_| HttpCallError::definition("the URL of the operation names no host"))?;
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (rest, None),
        };
        if query
            .as_ref()
            .is_some_and(|query| query.contains(['{', '}']))
        {
            return Err(HttpCallError::definition(
                "the query in the URL of the operation has placeholders",
            ));
        }
        let host = url.host_str().unwrap_or_default();
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        Ok(Self {
            authority,
            path: path.to_owned(),
            query,
            url,
        })
    }

    /// Returns the host, with the port if it is not the default.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns `true` if the request is encrypted or stays on this machine.
    pub(super) fn is_confidential(&self) -> bool {
        let host = self
            .url
            .host_str()
            .unwrap_or_default()
            .trim_matches(['[', ']']);
        let is_loopback = host == "localhost"
            || host
                .parse()
                .is_ok_and(|address: std::net::IpAddr| address.is_loopback());
        self.url.scheme() == "https" || is_loopback
    }

    /// Returns the path with the arguments in place of its placeholders.
    fn fill_path(&self, arguments: &[HttpArgument<'_>]) -> Result<String, HttpCallError> {
        let mut filled_count = 0;
        let mut segments = Vec::new();
        for template in self.path.split('/') {
            let mut segment = String::new();
            let mut rest = template;
            let mut is_filled = false;
            while let Some((text, placeholder)) = rest.split_once('{') {
                let Some((name, after)) = placeholder.split_once('}') else {
                    return Err(HttpCallError::definition(
                        "the path of the operation has an unmatched `{`",
                    ));
                };
                let Some(argument) = arguments.iter().find(|argument| argument.name() == name)
                else {
                    let name = marked(name, MAX_NAME_CHARS);
                    return Err(HttpCallError::new(
                        ErrorType::Validation,
                        format!("the path needs a value for {name:?}"),
                    ));
                };
                segment.push_str(&encode_path_text(text));
                segment.push_str(&encode_path_argument(argument)?);
                (rest, is_filled, filled_count) = (after, true, filled_count + 1);
            }
            segment.push_str(&encode_path_text(rest));
            let decoded = percent_decode_str(&segment).decode_utf8_lossy();
            if is_filled && matches!(&*decoded, "" | "." | "..") {
                return Err(HttpCallError::new(
                    ErrorType::Validation,
                    "the arguments would change the structure of the path",
                ));
            }
            segments.push(segment);
        }
        let has_placeholder =
            |argument: &HttpArgument<'_>| self.path.contains(&format!("{{{}}}", argument.name()));
        if !arguments.iter().all(has_placeholder) || filled_count < arguments.len() {
            return Err(HttpCallError::definition(
                "the path of the operation has no placeholder for one of the arguments",
            ));
        }
        let path = segments.join("/");
        Ok(if path.is_empty() {
            "/".to_owned()
        } else {
            path
        })
    }
}

/// Returns `true` for an absolute HTTP URL.
fn is_absolute(url: &str) -> bool {
    url.starts_with("http://") || url.starts_with("https://")
}

/// Encodes the fixed text of a path.
fn encode_path_text(text: &str) -> String {
    utf8_percent_encode(text, NOT_IN_PATHS).to_string()
}

/// Encodes an argument for a path. A server that decodes the value twice must not see another path.
fn encode_path_argument(argument: &HttpArgument<'_>) -> Result<String, HttpCallError> {
    let encoded = argument.serialize_simple(percent_encode)?;
    let decoded = percent_decode_str(&encoded).decode_utf8_lossy();
    if decoded.is_empty() {
        return Err(argument.invalid("is empty, but is part of the path"));
    }
    if decoded
        .split(['/', '\\'])
        .any(|part| matches!(part, "." | ".."))
        || decoded.chars().any(char::is_control)
    {
        return Err(argument
            .invalid("must not contain `.` or `..` as a part of a path, or control characters"));
    }
    Ok(encoded)
}

/// Builds the request.
pub(super) fn build(
    operation: &HttpOperation,
    target: &RequestTarget,
    arguments: &Value,
    credentials: &[Credential],
) -> Result<Request, HttpCallError> {
    let Some(method) = METHODS
        .into_iter()
        .find(|method| method.as_str() == operation.method)
    else {
        return Err(HttpCallError::definition(
            "the HTTP method of the operation is not supported",
        ));
    };
    let arguments = locate_arguments(operation, arguments)?;
    let path = target.fill_path(&arguments_in(&arguments, ArgumentLocation::Path))?;
    let mut url = target.url.clone();
    url.set_path(&path);
    if url.path() != path {
        return Err(HttpCallError::definition(
            "the path of the operation is not a valid URL path",
        ));
    }
    let query_arguments = arguments_in(&arguments, ArgumentLocation::Query);
    let query = build_query(operation, target, &query_arguments, credentials)?;
    url.set_query((!query.is_empty()).then_some(&*query));
    if url.as_str().len() > MAX_URL_BYTES {
        return Err(HttpCallError::new(
            ErrorType::Validation,
            "the arguments make a URL that is too long",
        ));
    }
    let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(ACCEPTED))]);
    let header_credentials = credential_names(operation, "header");
    for argument in arguments_in(&arguments, ArgumentLocation::Header) {
        let (name, value) = header(&argument)?;
        if header_credentials
            .iter()
            .any(|credential| name.as_str().eq_ignore_ascii_case(credential))
        {
            return Err(HttpCallError::definition(
                "one of its headers is a credential",
            ));
        }
        headers.insert(name, value);
    }
    let cookie_arguments = arguments_in(&arguments, ArgumentLocation::Cookie);
    let cookies = build_cookies(operation, &cookie_arguments, credentials)?;
    if !cookies.is_empty() {
        let mut value = HeaderValue::from_str(&cookies)
            .map_err(|_| HttpCallError::definition("its cookies cannot be sent"))?;
        value.set_sensitive(true);
        headers.insert(COOKIE, value);
    }
    for credential in credentials {
        if let CredentialPart::Header(name, value) = &credential.part {
            headers.insert(name, value.clone());
        }
    }
    let mut request = Request::new(method, url);
    let fields = arguments_in(&arguments, ArgumentLocation::Field);
    let body_arguments = arguments_in(&arguments, ArgumentLocation::Body);
    if let Some((content_type, body)) = build_body(operation, &fields, body_arguments.first())? {
        headers.insert(CONTENT_TYPE, content_type);
        *request.body_mut() = Some(Body::from(body));
    }
    *request.headers_mut() = headers;
    Ok(request)
}

/// Returns the arguments with their locations. A null argument is sent only in a body.
fn locate_arguments<'a>(
    operation: &'a HttpOperation,
    arguments: &'a Value,
) -> Result<Vec<HttpArgument<'a>>, HttpCallError> {
    let mut located = Vec::new();
    for (argument, value) in arguments.as_object().into_iter().flatten() {
        let definition = operation.arguments.get(argument).ok_or_else(|| {
            let argument = marked(argument, MAX_NAME_CHARS);
            HttpCallError::definition(format!(
                "the definition does not say where the argument {argument:?} goes"
            ))
        })?;
        let is_in_body = matches!(
            definition.place,
            ArgumentLocation::Field | ArgumentLocation::Body
        );
        if !value.is_null() || is_in_body {
            located.push(HttpArgument {
                argument,
                definition,
                value,
            });
        }
    }
    Ok(located)
}

/// Returns the arguments in one part of the request.
fn arguments_in<'a>(
    arguments: &[HttpArgument<'a>],
    location: ArgumentLocation,
) -> Vec<HttpArgument<'a>> {
    let mut selected = Vec::new();
    for argument in arguments {
        if argument.definition.place == location {
            selected.push(*argument);
        }
    }
    selected
}

/// Returns the names of the credentials in one part of the request.
fn credential_names<'a>(operation: &'a HttpOperation, location: &str) -> Vec<&'a str> {
    let mut names = Vec::new();
    for schemes in &operation.security {
        for scheme in schemes.values() {
            if scheme.place.as_deref() == Some(location) {
                names.extend(scheme.name.as_deref());
            }
        }
    }
    names
}

fn build_query(
    operation: &HttpOperation,
    target: &RequestTarget,
    arguments: &[HttpArgument<'_>],
    credentials: &[Credential],
) -> Result<String, HttpCallError> {
    let credential_names = credential_names(operation, "query");
    let is_credential = |name: &str| credential_names.contains(&name);
    let is_parameter = |name: &str| {
        operation.arguments.iter().any(|(argument, definition)| {
            definition.place == ArgumentLocation::Query
                && definition.name.as_ref().unwrap_or(argument) == name
        })
    };
    let mut parts: Vec<String> = Vec::new();
    if let Some(query) = &target.query
        && !query.is_empty()
    {
        parts.push(query.clone());
    }
    for argument in arguments {
        if is_credential(argument.name()) {
            return Err(HttpCallError::definition(
                "one of its parameters is a credential",
            ));
        }
        let pairs = argument.serialize_pairs(|key| is_credential(key) || is_parameter(key))?;
        for (name, value) in pairs {
            parts.push(format!("{name}={value}"));
        }
    }
    for credential in credentials {
        if let CredentialPart::Query(name, value) = &credential.part {
            parts.push(format!(
                "{}={}",
                percent_encode(name),
                percent_encode(value)
            ));
        }
    }
    Ok(parts.join("&"))
}

fn header(argument: &HttpArgument<'_>) -> Result<(HeaderName, HeaderValue), HttpCallError> {
    let name = match HeaderName::from_bytes(argument.name().as_bytes()) {
        Ok(name) if !is_forbidden(&name) => name,
        _ => {
            let name = marked(argument.name(), MAX_NAME_CHARS);
            return Err(HttpCallError::new(
                ErrorType::Security,
                format!("no argument may set the header {name:?}"),
            ));
        }
    };
    let value = argument.serialize_simple(str::to_owned)?;
    let is_plain = value.is_ascii() && value.len() <= MAX_HEADER_BYTES;
    match HeaderValue::from_str(&value) {
        Ok(value) if is_plain => Ok((name, value)),
        _ => Err(argument.invalid("cannot be sent in a header; use ASCII on one line")),
    }
}

fn build_cookies(
    operation: &HttpOperation,
    arguments: &[HttpArgument<'_>],
    credentials: &[Credential],
) -> Result<String, HttpCallError> {
    let credential_names = credential_names(operation, "cookie");
    let mut cookies = Vec::new();
    for argument in arguments {
        if credential_names.contains(&argument.name()) {
            return Err(HttpCallError::definition(
                "one of its cookies is a credential",
            ));
        }
        let is_structure = argument.value.is_array() || argument.value.is_object();
        if is_structure && !argument.is_json() {
            return Err(
                argument.invalid("is a list or an object, which is not supported in cookies")
            );
        }
        for (name, value) in argument.serialize_pairs(|_| false)? {
            cookies.push(format!("{name}={value}"));
        }
    }
    for credential in credentials {
        if let CredentialPart::Cookie(name, value) = &credential.part {
            cookies.push(format!(
                "{}={}",
                percent_encode(name),
                percent_encode(value)
            ));
        }
    }
    Ok(cookies.join("; "))
}

/// Builds the body from its fields, or from the argument that is the complete body.
fn build_body(
    operation: &HttpOperation,
    fields: &[HttpArgument<'_>],
    complete_body: Option<&HttpArgument<'_>>,
) -> Result<Option<(HeaderValue, Vec<u8>)>, HttpCallError> {
    let has_fields = operation
        .arguments
        .values()
        .any(|argument| argument.place == ArgumentLocation::Field);
    if complete_body.is_none() && !has_fields {
        return Ok(None);
    }
    let declared = operation
        .content_type
        .as_deref()
        .unwrap_or("application/json");
    let essence = declared
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let is_any = matches!(&*essence, "*/*" | "application/*");
    let unsupported = || {
        let declared = marked(declared, MAX_NAME_CHARS);
        HttpCallError::definition(format!(
            "a body of the type {declared:?} is not supported: JSON, forms, text and bytes are"
        ))
    };
    let (content_type, body) = if is_any || essence.ends_with("/json") || essence.ends_with("+json")
    {
        let body = match complete_body {
            Some(argument) => argument.value.to_string(),
            None => {
                let mut members = Map::new();
                for field in fields {
                    members.insert(field.name().to_owned(), field.value.clone());
                }
                Value::Object(members).to_string()
            }
        };
        let declared = if is_any { "application/json" } else { declared };
        (declared.to_owned(), body.into_bytes())
    } else if essence == "application/x-www-form-urlencoded" {
        (
            declared.to_owned(),
            build_form(fields, complete_body)?.into_bytes(),
        )
    } else if essence == "multipart/form-data" && complete_body.is_none() {
        multipart::build(fields)?
    } else {
        let Some(argument) = complete_body else {
            return Err(unsupported());
        };
        let Value::String(text) = argument.value else {
            return Err(unsupported());
        };
        (declared.to_owned(), argument.bytes(text)?)
    };
    let content_type = HeaderValue::from_str(&content_type).map_err(|_| unsupported())?;
    Ok(Some((content_type, body)))
}

fn build_form(
    fields: &[HttpArgument<'_>],
    complete_body: Option<&HttpArgument<'_>>,
) -> Result<String, HttpCallError> {
    let mut parts = Vec::new();
    for argument in fields.iter().chain(complete_body) {
        // A null field is not sent. An object as a field needs a style.
        if argument.value.is_null() {
            continue;
        }
        if argument.value.is_object()
            && argument.definition.place == ArgumentLocation::Field
            && argument.definition.style.is_none()
        {
            return Err(argument.invalid("is an object, which is not supported in forms"));
        }
        for (name, value) in argument.serialize_pairs(|_| false)? {
            parts.push(format!("{name}={value}"));
        }
    }
    Ok(parts.join("&"))
}
