//! Fetching one file of known content, from a URL or from another place on disk.
//!
//! What comes is bounded in size and time, is written beside its destination, and takes its place
//! only once it is found to be what was wanted, to the bit. Whatever fails before leaves no file
//! behind. Redirects are followed and plain HTTP is good enough: the digest vouches for the
//! content.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use picktools_net::{Download, FetchError, FetchErrorKind};
use reqwest::redirect::Policy;
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
        Self {
            reason: reason.into(),
            remedy: remedy.into(),
        }
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
        Some(_) => Err(Failure::new(
            "this is neither a file nor an http or https URL",
            CHECK_SOURCE,
        )),
        None => {
            let file = File::open(from).and_then(|file| Ok((file.metadata()?, file)));
            let (metadata, file) =
                file.map_err(|error| Failure::new(error.to_string(), CHECK_SOURCE))?;
            if !metadata.is_file() {
                return Err(Failure::new("this is no file", CHECK_SOURCE));
            }
            Ok(Source {
                content: Box::new(file),
                length: Some(metadata.len()),
            })
        }
    }
}

/// Writes the content beside its destination, checks it, and puts it there.
fn take(
    Source {
        mut content,
        length,
    }: Source,
    wanted: &Wanted<'_>,
    limits: &Limits,
    progress: &dyn Fn(u64, Option<u64>),
) -> Result<(), Failure> {
    let too_large = || {
        Failure::new(
            format!("it is larger than {} bytes", limits.bytes),
            CHECK_SOURCE,
        )
    };
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
            Failure::new(
                format!(
                    "it broke off after {taken}{length} bytes: {}",
                    why(error, limits)
                ),
                "try again",
            )
        })?;
        if count == 0 {
            break;
        }
        taken += count as u64;
        if taken > limits.bytes {
            return Err(too_large());
        }
        if started.elapsed() > limits.time {
            return Err(Failure::new(
                format!("it broke off after {taken} bytes and {:?}", limits.time),
                "try again",
            ));
        }
        file.write_all(&buffer[..count]).map_err(unwritable)?;
        progress(taken, length);
    }
    if let Some(length) = length.filter(|&length| length != taken) {
        return Err(Failure::new(
            format!("it broke off after {taken} of {length} bytes"),
            "try again",
        ));
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
    file.place(wanted.to.file_name().unwrap_or_default())
        .map_err(|error| unwritable(error.source))
}

fn open_url(url: &str, limits: &Limits) -> Result<Source, Failure> {
    const REDIRECTS: usize = 5;
    const CONNECT: Duration = Duration::from_secs(10);
    let url: reqwest::Url = url.parse().map_err(|_| {
        Failure::new(
            "this is no URL",
            "write it like https://host/path/model.onnx",
        )
    })?;
    let is_local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let failed =
        |reason: String| Failure::new(reason, format!("check the network, or {CHECK_SOURCE}"));
    let builder = picktools_net::client_builder().map_err(failed)?;
    let builder = builder
        .connect_timeout(CONNECT)
        .timeout(limits.time)
        .redirect(Policy::limited(REDIRECTS));
    // A server may close the connection behind a redirect without a word: each request has a
    // connection of its own.
    let builder = builder.pool_max_idle_per_host(0);
    let builder = if is_local {
        builder.no_proxy()
    } else {
        builder
    };
    let client = builder
        .build()
        .map_err(|error| failed(format!("cannot make an HTTP client: {error}")))?;
    let download =
        Download::start(client.get(url)).map_err(|error| failed(reason(&error, limits.time)))?;
    if !download.status.is_success() {
        return Err(Failure::new(
            format!("the server answered {}", download.status),
            CHECK_SOURCE,
        ));
    }
    let length = download.length;
    Ok(Source {
        content: Box::new(download),
        length,
    })
}

/// Says why there is no answer, or not all of it.
fn reason(error: &FetchError, time: Duration) -> String {
    match error.kind {
        FetchErrorKind::ConnectTimeout => "no connection in time".to_owned(),
        FetchErrorKind::Timeout => format!("no whole answer within {time:?}"),
        FetchErrorKind::Connection => format!("the connection failed: {error}"),
        _ => format!("the request failed: {error}"),
    }
}

/// Says why reading failed.
fn why(error: std::io::Error, limits: &Limits) -> String {
    let fetch_error = error
        .get_ref()
        .and_then(|error| error.downcast_ref::<FetchError>());
    fetch_error.map_or_else(|| error.to_string(), |error| reason(error, limits.time))
}

/// The source for people: a URL without user, password, query and fragment, a path as it is.
fn printable(from: &str) -> String {
    let Some((scheme, rest)) = from.split_once("://") else {
        return from.to_owned();
    };
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    format!(
        "{scheme}://{}",
        rest.split(['?', '#']).next().unwrap_or(rest)
    )
}

#[cfg(test)]
mod tests;
