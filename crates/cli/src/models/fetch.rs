//! Download of one file of known content, from a URL or from a path.
//!
//! The download is limited in size and time. It is staged next to its destination and moved there
//! only after its digest was verified. A failure leaves no file behind. Redirects and plain HTTP
//! are accepted, because the digest proves the content.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use picktools_net::{Download, FetchError, FetchErrorKind};
use reqwest::redirect::Policy;
use sha2::{Digest, Sha256};

use picktools::disk::StagedFile;
use picktools::embed::EmbedError;

const CHECK_SOURCE: &str = "pass another URL or file with --from";

/// The expected content and the destination of a download.
pub(super) struct ExpectedFile<'a> {
    /// The name of the model, for messages.
    pub(super) model: &'a str,
    /// SHA-256 in hexadecimal digits.
    pub(super) sha256: &'a str,
    pub(super) to: &'a Path,
}

/// The limits of a download.
pub(super) struct DownloadLimits {
    pub(super) bytes: u64,
    pub(super) time: Duration,
}

/// The content of a download, and its length if known.
struct DownloadSource {
    content: Box<dyn Read>,
    length: Option<u64>,
}

/// The reason of a failed download, and the remedy.
struct DownloadFailure {
    reason: String,
    remedy: String,
}

impl DownloadFailure {
    fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            remedy: remedy.into(),
        }
    }
}

/// Downloads the expected file to its destination. `from` is an `http://` or `https://` URL, or a
/// path.
///
/// `progress` receives the number of bytes so far, and the total if known.
pub(super) fn fetch(
    expected: &ExpectedFile<'_>,
    from: &str,
    limits: &DownloadLimits,
    progress: &dyn Fn(u64, Option<u64>),
) -> Result<(), EmbedError> {
    let result = open(from, limits).and_then(|source| store(source, expected, limits, progress));
    result.map_err(|DownloadFailure { reason, remedy }| EmbedError::Download {
        name: expected.model.to_owned(),
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

fn open(from: &str, limits: &DownloadLimits) -> Result<DownloadSource, DownloadFailure> {
    match from.split_once("://") {
        Some(("http" | "https", _)) => open_url(from, limits),
        Some(_) => Err(DownloadFailure::new(
            "it is neither a file nor an http or https URL",
            CHECK_SOURCE,
        )),
        None => {
            let unreadable =
                |error: std::io::Error| DownloadFailure::new(error.to_string(), CHECK_SOURCE);
            let file = File::open(from).map_err(unreadable)?;
            let metadata = file.metadata().map_err(unreadable)?;
            if !metadata.is_file() {
                return Err(DownloadFailure::new("it is not a file", CHECK_SOURCE));
            }
            Ok(DownloadSource {
                content: Box::new(file),
                length: Some(metadata.len()),
            })
        }
    }
}

/// Stages the content next to its destination, verifies it, and moves it there.
fn store(
    source: DownloadSource,
    expected: &ExpectedFile<'_>,
    limits: &DownloadLimits,
    progress: &dyn Fn(u64, Option<u64>),
) -> Result<(), DownloadFailure> {
    if let Some(length) = source.length
        && length > limits.bytes
    {
        return Err(too_large(limits));
    }
    let folder = expected.to.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|error| unwritable(expected, error))?;
    // Removed when it is dropped, unless it was moved to its destination.
    let mut file =
        StagedFile::in_folder(folder).map_err(|error| unwritable(expected, error.source))?;
    receive(source, &mut file, expected, limits, progress)?;
    let digest = hex(&file.sha256());
    if digest != expected.sha256 {
        let reason = format!("its SHA-256 is {digest}, expected {}", expected.sha256);
        let version = env!("CARGO_PKG_VERSION");
        return Err(DownloadFailure::new(
            reason,
            format!("it is damaged or of another version; use the file of picktools {version}"),
        ));
    }
    file.persist_as(expected.to.file_name().unwrap_or_default())
        .map_err(|error| unwritable(expected, error.source))
}

/// Writes the content to the staged file, within the limits.
fn receive(
    DownloadSource {
        mut content,
        length,
    }: DownloadSource,
    file: &mut StagedFile,
    expected: &ExpectedFile<'_>,
    limits: &DownloadLimits,
    progress: &dyn Fn(u64, Option<u64>),
) -> Result<(), DownloadFailure> {
    let length_suffix = match length {
        Some(length) => format!(" of {length}"),
        None => String::new(),
    };
    let mut buffer = vec![0; 64 * 1024];
    let mut received = 0;
    let started = Instant::now();
    loop {
        let count = content.read(&mut buffer).map_err(|error| {
            let reason = read_failure_reason(error, limits);
            stopped(format!("after {received}{length_suffix} bytes: {reason}"))
        })?;
        if count == 0 {
            break;
        }
        received += count as u64;
        if received > limits.bytes {
            return Err(too_large(limits));
        }
        if started.elapsed() > limits.time {
            let time = limits.time;
            return Err(stopped(format!("after {received} bytes and {time:?}")));
        }
        file.write_all(&buffer[..count])
            .map_err(|error| unwritable(expected, error))?;
        progress(received, length);
    }
    match length {
        Some(length) if length != received => {
            Err(stopped(format!("after {received} of {length} bytes")))
        }
        _ => Ok(()),
    }
}

fn too_large(limits: &DownloadLimits) -> DownloadFailure {
    DownloadFailure::new(
        format!("it is larger than {} bytes", limits.bytes),
        CHECK_SOURCE,
    )
}

fn unwritable(expected: &ExpectedFile<'_>, error: std::io::Error) -> DownloadFailure {
    let reason = format!("cannot write {}: {error}", expected.to.display());
    DownloadFailure::new(reason, "pass another folder with --cache-dir")
}

fn stopped(details: String) -> DownloadFailure {
    DownloadFailure::new(format!("the download stopped {details}"), "try again")
}

fn open_url(url: &str, limits: &DownloadLimits) -> Result<DownloadSource, DownloadFailure> {
    const REDIRECTS: usize = 5;
    const CONNECT: Duration = Duration::from_secs(10);
    let url: reqwest::Url = url.parse().map_err(|_| {
        DownloadFailure::new(
            "it is not a valid URL",
            "write it like https://host/path/model.onnx",
        )
    })?;
    let is_local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let failed = |reason: String| {
        DownloadFailure::new(reason, format!("check the network, or {CHECK_SOURCE}"))
    };
    let builder = picktools_net::client_builder().map_err(failed)?;
    let builder = builder
        .connect_timeout(CONNECT)
        .timeout(limits.time)
        .redirect(Policy::limited(REDIRECTS));
    // A server may close the connection after a redirect without notice, so each request uses a
    // new connection.
    let builder = builder.pool_max_idle_per_host(0);
    let builder = if is_local {
        builder.no_proxy()
    } else {
        builder
    };
    let client = builder
        .build()
        .map_err(|error| failed(format!("cannot create an HTTP client: {error}")))?;
    let download =
        Download::start(client.get(url)).map_err(|error| failed(reason(&error, limits.time)))?;
    if !download.status.is_success() {
        return Err(DownloadFailure::new(
            format!("the server answered {}", download.status),
            CHECK_SOURCE,
        ));
    }
    let length = download.length;
    Ok(DownloadSource {
        content: Box::new(download),
        length,
    })
}

/// Returns the reason of a missing or incomplete answer.
fn reason(error: &FetchError, time: Duration) -> String {
    match error.kind {
        FetchErrorKind::ConnectTimeout => "the connection timed out".to_owned(),
        FetchErrorKind::Timeout => format!("no complete answer within {time:?}"),
        FetchErrorKind::Connection => format!("the connection failed: {error}"),
        _ => format!("the request failed: {error}"),
    }
}

/// Returns the reason of a failed read.
fn read_failure_reason(error: std::io::Error, limits: &DownloadLimits) -> String {
    if let Some(source) = error.get_ref()
        && let Some(error) = source.downcast_ref::<FetchError>()
    {
        return reason(error, limits.time);
    }
    error.to_string()
}

/// Returns the source for messages: a URL without user, password, query and fragment, or the path.
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
