//! API keys over HTTP, with rate limits and limits of concurrent requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use picktools_state::keys::{digest, hex, now};
use picktools_state::{Purpose, StateStore, StoreFailure, StoreFault, lock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::GatewayError;
use crate::refusal::{Code, Refusal};
use crate::settings::{DEFAULT_ROLE, Key, Settings};

/// The most concurrent requests of all clients.
const MAX_REQUESTS: usize = 1_024;

/// The accepted keys.
#[derive(Default)]
pub struct ApiKeys {
    keys: Vec<Arc<ApiKey>>,
    /// The stand-in key of callers without a key; `None` if a key is required.
    anonymous: Option<Arc<ApiKey>>,
    /// The key that was created for the console at the start.
    console: Option<Arc<ApiKey>>,
}

/// A key with its state.
pub struct ApiKey {
    key: Key,
    pub(crate) name: Arc<str>,
    /// The role of the key.
    pub role: Arc<str>,
    /// SHA-256 of the key.
    digest: [u8; 32],
    permits: Arc<Semaphore>,
    rate_limiter: Mutex<RateLimiter>,
    expires: Option<u64>,
}

/// A token bucket: the number of requests left, which grows with time.
struct RateLimiter {
    available: f64,
    burst: f64,
    per_second: f64,
    updated: Instant,
}

impl RateLimiter {
    fn new(key: &Key) -> Self {
        let burst = f64::from(key.burst.max(1));
        Self {
            available: burst,
            burst,
            per_second: f64::from(key.per_minute) / 60.0,
            updated: Instant::now(),
        }
    }

    /// Takes one request, or returns the time until the next one is available.
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.updated).as_secs_f64();
        self.available = (self.available + passed * self.per_second).min(self.burst);
        self.updated = now;
        if self.available >= 1.0 {
            self.available -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64(
            ((1.0 - self.available) / self.per_second.max(1e-6)).min(3_600.0),
        ))
    }
}

/// Takes one request of a key's shared limit, or returns the microseconds until the next one. It
/// stores the theoretical arrival time of the GCRA algorithm. The entry expires at that time.
const TAKE_SHARED: &str = "\
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

impl ApiKey {
    fn new(key: &Key) -> Result<Arc<Self>, GatewayError> {
        let failed = || {
            GatewayError::Settings(format!(
                "the key {:?}: sha256 must be 64 hexadecimal digits",
                key.name
            ))
        };
        let mut digest = [0; 32];
        let digits = key.digits();
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
            permits: Arc::new(Semaphore::new(key.parallel.max(1))),
            rate_limiter: Mutex::new(RateLimiter::new(key)),
            expires: key.expires,
        }))
    }

    /// Returns the identity of the key in shared state. Another role or another key is another
    /// identity.
    pub fn identity(&self) -> String {
        let text = format!("{} {} {}", self.name, self.role, self.key.sha256);
        hex(&digest(&text))[..32].to_owned()
    }

    /// Returns the identity under which the key sends requests.
    pub fn request_identity(&self) -> RequestIdentity {
        RequestIdentity {
            role: Arc::clone(&self.role),
            key: Arc::clone(&self.name),
        }
    }

    /// Counts a request against the limits of this gateway, and of all gateways that share a store.
    /// If the store fails, each request counts twice here (once if the burst is 1), because the
    /// requests at the other gateways are unknown.
    ///
    /// # Errors
    ///
    /// [`HttpRefusal`] with the time to wait if the limit is reached.
    pub fn count_request<'a>(
        &'a self,
        store: Option<&'a StateStore>,
    ) -> BoxFuture<'a, Result<(), HttpRefusal>> {
        let count = async move {
            let too_many = |time| {
                HttpRefusal::later(
                    StatusCode::TOO_MANY_REQUESTS,
                    "this key has sent too many requests",
                    time,
                )
            };
            lock(&self.rate_limiter)
                .take(Instant::now())
                .map_err(too_many)?;
            let Some(store) = store else { return Ok(()) };
            match self.count_shared_request(store).await {
                Ok(time) if time.is_zero() => Ok(()),
                Ok(time) => Err(too_many(time)),
                Err(_) => {
                    let mut rate_limiter = lock(&self.rate_limiter);
                    if rate_limiter.burst < 2.0 {
                        Ok(())
                    } else {
                        rate_limiter.take(Instant::now()).map_err(too_many)
                    }
                }
            }
        };
        count.boxed()
    }

    /// Takes one request of the shared limit, or returns the time until the next one.
    async fn count_shared_request(&self, store: &StateStore) -> Result<Duration, StoreFailure> {
        let key = store.key(&format!("rate:{}", self.identity()));
        let interval = 60e6 / f64::from(self.key.per_minute).max(1.0 / 60.0);
        let (interval, burst) = (format!("{interval:.0}"), self.key.burst.max(1).to_string());
        let take = move |store: &StateStore| {
            let answer = store.run_script(
                Purpose::Rates,
                TAKE_SHARED,
                &[&key],
                &[interval.as_bytes(), burst.as_bytes()],
            )?;
            let time = answer.text().and_then(|text| text.parse().ok());
            time.ok_or_else(|| {
                StoreFailure::new(StoreFault::Foreign, "the reply contains no wait time")
            })
        };
        let time: u64 = store.run_async(Purpose::Rates, take).await?;
        Ok(Duration::from_micros(time.min(3_600_000_000)))
    }
}

/// The rate limit of the key of an HTTP request, found among its extensions.
#[derive(Clone)]
pub struct KeyRateLimit {
    /// The key.
    pub api_key: Arc<ApiKey>,
    /// The store that counts the requests of all gateways.
    pub store: Option<StateStore>,
}

impl KeyRateLimit {
    /// Counts work that the request contains as a further request.
    pub(crate) async fn count_more(&self) -> Result<(), Refusal> {
        let counted = self.api_key.count_request(self.store.as_ref()).await;
        counted.map_err(|refusal| {
            let time = refusal.retry_after.unwrap_or_default();
            Refusal::new(Code::Busy, refusal.message).retry_after(time)
        })
    }
}

/// The identity of an HTTP request, found among its extensions.
#[derive(Clone)]
pub struct RequestIdentity {
    /// The role of the key.
    pub role: Arc<str>,
    /// The name of the key in the settings.
    pub key: Arc<str>,
}

/// A refused HTTP request.
#[derive(Debug)]
pub struct HttpRefusal {
    /// The status of the response.
    pub status: StatusCode,
    /// The reason, and what to do.
    pub message: &'static str,
    /// The time after which a retry may succeed.
    pub retry_after: Option<Duration>,
}

impl HttpRefusal {
    /// Creates a refusal without a retry time.
    pub fn new(status: StatusCode, message: &'static str) -> Self {
        Self {
            status,
            message,
            retry_after: None,
        }
    }

    pub(crate) fn later(status: StatusCode, message: &'static str, time: Duration) -> Self {
        Self {
            status,
            message,
            retry_after: Some(time),
        }
    }

    /// Adds the headers that tell a client what to do.
    pub fn advise(&self, headers: &mut HeaderMap) {
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(time) = self.retry_after {
            headers.insert(
                header::RETRY_AFTER,
                HeaderValue::from(time.as_secs().max(1)),
            );
        }
    }
}

impl ApiKeys {
    /// Creates the keys of the settings; unchanged keys of `previous` keep their state.
    ///
    /// # Errors
    ///
    /// [`GatewayError::Settings`] if other machines could connect without a key, or a digest is
    /// invalid.
    pub fn new(
        settings: &Settings,
        address: &SocketAddr,
        previous: &Self,
    ) -> Result<Self, GatewayError> {
        let refuse = |message: String| Err(GatewayError::Settings(message));
        let is_local = address.ip().is_loopback();
        if !is_local && settings.keys.is_empty() {
            return refuse(format!(
                "{address} can be reached from other machines, so the settings must contain keys; \
                 create one with `picktools serve --new-key NAME`"
            ));
        }
        if !is_local && settings.anonymous.is_some() {
            return refuse(
                "`anonymous` is allowed only if just this machine can connect; remove it"
                    .to_owned(),
            );
        }
        let api_key = |key: &Key| match previous
            .keys
            .iter()
            .chain(&previous.anonymous)
            .find(|api_key| api_key.key == *key)
        {
            Some(same) => Ok(Arc::clone(same)),
            None => ApiKey::new(key),
        };
        let anonymous = match (&settings.anonymous, settings.keys.is_empty()) {
            (Some(role), _) => Some(role.as_str()),
            (None, true) => Some(DEFAULT_ROLE),
            (None, false) => None,
        };
        Ok(Self {
            keys: settings
                .keys
                .iter()
                .map(api_key)
                .collect::<Result<_, _>>()?,
            anonymous: anonymous
                .map(|role| api_key(&Key::anonymous(role)))
                .transpose()?,
            console: previous.console.clone(),
        })
    }

    /// Also accepts a console key, given by its digest, which the settings do not contain.
    ///
    /// # Errors
    ///
    /// [`GatewayError::Settings`] if the digest is invalid.
    pub fn with_console(self, digest: &str) -> Result<Self, GatewayError> {
        Ok(Self {
            console: Some(ApiKey::new(&Key::console(digest))?),
            ..self
        })
    }

    /// Finds the operator with a key. A caller without a key is never an operator.
    ///
    /// # Errors
    ///
    /// [`HttpRefusal`] if the key does not belong to an operator.
    pub fn find_operator(
        &self,
        key: Option<&str>,
        settings: &Settings,
    ) -> Result<Arc<ApiKey>, HttpRefusal> {
        let is_operator = |api_key: &Arc<ApiKey>| settings.role(&api_key.role).operator;
        if self.console.is_none() && !self.keys.iter().any(is_operator) {
            let message = "no operator is configured; start with `picktools serve --console`, or \
                           give a key a role with \"operator\": true in the settings";
            return Err(HttpRefusal::new(StatusCode::FORBIDDEN, message));
        }
        let Some(key) = key else {
            return Err(HttpRefusal::new(
                StatusCode::UNAUTHORIZED,
                "missing operator key; send Authorization: Bearer …",
            ));
        };
        let digest = digest(key);
        if let Some(console) = self
            .console
            .as_ref()
            .filter(|console| console.digest == digest)
        {
            return Ok(Arc::clone(console));
        }
        let api_key = self.find(Some(key))?;
        if is_operator(&api_key) {
            return Ok(api_key);
        }
        Err(HttpRefusal::new(
            StatusCode::FORBIDDEN,
            "this key does not belong to an operator; its role needs \"operator\": true in the \
             settings",
        ))
    }

    /// Returns all keys, including the stand-in key of callers without a key.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ApiKey>> {
        self.keys.iter().chain(&self.anonymous)
    }

    /// Finds the API key for a secret, or the stand-in key of callers without one.
    ///
    /// # Errors
    ///
    /// [`HttpRefusal`] if the key is missing, unknown or expired.
    pub fn find(&self, key: Option<&str>) -> Result<Arc<ApiKey>, HttpRefusal> {
        let unauthorized = |message| HttpRefusal::new(StatusCode::UNAUTHORIZED, message);
        let Some(key) = key else {
            return self
                .anonymous
                .clone()
                .ok_or_else(|| unauthorized("missing key; send Authorization: Bearer …"));
        };
        let digest = digest(key);
        // Digests are compared, so the duration of the comparison reveals nothing about a key.
        let api_key = self
            .keys
            .iter()
            .find(|api_key| api_key.digest == digest)
            .cloned();
        let api_key = api_key.ok_or_else(|| unauthorized("unknown key"))?;
        match api_key.expires {
            Some(until) if until <= now() => Err(unauthorized("the key has expired")),
            _ => Ok(api_key),
        }
    }

    /// Returns `true` if there are no keys, so that every caller comes without one.
    pub fn is_keyless(&self) -> bool {
        self.keys.is_empty()
    }
}

/// Returns the value of a header; `None` if it is missing.
///
/// # Errors
///
/// [`HttpRefusal`] if the header occurs more than once.
pub fn single_header<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'h str>, HttpRefusal> {
    let unknown = || HttpRefusal::new(StatusCode::UNAUTHORIZED, "unknown key");
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(unknown());
    }
    value.to_str().map(Some).map_err(|_| unknown())
}

/// Returns the token of `Authorization: Bearer …`; `None` if the header is missing.
///
/// # Errors
///
/// [`HttpRefusal`] if the header has another scheme.
pub fn bearer_token(headers: &HeaderMap) -> Result<Option<&str>, HttpRefusal> {
    let Some(value) = single_header(headers, &header::AUTHORIZATION)? else {
        return Ok(None);
    };
    match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(token.trim())),
        _ => Err(HttpRefusal::new(StatusCode::UNAUTHORIZED, "unknown key")),
    }
}

/// The limit of concurrent requests.
pub struct RequestLimiter(Arc<Semaphore>);

impl Default for RequestLimiter {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_REQUESTS)))
    }
}

impl RequestLimiter {
    /// Takes a permit of a key and of the whole server.
    ///
    /// # Errors
    ///
    /// [`HttpRefusal`] if no permit is left.
    pub fn take(&self, api_key: &ApiKey) -> Result<RequestPermit, HttpRefusal> {
        let retry_after = Duration::from_secs(1);
        let key_permit = Arc::clone(&api_key.permits)
            .try_acquire_owned()
            .map_err(|_| {
                HttpRefusal::later(
                    StatusCode::TOO_MANY_REQUESTS,
                    "this key has too many concurrent requests",
                    retry_after,
                )
            })?;
        let server_permit = Arc::clone(&self.0).try_acquire_owned();
        let server_permit = server_permit.map_err(|_| {
            HttpRefusal::later(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many requests",
                retry_after,
            )
        })?;
        Ok(RequestPermit {
            _key: key_permit,
            _server: server_permit,
        })
    }
}

/// A permit for one request, held until its response has ended.
pub struct RequestPermit {
    _key: OwnedSemaphorePermit,
    _server: OwnedSemaphorePermit,
}
