//! IndexedVector models behind an OpenAI-compatible HTTP endpoint: `POST …/v1/embeddings`, as
//! OpenAI, Ollama, vLLM, llama.cpp and others serve it.
//!
//! The answer is untrusted: its length is limited, and every vector is validated. Text of the
//! answer is shortened in messages, and the key is removed. The key is sent to the configured URL
//! only: redirects are not followed.
//!
//! Temporary errors are an answer of 429 or 5xx and a failed connection. They are retried up to
//! [`MAX_ATTEMPTS`] attempts, with a growing pause or the one of `Retry-After`. Everything else,
//! timeouts included, is an error at once. With a deadline, no request takes longer than the
//! remaining time, and no retry starts after it.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use http::{HeaderValue, StatusCode, Uri, header};
use picktools_net::{FetchError, FetchErrorKind, FetchedResponse};
use reqwest::Client;
use serde::Deserialize;
use serde_json::json;

use crate::endpoint::{self, EndpointOptions, Secret, printable, shortened};
use picktools::embed::EmbedError;
use picktools::embed::{EmbedProgress, Embedder, TextRole};

/// The largest number of texts of one request.
const MAX_BATCH_TEXTS: usize = 64;
/// The largest size of the texts of one request, in bytes; a single text may have this size.
const MAX_BATCH_BYTES: usize = 64 * 1024;
/// The longest text, in bytes: about 2,000 tokens, which the usual models read. Longer texts are
/// cut.
const MAX_TEXT_BYTES: usize = 8 * 1024;
/// The longest accepted answer, in bytes: more than a full batch of the longest vectors.
const MAX_ANSWER_BYTES: u64 = 16 * 1024 * 1024;
/// The longest accepted vector.
const MAX_DIMENSIONS: usize = 8 * 1024;
/// The number of attempts before a request counts as failed.
const MAX_ATTEMPTS: u32 = 3;
/// The pause before the second attempt; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause of `Retry-After`; a longer one is not waited for.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

const CHECK_SERVER: &str = "check that the server runs, and the URL";
const CHECK_KIND: &str =
    "check that the URL is that of an OpenAI-compatible API, and the model one for embeddings";
const CHECK_KEY: &str = "check the key";

/// A model behind an OpenAI-compatible endpoint.
///
/// Texts are sent without a prompt, and cut to 8 KiB. Vectors are scaled to unit length. A server
/// may return a slightly different vector for the same text.
#[derive(Debug)]
pub struct EndpointEmbedder {
    endpoint: EmbeddingsEndpoint,
    identity: String,
    dimensions: usize,
}

impl EndpointEmbedder {
    /// Requests one vector of `model` from the endpoint at `url`, to learn its dimensions.
    ///
    /// `url` is the base of the API (`http://localhost:11434/v1`) or the full address
    /// (`…/v1/embeddings`).
    ///
    /// # Errors
    ///
    /// [`EmbedError::InvalidEndpoint`] if the URL, the model's name or the key is not valid, and
    /// [`EmbedError::Endpoint`] if the endpoint returns no valid vector.
    pub fn open(url: &str, model: &str, options: &EndpointOptions) -> Result<Self, EmbedError> {
        Self::open_until(url, model, options, None)
    }

    /// Does the same as [`open`](Self::open), with an optional deadline.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_until(
        url: &str,
        model: &str,
        options: &EndpointOptions,
        deadline: Option<Instant>,
    ) -> Result<Self, EmbedError> {
        let endpoint = EmbeddingsEndpoint::new(url, model, options)?;
        let probe = endpoint.embed(&["probe"], None, deadline)?;
        let dimensions = probe.first().map_or(0, Vec::len);
        // Neither a URL nor the number contains a space, so two endpoints never share an identity.
        let identity = format!("endpoint:{} {model} {MAX_TEXT_BYTES}", endpoint.url);
        Ok(Self {
            endpoint,
            identity,
            dimensions,
        })
    }
}

impl Embedder for EndpointEmbedder {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn embed(
        &self,
        role: TextRole,
        texts: &[&str],
        progress: EmbedProgress<'_>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.embed_until(role, texts, progress, None)
    }

    fn embed_until(
        &self,
        _: TextRole,
        texts: &[&str],
        progress: EmbedProgress<'_>,
        deadline: Option<Instant>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in batches(texts) {
            vectors.extend(
                self.endpoint
                    .embed(&batch, Some(self.dimensions), deadline)?,
            );
            progress(vectors.len());
        }
        Ok(vectors)
    }
}

/// Cuts each text to the sent length, and splits the list into batches.
fn batches<'a>(texts: &[&'a str]) -> Vec<Vec<&'a str>> {
    let mut batches: Vec<Vec<&str>> = Vec::new();
    let mut bytes = 0;
    for text in texts {
        let text = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
        match batches.last_mut() {
            Some(batch)
                if batch.len() < MAX_BATCH_TEXTS && bytes + text.len() <= MAX_BATCH_BYTES =>
            {
                batch.push(text);
                bytes += text.len();
            }
            _ => {
                batches.push(vec![text]);
                bytes = text.len();
            }
        }
    }
    batches
}

/// The configuration of an endpoint, with its HTTP client.
struct EmbeddingsEndpoint {
    client: Client,
    url: String,
    model: String,
    timeout: Duration,
    key: Option<EndpointKey>,
}

struct EndpointKey {
    secret: Secret,
    header: HeaderValue,
}

/// The reason why an attempt failed.
struct EmbedFailure {
    reason: String,
    remedy: &'static str,
    retry: RetryAdvice,
}

/// The advice for a retry.
enum RetryAdvice {
    Never,
    WithBackoff,
    After(Duration),
}

impl EmbedFailure {
    fn permanent(reason: impl Into<String>, remedy: &'static str) -> Self {
        Self {
            reason: reason.into(),
            remedy,
            retry: RetryAdvice::Never,
        }
    }

    /// Returns the pause before the next attempt; `None` if there should be none.
    fn pause(&self, attempts: u32) -> Option<Duration> {
        if attempts >= MAX_ATTEMPTS {
            return None;
        }
        match self.retry {
            RetryAdvice::WithBackoff => Some(FIRST_PAUSE * 2_u32.pow(attempts - 1)),
            RetryAdvice::After(pause) if pause <= LONGEST_PAUSE => Some(pause),
            RetryAdvice::Never | RetryAdvice::After(_) => None,
        }
    }
}

#[derive(Deserialize)]
struct EmbeddingsResponse {
    data: Vec<IndexedVector>,
}

#[derive(Deserialize)]
struct IndexedVector {
    index: usize,
    embedding: Vec<f32>,
}

impl EmbeddingsEndpoint {
    fn new(url: &str, model: &str, options: &EndpointOptions) -> Result<Self, EmbedError> {
        let invalid = |reason: &str, remedy: &str| EmbedError::InvalidEndpoint {
            url: printable(url),
            reason: reason.to_owned(),
            remedy: remedy.to_owned(),
        };
        if model.trim().is_empty() {
            return Err(invalid(
                "the model has no name",
                "name the model to ask for",
            ));
        }
        let uri = full_url(url).map_err(|InvalidUrl { reason, remedy }| invalid(reason, remedy))?;
        let key = match Secret::new(options.api_key.as_deref()) {
            Some(secret) => match secret.header("Bearer ") {
                Ok(header) => Some(EndpointKey { secret, header }),
                Err(()) => {
                    let reason = "the API key contains characters that cannot be sent";
                    return Err(invalid(reason, CHECK_KEY));
                }
            },
            None => None,
        };
        let client = options
            .client(&uri)
            .map_err(|reason| invalid(&reason, "install the certificates of the system"))?;
        let (url, model) = (uri.to_string(), model.to_owned());
        Ok(Self {
            client,
            url,
            model,
            timeout: options.timeout,
            key,
        })
    }

    /// Embeds the texts of one batch, one unit vector a text, in order.
    fn embed(
        &self,
        texts: &[&str],
        dimensions: Option<usize>,
        deadline: Option<Instant>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let request =
            json!({"model": self.model, "input": texts, "encoding_format": "float"}).to_string();
        let mut attempts = 1;
        let time_left =
            || deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let failure = loop {
            let timeout = match time_left() {
                Some(time_left) => time_left.min(self.timeout),
                None => self.timeout,
            };
            let result = match self.post(&request, timeout) {
                Ok(answer) => self.parse_vectors(&answer, texts.len(), dimensions),
                Err(failure) => Err(failure),
            };
            let failure = match result {
                Ok(vectors) => return Ok(vectors),
                Err(failure) => failure,
            };
            match failure.pause(attempts) {
                Some(pause) if time_left().is_none_or(|time_left| pause < time_left) => {
                    thread::sleep(pause);
                }
                _ => break failure,
            }
            attempts += 1;
        };
        let suffix = if attempts > 1 {
            format!(" (tried {attempts} times)")
        } else {
            String::new()
        };
        Err(EmbedError::Endpoint {
            url: self.url.clone(),
            model: self.model.clone(),
            reason: failure.reason + &suffix,
            remedy: failure.remedy.to_owned(),
        })
    }

    /// Sends one request with a timeout, and returns the body of a successful answer.
    fn post(&self, request: &str, timeout: Duration) -> Result<Vec<u8>, EmbedFailure> {
        let mut call = self
            .client
            .post(&self.url)
            .timeout(timeout)
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            call = call.header(header::AUTHORIZATION, key.header.clone());
        }
        let fetched = picktools_net::fetch(call.body(request.to_owned()), MAX_ANSWER_BYTES);
        let FetchedResponse {
            status,
            headers,
            body,
            ..
        } = fetched.map_err(|error| self.fetch_failure(&error, timeout))?;
        if status.is_success() {
            return body.ok_or_else(|| {
                let limit = MAX_ANSWER_BYTES >> 20;
                EmbedFailure::permanent(
                    format!("its answer is longer than {limit} MiB"),
                    CHECK_KIND,
                )
            });
        }
        let header_text = |name: header::HeaderName| headers.get(name)?.to_str().ok();
        let mut reason = format!("it answered {status}");
        if status.is_redirection()
            && let Some(target) = header_text(header::LOCATION)
        {
            let target = printable(&endpoint::redact(self.secret(), target));
            reason.push_str(&format!(" to {target}"));
        }
        let mut retry_after = None;
        if let Some(seconds) = header_text(header::RETRY_AFTER)
            && let Ok(seconds) = seconds.trim().parse()
        {
            retry_after = Some(Duration::from_secs(seconds));
            reason.push_str(&format!(", retry after {seconds} s"));
        }
        if let Some(body) = body {
            let message = self.error_message(&body);
            if !message.is_empty() {
                reason.push_str(&format!(": {message}"));
            }
        }
        let is_temporary = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        let retry = match retry_after {
            _ if !is_temporary => RetryAdvice::Never,
            Some(pause) => RetryAdvice::After(pause),
            None => RetryAdvice::WithBackoff,
        };
        Err(EmbedFailure {
            reason,
            remedy: remedy(status),
            retry,
        })
    }

    /// Describes why there is no complete answer.
    fn fetch_failure(&self, error: &FetchError, timeout: Duration) -> EmbedFailure {
        let retry = match error.kind {
            FetchErrorKind::Connection => RetryAdvice::WithBackoff,
            _ => RetryAdvice::Never,
        };
        let reason = endpoint::describe_failure(error, timeout);
        EmbedFailure {
            reason: self.excerpt(&reason),
            remedy: CHECK_SERVER,
            retry,
        }
    }

    /// Parses the vectors of an answer, one for each text, in the order of the texts.
    fn parse_vectors(
        &self,
        body: &[u8],
        texts: usize,
        dimensions: Option<usize>,
    ) -> Result<Vec<Vec<f32>>, EmbedFailure> {
        let wrong = |reason: String| EmbedFailure::permanent(reason, CHECK_KIND);
        let answer: EmbeddingsResponse = serde_json::from_slice(body).map_err(|error| {
            let error = self.excerpt(&error.to_string());
            let message = self.error_message(body);
            wrong(format!(
                "its answer contains no embeddings ({error}): {message}"
            ))
        })?;
        if answer.data.len() != texts {
            return Err(wrong(format!(
                "it gave {} vectors for {texts} texts",
                answer.data.len()
            )));
        }
        let dimensions = match (dimensions, answer.data.first()) {
            (Some(dimensions), _) => dimensions,
            (None, Some(first)) => first.embedding.len(),
            (None, None) => 0,
        };
        if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
            return Err(wrong(format!(
                "it gave a vector of {dimensions} dimensions, not of 1 to {MAX_DIMENSIONS}"
            )));
        }
        let mut vectors = vec![Vec::new(); texts];
        for IndexedVector { index, embedding } in answer.data {
            if embedding.len() != dimensions {
                let length = embedding.len();
                return Err(wrong(format!(
                    "it gave a vector of {length} dimensions instead of {dimensions}"
                )));
            }
            let vector = unit(embedding).map_err(|reason| wrong(reason.to_owned()))?;
            match vectors.get_mut(index) {
                Some(slot) if slot.is_empty() => *slot = vector,
                Some(_) => return Err(wrong(format!("it gave two vectors for the text {index}"))),
                None => {
                    return Err(wrong(format!(
                        "it gave a vector for the text {index} of {texts}, counted from 0"
                    )));
                }
            }
        }
        Ok(vectors)
    }

    fn error_message(&self, body: &[u8]) -> String {
        endpoint::error_message(self.secret(), body)
    }

    /// Shortens untrusted text to one line without the key.
    fn excerpt(&self, text: &str) -> String {
        shortened(&endpoint::redact(self.secret(), text))
    }

    fn secret(&self) -> Option<&Secret> {
        let key = self.key.as_ref()?;
        Some(&key.secret)
    }
}

impl fmt::Debug for EmbeddingsEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddingsEndpoint")
            .field("url", &self.url)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// The reason why a URL is not valid, with advice.
#[derive(Debug, PartialEq)]
struct InvalidUrl {
    reason: &'static str,
    remedy: &'static str,
}

/// Returns the URL of the requests: `…/embeddings` below the base of the API.
fn full_url(url: &str) -> Result<Uri, InvalidUrl> {
    const EXAMPLE: &str = "write it like http://localhost:11434/v1";
    let uri = endpoint::base_url(url).map_err(|reason| InvalidUrl {
        reason,
        remedy: if reason == endpoint::HAS_USER {
            "leave it out; set the key in the options"
        } else {
            EXAMPLE
        },
    })?;
    let path = match uri.path().trim_end_matches('/') {
        "" => "/v1/embeddings".to_owned(),
        full if full.ends_with("/embeddings") => full.to_owned(),
        base => format!("{base}/embeddings"),
    };
    let mut parts = uri.into_parts();
    parts.path_and_query = path.parse().ok();
    Uri::from_parts(parts).map_err(|_| InvalidUrl {
        reason: endpoint::NOT_A_URL,
        remedy: EXAMPLE,
    })
}

/// Scales a vector to unit length.
fn unit(mut vector: Vec<f32>) -> Result<Vec<f32>, &'static str> {
    if vector.iter().any(|value| !value.is_finite()) {
        return Err("it gave a vector with a value that is not a number");
    }
    // The square of a large f32 needs an f64.
    let mut sum = 0.0;
    for &value in &vector {
        sum += f64::from(value) * f64::from(value);
    }
    let length = sum.sqrt();
    if length <= 0.0 {
        return Err("it gave a vector of zeros");
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "no component of a unit vector is larger than 1"
    )]
    for value in &mut vector {
        *value = (f64::from(*value) / length) as f32;
    }
    Ok(vector)
}

fn remedy(status: StatusCode) -> &'static str {
    match status.as_u16() {
        300..=399 => "name the URL that it points to, if you trust it",
        401 | 403 => CHECK_KEY,
        404 | 405 => "check the URL, which usually ends in /v1, and the model's name",
        429 => "try again later, or raise the limit that the server sets",
        500.. => "try again later, or see what the server logs",
        _ => CHECK_KIND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_and_full_url_are_one_endpoint() {
        for (url, full) in [
            (
                "http://localhost:11434/v1",
                "http://localhost:11434/v1/embeddings",
            ),
            (
                " http://localhost:11434/v1/\n",
                "http://localhost:11434/v1/embeddings",
            ),
            (
                "http://localhost:11434/v1/embeddings/",
                "http://localhost:11434/v1/embeddings",
            ),
            ("https://example.org", "https://example.org/v1/embeddings"),
            (
                "https://[::1]:8080/api/v3",
                "https://[::1]:8080/api/v3/embeddings",
            ),
        ] {
            assert_eq!(
                full_url(url).map(|uri| uri.to_string()),
                Ok(full.to_owned()),
                "{url}"
            );
        }
        for url in [
            "",
            "localhost:11434",
            "ftp://example.org",
            "http://",
            "http://a b/",
            "/v1",
            "http://h/v1?k=v",
        ] {
            assert!(full_url(url).is_err(), "{url}");
        }
    }

    #[test]
    fn batches_are_bounded_and_complete() {
        let long = "é".repeat(MAX_TEXT_BYTES);
        let texts: Vec<&str> = (0..300)
            .map(|i| if i % 3 == 0 { long.as_str() } else { "short" })
            .collect();
        let batches = batches(&texts);
        for batch in &batches {
            assert!(!batch.is_empty() && batch.len() <= MAX_BATCH_TEXTS);
            assert!(batch.iter().map(|text| text.len()).sum::<usize>() <= MAX_BATCH_BYTES);
        }
        let sent: Vec<&str> = batches.into_iter().flatten().collect();
        assert_eq!(sent.len(), texts.len());
        assert!(
            sent.iter()
                .zip(&texts)
                .all(|(sent, text)| text.starts_with(sent) && sent.len() <= MAX_TEXT_BYTES)
        );
        assert!(super::batches(&[]).is_empty());
    }
}
