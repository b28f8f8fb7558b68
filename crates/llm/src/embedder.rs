//! Embedding models behind an OpenAI-compatible HTTP endpoint: `POST …/v1/embeddings`, as OpenAI,
//! Ollama, vLLM, llama.cpp and others serve it.
//!
//! What answers is not trusted: the length of its answer is bounded, every vector is checked before
//! it counts, and what it says goes into messages shortened and without the key. The key is sent to
//! the URL that was named and nowhere else: redirects are not followed.
//!
//! There is one policy for trouble that may pass: an answer of 429 or 5xx and a connection that
//! fails are tried [`TRIES`] times in all, with a growing pause or the one that `Retry-After` asks
//! for. Everything else, time running out included, is an error at once. Under a deadline no
//! request takes longer than what is left of it, and what could only be tried again after it is
//! not.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use http::{HeaderValue, StatusCode, Uri, header};
use picktools_net::{FetchError, FetchErrorKind, Fetched};
use reqwest::Client;
use serde::Deserialize;
use serde_json::json;

use crate::endpoint::{self, EndpointOptions, Secret, printable, shortened};
use picktools::embed::EmbedError;
use picktools::embed::{EmbedProgress, Embedder, Role};

/// The most texts of one request.
const MAX_BATCH_TEXTS: usize = 64;
/// The most text of one request, in bytes; a single text may be all of it.
const MAX_BATCH_BYTES: usize = 64 * 1024;
/// Longer texts are cut, in bytes: about 2,000 tokens, which the usual models read.
const MAX_TEXT_BYTES: usize = 8 * 1024;
/// The longest answer that is read, in bytes: more than a full batch of the longest vectors takes.
const MAX_ANSWER_BYTES: u64 = 16 * 1024 * 1024;
/// The longest vector that is believed.
const MAX_DIMENSIONS: usize = 8 * 1024;
/// How often a request is made before it counts as failed.
const TRIES: u32 = 3;
/// The pause before the second try; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause that `Retry-After` may ask for; who asks for more is not tried again.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

const CHECK_SERVER: &str = "check that the server runs, and the URL";
const CHECK_KIND: &str =
    "check that the URL is that of an OpenAI-compatible API, and the model one for embeddings";
const CHECK_KEY: &str = "check the key";

/// A model behind an OpenAI-compatible endpoint.
///
/// Texts are sent as they are, without a prompt, and cut to 8 KiB. Vectors are scaled to unit
/// length. A text that is embedded again may get a slightly different vector: that is up to the
/// server.
#[derive(Debug)]
pub struct EndpointEmbedder {
    endpoint: Endpoint,
    identity: String,
    dimensions: usize,
}

impl EndpointEmbedder {
    /// Asks the endpoint at `url` for one vector of `model`, to learn its dimensions.
    ///
    /// `url` is the base of the API (`http://localhost:11434/v1`) or the whole address
    /// (`…/v1/embeddings`).
    ///
    /// # Errors
    ///
    /// [`EmbedError::InvalidEndpoint`] when the URL, the model's name or the key cannot be used,
    /// and [`EmbedError::Endpoint`] when the endpoint gives no sound vector.
    pub fn open(url: &str, model: &str, options: &EndpointOptions) -> Result<Self, EmbedError> {
        Self::open_until(url, model, options, None)
    }

    /// As [`open`](Self::open), by `deadline` where there is one.
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
        let endpoint = Endpoint::new(url, model, options)?;
        let dimensions = endpoint
            .embed(&["probe"], None, deadline)?
            .first()
            .map_or(0, Vec::len);
        // Neither a URL nor the number holds a blank, so that no two endpoints share a name.
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
        role: Role,
        texts: &[&str],
        progress: EmbedProgress<'_>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.embed_until(role, texts, progress, None)
    }

    fn embed_until(
        &self,
        _: Role,
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

/// Cuts texts to what is sent of them, and their list to what is sent at once.
fn batches<'a>(texts: &[&'a str]) -> Vec<Vec<&'a str>> {
    let mut batches: Vec<Vec<&str>> = Vec::new();
    let mut bytes = 0;
    for text in texts
        .iter()
        .map(|text| &text[..text.floor_char_boundary(MAX_TEXT_BYTES)])
    {
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

/// What is asked, and how.
struct Endpoint {
    client: Client,
    url: String,
    model: String,
    timeout: Duration,
    key: Option<Key>,
}

struct Key {
    secret: Secret,
    header: HeaderValue,
}

/// Why a request failed.
struct Failure {
    reason: String,
    remedy: &'static str,
    again: Again,
}

/// Whether another try may help.
enum Again {
    No,
    Soon,
    After(Duration),
}

impl Failure {
    fn last(reason: impl Into<String>, remedy: &'static str) -> Self {
        Self {
            reason: reason.into(),
            remedy,
            again: Again::No,
        }
    }

    /// The pause before the next try, where there shall be one.
    fn pause(&self, tries: u32) -> Option<Duration> {
        match self.again {
            _ if tries >= TRIES => None,
            Again::No => None,
            Again::Soon => Some(FIRST_PAUSE * 2_u32.pow(tries - 1)),
            Again::After(pause) => Some(pause).filter(|pause| *pause <= LONGEST_PAUSE),
        }
    }
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    index: usize,
    embedding: Vec<f32>,
}

impl Endpoint {
    fn new(url: &str, model: &str, options: &EndpointOptions) -> Result<Self, EmbedError> {
        let refused = |reason: &str, remedy: &str| EmbedError::InvalidEndpoint {
            url: printable(url),
            reason: reason.to_owned(),
            remedy: remedy.to_owned(),
        };
        if model.trim().is_empty() {
            return Err(refused(
                "the model has no name",
                "name the model to ask for",
            ));
        }
        let uri = full_url(url).map_err(|(reason, remedy)| refused(reason, remedy))?;
        let key = Secret::new(options.api_key.as_deref());
        let key = key
            .map(|secret| {
                secret
                    .header("Bearer ")
                    .map(|header| Key { secret, header })
            })
            .transpose();
        let key = key.map_err(|()| {
            refused(
                "the API key holds characters that cannot be sent",
                CHECK_KEY,
            )
        })?;
        let client = options
            .client(&uri)
            .map_err(|reason| refused(&reason, "install the certificates of the system"))?;
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
        let mut tries = 1;
        let left = || deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let failure = loop {
            let timeout = left().map_or(self.timeout, |left| left.min(self.timeout));
            let answer = self.post(&request, timeout);
            match answer.and_then(|answer| self.vectors(&answer, texts.len(), dimensions)) {
                Ok(vectors) => return Ok(vectors),
                Err(failure) => match failure.pause(tries) {
                    Some(pause) if left().is_none_or(|left| pause < left) => thread::sleep(pause),
                    _ => break failure,
                },
            }
            tries += 1;
        };
        let tried = if tries > 1 {
            format!(" (tried {tries} times)")
        } else {
            String::new()
        };
        Err(EmbedError::Endpoint {
            url: self.url.clone(),
            model: self.model.clone(),
            reason: failure.reason + &tried,
            remedy: failure.remedy.to_owned(),
        })
    }

    /// Makes one request, which takes no longer than `timeout`, and returns the body of a
    /// successful answer.
    fn post(&self, request: &str, timeout: Duration) -> Result<Vec<u8>, Failure> {
        let mut call = self
            .client
            .post(&self.url)
            .timeout(timeout)
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            call = call.header(header::AUTHORIZATION, key.header.clone());
        }
        let fetched = picktools_net::fetch(call.body(request.to_owned()), MAX_ANSWER_BYTES);
        let Fetched {
            status,
            headers,
            body,
            ..
        } = fetched.map_err(|error| self.no_answer(&error, timeout))?;
        let text =
            |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        if status.is_success() {
            return match body {
                Some(body) => Ok(body),
                None => Err(Failure::last(
                    format!("its answer is longer than {} MiB", MAX_ANSWER_BYTES >> 20),
                    CHECK_KIND,
                )),
            };
        }
        let mut reason = format!("it answered {status}");
        if let Some(place) = text(header::LOCATION).filter(|_| status.is_redirection()) {
            reason.push_str(&format!(
                " to {}",
                printable(&endpoint::without(self.secret(), place))
            ));
        }
        let pause = text(header::RETRY_AFTER)
            .and_then(|seconds| seconds.trim().parse().ok())
            .map(Duration::from_secs);
        if let Some(pause) = pause {
            reason.push_str(&format!(", to be asked again after {} s", pause.as_secs()));
        }
        match body.map(|body| self.message(&body)) {
            Some(message) if !message.is_empty() => reason.push_str(&format!(": {message}")),
            _ => {}
        }
        let passes = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        let again = match pause {
            _ if !passes => Again::No,
            Some(pause) => Again::After(pause),
            None => Again::Soon,
        };
        Err(Failure {
            reason,
            remedy: remedy(status),
            again,
        })
    }

    /// Says why there is no answer, or not all of it.
    fn no_answer(&self, error: &FetchError, timeout: Duration) -> Failure {
        let again = match error.kind {
            FetchErrorKind::Connection => Again::Soon,
            _ => Again::No,
        };
        let reason = endpoint::reason(error, timeout);
        Failure {
            reason: self.excerpt(&reason),
            remedy: CHECK_SERVER,
            again,
        }
    }

    /// Reads the vectors out of an answer, one a text, in the order of the texts.
    fn vectors(
        &self,
        body: &[u8],
        texts: usize,
        dimensions: Option<usize>,
    ) -> Result<Vec<Vec<f32>>, Failure> {
        let wrong = |reason: String| Failure::last(reason, CHECK_KIND);
        let answer: Answer = serde_json::from_slice(body).map_err(|error| {
            let error = self.excerpt(&error.to_string());
            wrong(format!(
                "its answer holds no embeddings ({error}): {}",
                self.message(body)
            ))
        })?;
        if answer.data.len() != texts {
            return Err(wrong(format!(
                "it gave {} vectors for {texts} texts",
                answer.data.len()
            )));
        }
        let dimensions = dimensions
            .or(answer.data.first().map(|first| first.embedding.len()))
            .unwrap_or(0);
        if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
            return Err(wrong(format!(
                "it gave a vector of {dimensions} dimensions, not of 1 to {MAX_DIMENSIONS}"
            )));
        }
        let mut vectors = vec![Vec::new(); texts];
        for Embedding { index, embedding } in answer.data {
            if embedding.len() != dimensions {
                let found = embedding.len();
                return Err(wrong(format!(
                    "it gave a vector of {found} dimensions instead of {dimensions}"
                )));
            }
            let vector = unit(embedding).map_err(|reason| wrong(reason.to_owned()))?;
            match vectors.get_mut(index) {
                Some(place) if place.is_empty() => *place = vector,
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

    fn message(&self, body: &[u8]) -> String {
        endpoint::message(self.secret(), body)
    }

    /// Shortens foreign text to one line without the key.
    fn excerpt(&self, text: &str) -> String {
        shortened(&endpoint::without(self.secret(), text))
    }

    fn secret(&self) -> Option<&Secret> {
        self.key.as_ref().map(|key| &key.secret)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("url", &self.url)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// Where to post; or what is wrong with the URL, and what to do.
fn full_url(url: &str) -> Result<Uri, (&'static str, &'static str)> {
    const EXAMPLE: &str = "write it like http://localhost:11434/v1";
    let uri = endpoint::base_url(url).map_err(|reason| {
        let named = reason == endpoint::HOLDS_USER;
        (
            reason,
            if named {
                "leave it out; a key belongs into the options"
            } else {
                EXAMPLE
            },
        )
    })?;
    let path = match uri.path().trim_end_matches('/') {
        "" => "/v1/embeddings".to_owned(),
        full if full.ends_with("/embeddings") => full.to_owned(),
        base => format!("{base}/embeddings"),
    };
    let mut parts = uri.into_parts();
    parts.path_and_query = path.parse().ok();
    Uri::from_parts(parts).map_err(|_| ("the URL is none", EXAMPLE))
}

/// Scales a vector to unit length.
fn unit(mut vector: Vec<f32>) -> Result<Vec<f32>, &'static str> {
    if vector.iter().any(|value| !value.is_finite()) {
        return Err("it gave a vector that holds a value that is no number");
    }
    // The square of a large f32 is an f64 only.
    let length = vector
        .iter()
        .map(|&value| f64::from(value) * f64::from(value))
        .sum::<f64>()
        .sqrt();
    if length <= 0.0 {
        return Err("it gave a vector of zeros");
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "no component of a unit vector is larger than 1"
    )]
    vector
        .iter_mut()
        .for_each(|value| *value = (f64::from(*value) / length) as f32);
    Ok(vector)
}

fn remedy(status: StatusCode) -> &'static str {
    match status.as_u16() {
        300..=399 => "name the URL it points to, if that is to be trusted",
        401 | 403 => CHECK_KEY,
        404 | 405 => "check the URL, which mostly ends in /v1, and the model's name",
        429 => "try again later, or raise the limit that the server sets",
        500.. => "try again later, or see what the server logs",
        _ => CHECK_KIND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_and_a_whole_address_are_one_endpoint() {
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
    fn batches_are_bounded_by_count_and_by_size_and_lose_nothing() {
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
