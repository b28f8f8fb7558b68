//! Who may come in over HTTP, how often, and how many at once.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::GatewayError;
use crate::keys::hex;
use crate::lock::lock;
use crate::settings::{DEFAULT_ROLE, Key, Settings};
use crate::shared_store::{Failure, Fault, Purpose, Store};

/// The most requests at once, of all clients.
const MAX_REQUESTS: usize = 1_024;

/// Who may come in.
#[derive(Default)]
pub(crate) struct Guests {
    keys: Vec<Arc<Guest>>,
    /// Who comes without a key; nobody where it is `None`.
    anonymous: Option<Arc<Guest>>,
    /// Who holds the key that was made for the console when the gateway started.
    console: Option<Arc<Guest>>,
}

/// A key, and what it is doing.
pub(crate) struct Guest {
    key: Key,
    pub(crate) name: Arc<str>,
    pub(crate) role: Arc<str>,
    /// SHA-256 of the key.
    digest: [u8; 32],
    places: Arc<Semaphore>,
    bucket: Mutex<Bucket>,
    expires: Option<u64>,
}

/// How many requests are left, which grow with time.
struct Bucket {
    left: f64,
    burst: f64,
    per_second: f64,
    at: Instant,
}

impl Bucket {
    fn new(key: &Key) -> Self {
        let burst = f64::from(key.burst.max(1));
        Self { left: burst, burst, per_second: f64::from(key.per_minute) / 60.0, at: Instant::now() }
    }

    /// Takes one, or tells how long until there is one.
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * self.per_second).min(self.burst);
        self.at = now;
        if self.left >= 1.0 {
            self.left -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64(((1.0 - self.left) / self.per_second.max(1e-6)).min(3_600.0)))
    }
}

/// Takes one of the requests that a key has at all gateways together, or tells how many microseconds until there is one. What is
/// kept is the time until which its requests are spent (GCRA), and only while it is to come.
const TAKE: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local latest = now + burst * interval
local kept = redis.call('GET', KEYS[1])
local spent = tonumber(kept or now)
if not spent then return redis.error_reply('WRONGTYPE it is no time') end
local is_late = spent > latest
spent = math.min(math.max(spent, now), latest)
local wait = spent + interval - latest
if wait <= 0 then spent = spent + interval end
if wait <= 0 or is_late then
  redis.call('SET', KEYS[1], string.format('%.0f', spent), 'PX', string.format('%.0f', math.ceil((spent - now) / 1000)))
end
return string.format('%.0f', math.max(wait, 0))";

impl Guest {
    fn of(key: &Key) -> Result<Arc<Self>, GatewayError> {
        let failed = || GatewayError::Settings(format!("the key {:?}: sha256 must be 64 hexadecimal digits", key.name));
        let mut digest = [0; 32];
        let digits = key.sha256.strip_prefix("sha256:").unwrap_or(&key.sha256);
        if digits.len() != 64 || !digits.is_ascii() {
            return Err(failed());
        }
        for (byte, at) in digest.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| failed())?;
        }
        Ok(Arc::new(Self {
            key: key.clone(),
            name: key.name.as_str().into(),
            role: key.role.as_deref().unwrap_or(DEFAULT_ROLE).into(),
            digest,
            places: Arc::new(Semaphore::new(key.parallel.max(1))),
            bucket: Mutex::new(Bucket::new(key)),
            expires: key.expires,
        }))
    }

    /// What stands for who it is where gateways share something of it: another role or key is somebody else.
    pub(crate) fn identity(&self) -> String {
        let of = format!("{} {} {}", self.name, self.role, self.key.sha256);
        hex(&crate::keys::digest(&of))[..32].to_owned()
    }

    /// As whom it sends requests.
    pub(crate) fn sender(&self) -> Sender {
        Sender { role: Arc::clone(&self.role), key: Arc::clone(&self.name) }
    }

    /// Counts a request, if this guest may send one now: here, and at all gateways that share a store. Where that does not answer
    /// nobody knows what the others let in, and each request counts twice here.
    pub(crate) async fn count(&self, store: Option<&Store>) -> Result<(), Refused> {
        let refused = |time| Refused::later(StatusCode::TOO_MANY_REQUESTS, "this key has sent too many requests", time);
        lock(&self.bucket).take(Instant::now()).map_err(refused)?;
        let Some(store) = store else { return Ok(()) };
        match self.count_at_all(store).await {
            Ok(time) if time.is_zero() => Ok(()),
            Ok(time) => Err(refused(time)),
            Err(_) => {
                let mut bucket = lock(&self.bucket);
                if bucket.burst < 2.0 { Ok(()) } else { bucket.take(Instant::now()).map_err(refused) }
            }
        }
    }

    /// Takes one of the requests that all gateways share, or tells how long until there is one.
    async fn count_at_all(&self, store: &Store) -> Result<Duration, Failure> {
        let key = store.key(&format!("rate:{}", self.identity()));
        let interval = 60e6 / f64::from(self.key.per_minute).max(1.0 / 60.0);
        let (interval, burst) = (format!("{interval:.0}"), self.key.burst.max(1).to_string());
        let take = move |store: &Store| {
            let answer = store.run(Purpose::Rates, TAKE, &[&key], &[interval.as_bytes(), burst.as_bytes()])?;
            let time = answer.text().and_then(|text| text.parse().ok());
            time.ok_or_else(|| Failure::new(Fault::Foreign, "it does not say how long to wait"))
        };
        let time: u64 = store.soon(Purpose::Rates, take).await?;
        Ok(Duration::from_micros(time.min(3_600_000_000)))
    }
}

/// Who sent a request over HTTP: found among its parts.
#[derive(Clone)]
pub(crate) struct Sender {
    pub(crate) role: Arc<str>,
    pub(crate) key: Arc<str>,
}

/// A request that is not let in.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    pub(crate) message: &'static str,
    pub(crate) retry_after: Option<Duration>,
}

impl Refused {
    pub(crate) fn new(status: StatusCode, message: &'static str) -> Self {
        Self { status, message, retry_after: None }
    }

    pub(crate) fn later(status: StatusCode, message: &'static str, time: Duration) -> Self {
        Self { status, message, retry_after: Some(time) }
    }

    /// Puts into headers what a client is told to do.
    pub(crate) fn advise(&self, headers: &mut HeaderMap) {
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(time) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(time.as_secs().max(1)));
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = (self.status, format!("{}\n", self.message)).into_response();
        self.advise(response.headers_mut());
        response
    }
}

impl Guests {
    /// Who may come in under these settings; those of `before` whose key is as it was stay who they are.
    pub(crate) fn new(settings: &Settings, address: &SocketAddr, before: &Self) -> Result<Self, GatewayError> {
        let refuse = |message: String| Err(GatewayError::Settings(message));
        let is_local = address.ip().is_loopback();
        if !is_local && settings.keys.is_empty() {
            return refuse(format!(
                "{address} can be reached from other machines: the settings must hold keys (picktools serve --new-key NAME)"
            ));
        }
        if !is_local && settings.anonymous.is_some() {
            return refuse("callers without a key are for this machine alone: take `anonymous` out".to_owned());
        }
        let guest = |key: &Key| match before.keys.iter().chain(&before.anonymous).find(|guest| guest.key == *key) {
            Some(same) => Ok(Arc::clone(same)),
            None => Guest::of(key),
        };
        let anonymous = match (&settings.anonymous, settings.keys.is_empty()) {
            (Some(role), _) => Some(role.as_str()),
            (None, true) => Some(DEFAULT_ROLE),
            (None, false) => None,
        };
        Ok(Self {
            keys: settings.keys.iter().map(guest).collect::<Result<_, _>>()?,
            anonymous: anonymous.map(|role| guest(&Key::anonymous(role))).transpose()?,
            console: before.console.clone(),
        })
    }

    /// Lets an operator in besides, by the digest of a key that the settings do not hold: into the console alone.
    pub(crate) fn with_console(self, digest: &str) -> Result<Self, GatewayError> {
        Ok(Self { console: Some(Guest::of(&Key::console(digest))?), ..self })
    }

    /// The operator whose key it is. Who comes without a key is none, whatever role that has.
    pub(crate) fn operator(&self, key: Option<&str>, settings: &Settings) -> Result<Arc<Guest>, Refused> {
        let is_operator = |guest: &Arc<Guest>| settings.role(&guest.role).operator;
        if self.console.is_none() && !self.keys.iter().any(is_operator) {
            let message = "nobody is an operator here: start with `picktools serve --console`, or give a key a role with \
                           \"operator\": true in the settings";
            return Err(Refused::new(StatusCode::FORBIDDEN, message));
        }
        let Some(key) = key else {
            return Err(Refused::new(StatusCode::UNAUTHORIZED, "an operator's key is needed: Authorization: Bearer …"));
        };
        let digest = crate::keys::digest(key);
        if let Some(console) = self.console.as_ref().filter(|console| console.digest == digest) {
            return Ok(Arc::clone(console));
        }
        let guest = self.of(Some(key))?;
        if is_operator(&guest) {
            return Ok(guest);
        }
        Err(Refused::new(
            StatusCode::FORBIDDEN,
            "this key is no operator's: its role needs \"operator\": true in the settings",
        ))
    }

    /// Those who are there.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Guest>> {
        self.keys.iter().chain(&self.anonymous)
    }

    /// Whose key it is, or who comes without one.
    pub(crate) fn of(&self, key: Option<&str>) -> Result<Arc<Guest>, Refused> {
        let refused = |message| Refused::new(StatusCode::UNAUTHORIZED, message);
        let Some(key) = key else {
            return self.anonymous.clone().ok_or_else(|| refused("a key is needed: Authorization: Bearer …"));
        };
        let digest = crate::keys::digest(key);
        // Digests tell nothing of the key, however long they are compared.
        let guest = self.keys.iter().find(|guest| guest.digest == digest).cloned();
        let guest = guest.ok_or_else(|| refused("the key is not known"))?;
        match guest.expires {
            Some(until) if until <= crate::keys::now() => Err(refused("the key has expired")),
            _ => Ok(guest),
        }
    }

    /// Returns `true` if nobody has a key, so that all come without one.
    pub(crate) fn have_no_keys(&self) -> bool {
        self.keys.is_empty()
    }
}

/// The one value of a header; `None` where it is not there.
pub(crate) fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Refused> {
    let unknown = || Refused::new(StatusCode::UNAUTHORIZED, "the key is not known");
    let mut given = headers.get_all(name).iter();
    let Some(value) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(unknown());
    }
    value.to_str().map(Some).map_err(|_| unknown())
}

/// The key of `Authorization: Bearer …`; `None` where the header is not there.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Refused> {
    let Some(value) = only(headers, &header::AUTHORIZATION)? else { return Ok(None) };
    match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(token.trim())),
        _ => Err(Refused::new(StatusCode::UNAUTHORIZED, "the key is not known")),
    }
}

/// The places that requests have.
pub(crate) struct Places(Arc<Semaphore>);

impl Places {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(MAX_REQUESTS)))
    }

    /// A place among those of a key and of all.
    pub(crate) fn take(&self, guest: &Guest) -> Result<Place, Refused> {
        let soon = Duration::from_secs(1);
        let own = Arc::clone(&guest.places).try_acquire_owned().map_err(|_| {
            Refused::later(StatusCode::TOO_MANY_REQUESTS, "this key has too many requests under way", soon)
        })?;
        let all = Arc::clone(&self.0).try_acquire_owned();
        let all = all.map_err(|_| Refused::later(StatusCode::SERVICE_UNAVAILABLE, "too many requests", soon))?;
        Ok(Place { _own: own, _all: all })
    }
}

/// A place for a request, which it has until its answer has ended.
pub(crate) struct Place {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

/// An answer that has a place.
pub(crate) struct Placed {
    body: Body,
    _place: Option<Place>,
}

impl Placed {
    /// An answer that keeps the place until it has ended.
    pub(crate) fn answer(response: Response, place: Option<Place>) -> Response {
        response.map(|body| Body::new(Self { body, _place: place }))
    }
}

impl http_body::Body for Placed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
