//! From arguments to a request. No argument can change where it goes.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use reqwest::header::{ACCEPT, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Body, Method, Request, Url};
use serde_json::{Map, Value};

use super::Stop;
use super::credentials::{Proof, Sent};
use super::styles::{Given, encoded};
use crate::ErrorType;
use picktools::catalog::http::{HttpOperation, Place, SecurityScheme};
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
/// What an answer may be.
const ACCEPTED: &str = "application/json, text/*;q=0.9, */*;q=0.5";
/// What a document may have in a path that a URL does not.
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
/// Headers that no argument sets: what they say is the client's to say, or what goes between it and
/// the server believes them.
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

/// Whether an argument must not set a header.
pub(super) fn is_forbidden(name: &HeaderName) -> bool {
    let name = name.as_str();
    let prefixes = ["proxy-", "sec-", "x-forwarded-"];
    FORBIDDEN.contains(&name) || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Where an operation is asked.
pub(super) struct Target {
    /// Scheme, host and port.
    pub(super) url: Url,
    authority: String,
    /// What comes behind them, as the definition has it.
    path: String,
    query: Option<String>,
}

impl Target {
    /// Reads where an operation is asked; `server` is the variable that names its server where the
    /// document does not.
    pub(super) fn of(
        operation: &HttpOperation,
        server: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Stop> {
        let is_whole = |url: &str| url.starts_with("http://") || url.starts_with("https://");
        let whole = match is_whole(&operation.url) {
            true => operation.url.clone(),
            false if operation.url.contains("://") => {
                return Err(Stop::definition("its URL is none of HTTP"));
            }
            false => {
                let base = variable(server).filter(|base| is_whole(base)).ok_or_else(|| {
                    let remedy = format!("Whoever runs this program sets {server}, as in https://api.example.org.");
                    Stop::definition("the document names no server").suggest(remedy)
                })?;
                format!(
                    "{}/{}",
                    base.trim_end_matches('/'),
                    operation.url.trim_start_matches('/')
                )
            }
        };
        if whole
            .chars()
            .any(|c| c.is_control() || c.is_whitespace() || matches!(c, '#' | '\\'))
        {
            return Err(Stop::definition(
                "its URL holds characters that a URL does not have",
            ));
        }
        let after = whole.find("://").map_or(0, |at| at + 3);
        let end = whole[after..]
            .find(['/', '?'])
            .map_or(whole.len(), |at| after + at);
        let (origin, rest) = whole.split_at(end);
        if origin[after..].contains(['@', '{', '}', '%']) {
            return Err(Stop::definition(
                "the server of its URL is not fixed, or holds a user name",
            ));
        }
        let url = Url::parse(origin).map_err(|_| Stop::definition("its URL names no host"))?;
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (rest, None),
        };
        if query
            .as_ref()
            .is_some_and(|query| query.contains(['{', '}']))
        {
            return Err(Stop::definition(
                "the query of its URL has places for arguments",
            ));
        }
        let host = url.host_str().unwrap_or_default();
        let authority = url
            .port()
            .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        Ok(Self {
            authority,
            path: path.to_owned(),
            query,
            url,
        })
    }

    /// Host and port.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// Whether nobody between hears what is sent.
    pub(super) fn is_private_to_us(&self) -> bool {
        let host = self
            .url
            .host_str()
            .unwrap_or_default()
            .trim_matches(['[', ']']);
        let here = host == "localhost"
            || host
                .parse()
                .is_ok_and(|address: std::net::IpAddr| address.is_loopback());
        self.url.scheme() == "https" || here
    }

    /// The path with its arguments.
    fn path(&self, given: &[Given<'_>]) -> Result<String, Stop> {
        let mut used = 0;
        let mut segments = Vec::new();
        for segment in self.path.split('/') {
            let mut made = String::new();
            let mut rest = segment;
            let mut is_filled = false;
            while let Some((before, after)) = rest.split_once('{') {
                let (name, after) = after
                    .split_once('}')
                    .ok_or_else(|| Stop::definition("its path has a lone `{`"))?;
                let argument =
                    given
                        .iter()
                        .find(|given| given.name() == name)
                        .ok_or_else(|| {
                            let name = marked(name, MAX_NAME_CHARS);
                            Stop::new(
                                ErrorType::Validation,
                                format!("the path needs a value for {name:?}"),
                            )
                        })?;
                made.push_str(&literal(before));
                made.push_str(&of_path(argument)?);
                (rest, is_filled, used) = (after, true, used + 1);
            }
            made.push_str(&literal(rest));
            let decoded = percent_decode_str(&made).decode_utf8_lossy();
            if is_filled && matches!(&*decoded, "" | "." | "..") {
                return Err(Stop::new(
                    ErrorType::Validation,
                    "the arguments would make a path of another kind",
                ));
            }
            segments.push(made);
        }
        if given
            .iter()
            .any(|given| !self.path.contains(&format!("{{{}}}", given.name())))
            || used < given.len()
        {
            return Err(Stop::definition(
                "its path has no place for one of the arguments",
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

fn literal(text: &str) -> String {
    utf8_percent_encode(text, NOT_IN_PATHS).to_string()
}

/// A value as a part of a path. What a careless server decodes must not change the path either.
fn of_path(given: &Given<'_>) -> Result<String, Stop> {
    let made = given.simple(encoded)?;
    let decoded = percent_decode_str(&made).decode_utf8_lossy();
    if decoded.is_empty() {
        return Err(given.wrong("is empty, and stands in the path"));
    }
    if decoded
        .split(['/', '\\'])
        .any(|part| matches!(part, "." | ".."))
        || decoded.chars().any(char::is_control)
    {
        return Err(
            given.wrong("must not hold `.` or `..` as a part of a path, or control characters")
        );
    }
    Ok(made)
}

/// Builds the request.
pub(super) fn build(
    operation: &HttpOperation,
    target: &Target,
    arguments: &Value,
    proofs: &[Proof],
) -> Result<Request, Stop> {
    let method = METHODS
        .into_iter()
        .find(|method| method.as_str() == operation.method);
    let method = method.ok_or_else(|| Stop::definition("its method is none that is called"))?;
    let given = given(operation, arguments)?;
    let of = |place: Place| given.iter().filter(move |given| given.place.place == place);
    let path = target.path(&of(Place::Path).map(again).collect::<Vec<_>>())?;
    let mut url = target.url.clone();
    url.set_path(&path);
    if url.path() != path {
        return Err(Stop::definition(
            "its path cannot be asked for as it stands",
        ));
    }
    let query = query(operation, target, of(Place::Query), proofs)?;
    url.set_query((!query.is_empty()).then_some(&*query));
    if url.as_str().len() > MAX_URL_BYTES {
        return Err(Stop::new(
            ErrorType::Validation,
            "the arguments make a URL that is too long",
        ));
    }
    let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(ACCEPTED))]);
    for given in of(Place::Header) {
        let (name, value) = header(given)?;
        if of_schemes(operation, "header").any(|known| name.as_str().eq_ignore_ascii_case(known)) {
            return Err(Stop::definition("one of its headers is a credential"));
        }
        headers.insert(name, value);
    }
    let cookies = cookies(operation, of(Place::Cookie), proofs)?;
    if !cookies.is_empty() {
        let mut value = HeaderValue::from_str(&cookies)
            .map_err(|_| Stop::definition("its cookies cannot be sent"))?;
        value.set_sensitive(true);
        headers.insert(COOKIE, value);
    }
    for proof in proofs {
        if let Sent::Header(name, value) = &proof.sent {
            headers.insert(name, value.clone());
        }
    }
    let mut request = Request::new(method, url);
    if let Some((content_type, body)) = body(
        operation,
        &of(Place::Field).collect::<Vec<_>>(),
        of(Place::Body).next(),
    )? {
        headers.insert(CONTENT_TYPE, content_type);
        *request.body_mut() = Some(Body::from(body));
    }
    *request.headers_mut() = headers;
    Ok(request)
}

fn again<'a>(given: &Given<'a>) -> Given<'a> {
    Given {
        argument: given.argument,
        place: given.place,
        value: given.value,
    }
}

/// The arguments with where they go; one that is null is not sent, but for those of bodies.
fn given<'a>(operation: &'a HttpOperation, arguments: &'a Value) -> Result<Vec<Given<'a>>, Stop> {
    let mut given = Vec::new();
    for (argument, value) in arguments.as_object().into_iter().flatten() {
        let place = operation.arguments.get(argument).ok_or_else(|| {
            let argument = marked(argument, MAX_NAME_CHARS);
            Stop::definition(format!(
                "the definition does not say where the argument {argument:?} goes"
            ))
        })?;
        if !value.is_null() || matches!(place.place, Place::Field | Place::Body) {
            given.push(Given {
                argument,
                place,
                value,
            });
        }
    }
    Ok(given)
}

/// The names of the keys that go into a place.
fn of_schemes<'a>(
    operation: &'a HttpOperation,
    place: &'static str,
) -> impl Iterator<Item = &'a str> {
    let schemes = operation
        .security
        .iter()
        .flat_map(|schemes| schemes.values());
    let of_place = move |scheme: &&SecurityScheme| scheme.place.as_deref() == Some(place);
    schemes
        .filter(of_place)
        .filter_map(|scheme| scheme.name.as_deref())
}

fn query<'a>(
    operation: &HttpOperation,
    target: &Target,
    given: impl Iterator<Item = &'a Given<'a>>,
    proofs: &[Proof],
) -> Result<String, Stop> {
    let is_key = |name: &str| of_schemes(operation, "query").any(|key| key == name);
    let is_other = |name: &str| {
        let named = |(argument, place): (&String, &picktools::catalog::http::Argument)| {
            place.place == Place::Query && place.name.as_ref().unwrap_or(argument) == name
        };
        operation.arguments.iter().any(named)
    };
    let mut parts: Vec<String> = target
        .query
        .iter()
        .filter(|query| !query.is_empty())
        .cloned()
        .collect();
    for given in given {
        if is_key(given.name()) {
            return Err(Stop::definition("one of its parameters is a credential"));
        }
        let pairs = given.pairs(|key| is_key(key) || is_other(key))?;
        parts.extend(pairs.iter().map(|(name, value)| format!("{name}={value}")));
    }
    for proof in proofs {
        if let Sent::Query(name, value) = &proof.sent {
            parts.push(format!("{}={}", encoded(name), encoded(value)));
        }
    }
    Ok(parts.join("&"))
}

fn header(given: &Given<'_>) -> Result<(HeaderName, HeaderValue), Stop> {
    let name = HeaderName::from_bytes(given.name().as_bytes())
        .ok()
        .filter(|name| !is_forbidden(name));
    let name = name.ok_or_else(|| {
        let name = marked(given.name(), MAX_NAME_CHARS);
        Stop::new(
            ErrorType::Security,
            format!("no argument may set the header {name:?}"),
        )
    })?;
    let value = given.simple(str::to_owned)?;
    let is_plain = value.is_ascii() && value.len() <= MAX_HEADER_BYTES;
    let value = HeaderValue::from_str(&value).ok().filter(|_| is_plain);
    value
        .map(|value| (name, value))
        .ok_or_else(|| given.wrong("cannot be sent in a header: plain ASCII on one line can"))
}

fn cookies<'a>(
    operation: &HttpOperation,
    given: impl Iterator<Item = &'a Given<'a>>,
    proofs: &[Proof],
) -> Result<String, Stop> {
    let mut cookies = Vec::new();
    for given in given {
        if of_schemes(operation, "cookie").any(|key| key == given.name()) {
            return Err(Stop::definition("one of its cookies is a credential"));
        }
        if given.value.is_array() || given.value.is_object() {
            return Err(given.wrong("is a list or an object, which is not supported in cookies"));
        }
        cookies.extend(
            given
                .pairs(|_| false)?
                .iter()
                .map(|(name, value)| format!("{name}={value}")),
        );
    }
    for proof in proofs {
        if let Sent::Cookie(name, value) = &proof.sent {
            cookies.push(format!("{}={}", encoded(name), encoded(value)));
        }
    }
    Ok(cookies.join("; "))
}

fn body(
    operation: &HttpOperation,
    fields: &[&Given<'_>],
    whole: Option<&Given<'_>>,
) -> Result<Option<(HeaderValue, Vec<u8>)>, Stop> {
    let has_fields = operation
        .arguments
        .values()
        .any(|argument| argument.place == Place::Field);
    if whole.is_none() && !has_fields {
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
        Stop::definition(format!(
            "a body of the type {declared:?} is not supported: JSON, URL-encoded forms and text are"
        ))
    };
    let (sent, body) = if is_any || essence.ends_with("/json") || essence.ends_with("+json") {
        let body = match whole {
            Some(given) => given.value.to_string(),
            None => {
                let members = fields
                    .iter()
                    .map(|given| (given.name().to_owned(), given.value.clone()));
                Value::Object(members.collect::<Map<_, _>>()).to_string()
            }
        };
        (if is_any { "application/json" } else { declared }, body)
    } else if essence == "application/x-www-form-urlencoded" {
        (declared, form(fields, whole)?)
    } else if essence.starts_with("multipart/") {
        return Err(unsupported());
    } else {
        let text = whole
            .and_then(|given| given.value.as_str())
            .ok_or_else(unsupported)?;
        (declared, text.to_owned())
    };
    let sent = HeaderValue::from_str(sent).map_err(|_| unsupported())?;
    Ok(Some((sent, body.into_bytes())))
}

fn form(fields: &[&Given<'_>], whole: Option<&Given<'_>>) -> Result<String, Stop> {
    let mut pairs = Vec::new();
    for given in fields.iter().copied().chain(whole) {
        // A member that is null is not sent, and an object would need a style, which only the whole
        // form has.
        if given.value.is_null() {
            continue;
        }
        if given.value.is_object()
            && given.place.place == Place::Field
            && given.place.style.is_none()
        {
            return Err(given.wrong("is an object, which is not supported in forms"));
        }
        pairs.extend(given.pairs(|_| false)?);
    }
    Ok(pairs
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect::<Vec<_>>()
        .join("&"))
}
