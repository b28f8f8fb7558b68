//! Who may come in over HTTP, how often, and how many at once.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use picktools_state::keys::{digest, hex, now};
use picktools_state::{Failure, Fault, Purpose, Store, lock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::GatewayError;
use crate::settings::{DEFAULT_ROLE, Key, Settings};

/// The most requests at once, of all clients.
const MAX_REQUESTS: usize = 1_024;

/// The guests that may come in.
#[derive(Default)]
pub struct Guests {
    keys: Vec<Arc<Guest>>,
    /// Who comes without a key; nobody where it is `None`.
    anonymous: Option<Arc<Guest>>,
    /// Who holds the key that was made for the console when the gateway started.
    console: Option<Arc<Guest>>,
}

/// A key, and what it is doing.
pub struct Guest {
    key: Key,
    pub(crate) name: Arc<str>,
    /// Its role.
    pub role: Arc<str>,
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
        Self {
            left: burst,
            burst,
            per_second: f64::from(key.per_minute) / 60.0,
            at: Instant::now(),
        }
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
        Err(Duration::from_secs_f64(
            ((1.0 - self.left) / self.per_second.max(1e-6)).min(3_600.0),
        ))
    }
}

/// Takes one of the requests that a key has at all gateways together, or tells how many
/// microseconds until there is one. What is kept is the time until which its requests are spent
/// (GCRA), and only while it is to come.
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
        let failed = || {
            GatewayError::Settings(format!(
                "the key {:?}: sha256 must be 64 hexadecimal digits",
                key.name
            ))
        };
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

    /// Returns what stands for who it is where gateways share something of it: another role or key
    /// is somebody else.
    pub fn identity(&self) -> String {
        let of = format!("{} {} {}", self.name, self.role, self.key.sha256);
        hex(&digest(&of))[..32].to_owned()
    }

    /// Returns as whom it sends requests.
    pub fn sender(&self) -> Sender {
        Sender {
            role: Arc::clone(&self.role),
            key: Arc::clone(&self.name),
        }
    }

    /// Counts a request, if this guest may send one now: here, and at all gateways that share a
    /// store. Where that does not answer nobody knows what the others let in, and each request
    /// counts twice here.
    ///
    /// # Errors
    ///
    /// [`Refused`], with how long until it may.
    pub fn count<'a>(&'a self, store: Option<&'a Store>) -> BoxFuture<'a, Result<(), Refused>> {
        let count = async move {
            let refused = |time| {
                Refused::later(
                    StatusCode::TOO_MANY_REQUESTS,
                    "this key has sent too many requests",
                    time,
                )
            };
            lock(&self.bucket).take(Instant::now()).map_err(refused)?;
            let Some(store) = store else { return Ok(()) };
            match self.count_at_all(store).await {
                Ok(time) if time.is_zero() => Ok(()),
                Ok(time) => Err(refused(time)),
                Err(_) => {
                    let mut bucket = lock(&self.bucket);
                    if bucket.burst < 2.0 {
                        Ok(())
                    } else {
                        bucket.take(Instant::now()).map_err(refused)
                    }
                }
            }
        };
        count.boxed()
    }

    /// Takes one of the requests that all gateways share, or tells how long until there is one.
    async fn count_at_all(&self, store: &Store) -> Result<Duration, Failure> {
        let key = store.key(&format!("rate:{}", self.identity()));
        let interval = 60e6 / f64::from(self.key.per_minute).max(1.0 / 60.0);
        let (interval, burst) = (format!("{interval:.0}"), self.key.burst.max(1).to_string());
        let take = move |store: &Store| {
            let answer = store.run(
                Purpose::Rates,
                TAKE,
                &[&key],
                &[interval.as_bytes(), burst.as_bytes()],
            )?;
            let time = answer.text().and_then(|text| text.parse().ok());
            time.ok_or_else(|| Failure::new(Fault::Foreign, "it does not say how long to wait"))
        };
        let time: u64 = store.soon(Purpose::Rates, take).await?;
        Ok(Duration::from_micros(time.min(3_600_000_000)))
    }
}

/// The sender of a request over HTTP: found among its parts.
#[derive(Clone)]
pub struct Sender {
    /// Its role.
    pub role: Arc<str>,
    /// The name of its key in the settings.
    pub key: Arc<str>,
}

/// A request that is not let in.
#[derive(Debug)]
pub struct Refused {
    /// The status of the answer.
    pub status: StatusCode,
    /// The reason, and what to do.
    pub message: &'static str,
    /// The time after which another try is worth it.
    pub retry_after: Option<Duration>,
}

impl Refused {
    /// Makes one for which no time is known.
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

    /// Puts into headers what a client is told to do.
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

impl Guests {
    /// Finds who may come in under these settings; those of `before` whose key is as it was stay
    /// who they are.
    ///
    /// # Errors
    ///
    /// [`GatewayError::Settings`] where these would let in whom nobody knows, or a key is no
    /// digest.
    pub fn new(
        settings: &Settings,
        address: &SocketAddr,
        before: &Self,
    ) -> Result<Self, GatewayError> {
        let refuse = |message: String| Err(GatewayError::Settings(message));
        let is_local = address.ip().is_loopback();
        if !is_local && settings.keys.is_empty() {
            return refuse(format!(
                "{address} can be reached from other machines: the settings must hold keys (picktools serve --new-key NAME)"
            ));
        }
        if !is_local && settings.anonymous.is_some() {
            return refuse(
                "callers without a key are for this machine alone: take `anonymous` out".to_owned(),
            );
        }
        let guest = |key: &Key| match before
            .keys
            .iter()
            .chain(&before.anonymous)
            .find(|guest| guest.key == *key)
        {
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
            anonymous: anonymous
                .map(|role| guest(&Key::anonymous(role)))
                .transpose()?,
            console: before.console.clone(),
        })
    }

    /// Lets an operator in besides, by the digest of a key that the settings do not hold: into the
    /// console alone.
    ///
    /// # Errors
    ///
    /// [`GatewayError::Settings`] where it is no digest.
    pub fn with_console(self, digest: &str) -> Result<Self, GatewayError> {
        Ok(Self {
            console: Some(Guest::of(&Key::console(digest))?),
            ..self
        })
    }

    /// Finds the operator whose key it is. Who comes without a key is none, whatever role that has.
    ///
    /// # Errors
    ///
    /// [`Refused`] where it is no operator's.
    pub fn operator(&self, key: Option<&str>, settings: &Settings) -> Result<Arc<Guest>, Refused> {
        let is_operator = |guest: &Arc<Guest>| settings.role(&guest.role).operator;
        if self.console.is_none() && !self.keys.iter().any(is_operator) {
            let message = "nobody is an operator here: start with `picktools serve --console`, or give a key a role with \
                           \"operator\": true in the settings";
            return Err(Refused::new(StatusCode::FORBIDDEN, message));
        }
        let Some(key) = key else {
            return Err(Refused::new(
                StatusCode::UNAUTHORIZED,
                "an operator's key is needed: Authorization: Bearer …",
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
        let guest = self.of(Some(key))?;
        if is_operator(&guest) {
            return Ok(guest);
        }
        Err(Refused::new(
            StatusCode::FORBIDDEN,
            "this key is no operator's: its role needs \"operator\": true in the settings",
        ))
    }

    /// Returns those who are there.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Guest>> {
        self.keys.iter().chain(&self.anonymous)
    }

    /// Finds the guest whose key it is, or who comes without one.
    ///
    /// # Errors
    ///
    /// [`Refused`] where it is nobody's.
    pub fn of(&self, key: Option<&str>) -> Result<Arc<Guest>, Refused> {
        let refused = |message| Refused::new(StatusCode::UNAUTHORIZED, message);
        let Some(key) = key else {
            return self
                .anonymous
                .clone()
                .ok_or_else(|| refused("a key is needed: Authorization: Bearer …"));
        };
        let digest = digest(key);
        // Digests tell nothing of the key, however long they are compared.
        let guest = self
            .keys
            .iter()
            .find(|guest| guest.digest == digest)
            .cloned();
        let guest = guest.ok_or_else(|| refused("the key is not known"))?;
        match guest.expires {
            Some(until) if until <= now() => Err(refused("the key has expired")),
            _ => Ok(guest),
        }
    }

    /// Returns `true` if nobody has a key, so that all come without one.
    pub fn have_no_keys(&self) -> bool {
        self.keys.is_empty()
    }
}

/// Returns the one value of a header; `None` where it is not there.
///
/// # Errors
///
/// [`Refused`] where there are several.
pub fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Refused> {
    let unknown = || Refused::new(StatusCode::UNAUTHORIZED, "the key is not known");
    let mut given = headers.get_all(name).iter();
    let Some(value) = given.next() else {
        return Ok(None);
    };
    if given.next().is_some() {
        return Err(unknown());
    }
    value.to_str().map(Some).map_err(|_| unknown())
}

/// Returns the key of `Authorization: Bearer …`; `None` where the header is not there.
///
/// # Errors
///
/// [`Refused`] where it holds something else.
pub fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Refused> {
    let Some(value) = only(headers, &header::AUTHORIZATION)? else {
        return Ok(None);
    };
    match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(token.trim())),
        _ => Err(Refused::new(
            StatusCode::UNAUTHORIZED,
            "the key is not known",
        )),
    }
}

/// The places that requests have.
pub struct Places(Arc<Semaphore>);

impl Default for Places {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_REQUESTS)))
    }
}

impl Places {
    /// Takes a place among those of a key and of all.
    ///
    /// # Errors
    ///
    /// [`Refused`] where all are taken.
    pub fn take(&self, guest: &Guest) -> Result<Place, Refused> {
        let soon = Duration::from_secs(1);
        let own = Arc::clone(&guest.places).try_acquire_owned().map_err(|_| {
            Refused::later(
                StatusCode::TOO_MANY_REQUESTS,
                "this key has too many requests under way",
                soon,
            )
        })?;
        let all = Arc::clone(&self.0).try_acquire_owned();
        let all = all.map_err(|_| {
            Refused::later(StatusCode::SERVICE_UNAVAILABLE, "too many requests", soon)
        })?;
        Ok(Place {
            _own: own,
            _all: all,
        })
    }
}

/// A place for a request, which it has until its answer has ended.
pub struct Place {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}
