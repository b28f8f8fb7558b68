//! Fetching one file of known content, from a URL or from another place on disk.
//!
//! What comes is bounded in size and time, is written beside its destination, and takes its place only once it is
//! found to be what was wanted, to the bit. Whatever fails before leaves no file behind. Redirects are followed and
//! plain HTTP is good enough: the digest vouches for the content.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use picktools::disk::Staged;
use picktools::embed::EmbedError;

const CHECK_SOURCE: &str = "name another URL or file with --from";

/// The file that is wanted.
pub(super) struct Wanted<'a> {
    /// The name of the model, for messages.
    pub(super) model: &'a str,
    /// SHA-256 in hexadecimal digits.
    pub(super) sha256: &'a str,
    pub(super) to: &'a Path,
}

/// What may be spent on it.
pub(super) struct Limits {
    pub(super) bytes: u64,
    pub(super) time: Duration,
}

/// What comes, and its length where that is told.
struct Source {
    content: Box<dyn Read>,
    length: Option<u64>,
}

/// Why it did not come, and what to do.
struct Failure {
    reason: String,
    remedy: String,
}

impl Failure {
    fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { reason: reason.into(), remedy: remedy.into() }
    }
}

/// Puts the wanted file where it is wanted; `from` is an `http://` or `https://` URL, or a path.
///
/// `progress` is told how many bytes are there, and how many will be where that is known.
pub(super) fn fetch(
    wanted: &Wanted<'_>,
    from: &str,
    limits: &Limits,
    progress: &dyn Fn(u64, Option<u64>),
) -> Result<(), EmbedError> {
    let fetched = open(from, limits).and_then(|source| take(source, wanted, limits, progress));
    fetched.map_err(|Failure { reason, remedy }| EmbedError::Download {
        name: wanted.model.to_owned(),
        reason: format!("{}: {reason}", printable(from)),
        remedy,
    })
}

/// Returns the SHA-256 of a file.
pub(super) fn sha256(path: &Path) -> std::io::Result<String> {
    Ok(hex(&Sha256::digest(fs::read(path)?)))
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn open(from: &str, limits: &Limits) -> Result<Source, Failure> {
    match from.split_once("://") {
        Some(("http" | "https", _)) => open_url(from, limits),
        Some(_) => Err(Failure::new("this is neither a file nor an http or https URL", CHECK_SOURCE)),
        None => {
            let file = File::open(from).and_then(|file| Ok((file.metadata()?, file)));
            let (metadata, file) = file.map_err(|error| Failure::new(error.to_string(), CHECK_SOURCE))?;
            if !metadata.is_file() {
                return Err(Failure::new("this is no file", CHECK_SOURCE));
            }
            Ok(Source { content: Box::new(file), length: Some(metadata.len()) })
        }
    }
}

/// Writes the content beside its destination, checks it, and puts it there.
fn take(
    Source { mut content, length }: Source,
    wanted: &Wanted<'_>,
    limits: &Limits,
    progress: &dyn Fn(u64, Option<u64>),
) -> Result<(), Failure> {
    let too_large = || Failure::new(format!("it is larger than {} bytes", limits.bytes), CHECK_SOURCE);
    if length.is_some_and(|length| length > limits.bytes) {
        return Err(too_large());
    }
    let unwritable = |error: std::io::Error| {
        let reason = format!("cannot write {}: {error}", wanted.to.display());
        Failure::new(reason, "name another folder with --cache-dir")
    };
    let folder = wanted.to.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(unwritable)?;
    // Removed when it is dropped, unless it was given its place.
    let mut file = Staged::in_folder(folder).map_err(|error| unwritable(error.source))?;
    let mut buffer = vec![0; 64 * 1024];
    let mut taken = 0;
    let started = Instant::now();
    loop {
        let count = content.read(&mut buffer).map_err(|error| {
            let length = length.map_or(String::new(), |length| format!(" of {length}"));
            Failure::new(format!("it broke off after {taken}{length} bytes: {}", why(error, limits)), "try again")
        })?;
        if count == 0 {
            break;
        }
        taken += count as u64;
        if taken > limits.bytes {
            return Err(too_large());
        }
        if started.elapsed() > limits.time {
            return Err(Failure::new(format!("it broke off after {taken} bytes and {:?}", limits.time), "try again"));
        }
        file.write_all(&buffer[..count]).map_err(unwritable)?;
        progress(taken, length);
    }
    if let Some(length) = length.filter(|&length| length != taken) {
        return Err(Failure::new(format!("it broke off after {taken} of {length} bytes"), "try again"));
    }
    let found = hex(&file.sha256());
    if found != wanted.sha256 {
        let reason = format!("its SHA-256 is {found}, and not {}", wanted.sha256);
        let version = env!("CARGO_PKG_VERSION");
        return Err(Failure::new(
            reason,
            format!("it is damaged, or of another version: take the file of picktools {version}"),
        ));
    }
    file.place(wanted.to.file_name().unwrap_or_default()).map_err(|error| unwritable(error.source))
}

#[cfg(feature = "endpoint")]
fn open_url(url: &str, limits: &Limits) -> Result<Source, Failure> {
    const REDIRECTS: u32 = 5;
    const CONNECT: Duration = Duration::from_secs(10);
    let uri: ureq::http::Uri =
        url.parse().map_err(|_| Failure::new("this is no URL", "write it like https://host/path/model.onnx"))?;
    let is_local = matches!(uri.host(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let config = ureq::Agent::config_builder()
        .timeout_connect(Some(CONNECT))
        .timeout_global(Some(limits.time))
        .max_redirects(REDIRECTS)
        .http_status_as_error(false)
        .proxy((!is_local).then(ureq::Proxy::try_from_env).flatten())
        .user_agent(concat!("picktools/", env!("CARGO_PKG_VERSION")));
    let response = config.build().new_agent().get(uri).call();
    let response = response
        .map_err(|error| Failure::new(reason(&error, limits.time), format!("check the network, or {CHECK_SOURCE}")))?;
    if !response.status().is_success() {
        return Err(Failure::new(format!("the server answered {}", response.status()), CHECK_SOURCE));
    }
    let body = response.into_body();
    let length = body.content_length();
    Ok(Source { content: Box::new(body.into_reader()), length })
}

/// Says why there is no answer, or not all of it.
#[cfg(feature = "endpoint")]
fn reason(error: &ureq::Error, time: Duration) -> String {
    use ureq::Timeout;

    match error {
        ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => "no connection in time".to_owned(),
        ureq::Error::Timeout(_) => format!("no whole answer within {time:?}"),
        ureq::Error::Io(error) => format!("the connection failed: {error}"),
        other => format!("the request failed: {other}"),
    }
}

#[cfg(not(feature = "endpoint"))]
fn open_url(_: &str, _: &Limits) -> Result<Source, Failure> {
    Err(Failure::new(
        "this build fetches nothing from URLs",
        "name a file with --from, or build with the feature endpoint",
    ))
}

/// Says why reading failed.
#[cfg(feature = "endpoint")]
fn why(error: std::io::Error, limits: &Limits) -> String {
    reason(&ureq::Error::from(error), limits.time)
}

#[cfg(not(feature = "endpoint"))]
fn why(error: std::io::Error, _: &Limits) -> String {
    error.to_string()
}

/// The source for people: a URL without user, password, query and fragment, a path as it is.
fn printable(from: &str) -> String {
    let Some((scheme, rest)) = from.split_once("://") else { return from.to_owned() };
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    format!("{scheme}://{}", rest.split(['?', '#']).next().unwrap_or(rest))
}

#[cfg(test)]
mod tests;
