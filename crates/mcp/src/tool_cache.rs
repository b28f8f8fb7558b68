//! A cache on disk for the tool lists of servers, and for the handshakes that worked.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use picktools_import::mcp::{Server, ServerTransport};

use super::handshake::Handshake;
use super::private_files;
use super::tool_list::Listing;

/// The version of the file format.
const VERSION: u32 = 1;
/// The suffix of the file with a server's handshake.
const HANDSHAKE_SUFFIX: &str = "handshake.json";
/// The age up to which a handshake is remembered. Then it is tried again if the server has learned
/// a newer one.
const MAX_HANDSHAKE_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A folder with the tool lists and instructions that servers sent earlier, and the handshakes that
/// worked with them.
///
/// A file name is a digest, so it does not reveal the configuration, which may be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolListCache {
    folder: PathBuf,
}

/// The content of a cache file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CachedToolList<'t> {
    version: u32,
    /// Time of the list, in seconds since 1970.
    #[serde(rename = "taken")]
    saved_at: u64,
    /// SHA-256 of the tools and the instructions.
    digest: String,
    tools: Cow<'t, [Value]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
}

/// The content of a file with a handshake.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CachedHandshake {
    version: u32,
    /// Time of the handshake, in seconds since 1970.
    saved_at: u64,
    handshake: CachedHandshakeKind,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CachedHandshakeKind {
    Newest,
    Legacy,
}

impl ToolListCache {
    /// Creates a cache in a folder, which need not exist yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// Returns the cached listing of a server and its age; `None` if there is no intact file.
    pub fn get(&self, server: &Server) -> Option<(Listing, Duration)> {
        let bytes = self.read_own_file(&self.file_path(server, "json"))?;
        let cached: CachedToolList<'_> = serde_json::from_slice(&bytes).ok()?;
        let digest = digest(&cached.tools, cached.instructions.as_deref());
        if cached.version != VERSION || cached.digest != digest {
            return None;
        }
        let mut tools = cached.tools.into_owned();
        server.tools.retain(&mut tools);
        let listing = Listing {
            tools: tools.into(),
            instructions: cached.instructions,
            ..Listing::default()
        };
        Some((listing, age_of(cached.saved_at)))
    }

    /// Saves the listing of a server. If the file cannot be written, the next start asks the
    /// server again.
    pub fn put(&self, server: &Server, listing: &Listing) {
        let cached = CachedToolList {
            version: VERSION,
            saved_at: seconds_since_epoch(),
            digest: digest(&listing.tools, listing.instructions.as_deref()),
            tools: Cow::Borrowed(&listing.tools),
            instructions: listing.instructions.clone(),
        };
        self.write(&self.file_path(server, "json"), &cached);
    }

    /// Returns the handshake that worked with a server, if the usual one did not.
    pub(super) fn handshake(&self, server: &Server) -> Option<Handshake> {
        let bytes = self.read_own_file(&self.file_path(server, HANDSHAKE_SUFFIX))?;
        let cached: CachedHandshake = serde_json::from_slice(&bytes).ok()?;
        if cached.version != VERSION || age_of(cached.saved_at) > MAX_HANDSHAKE_AGE {
            return None;
        }
        Some(match cached.handshake {
            CachedHandshakeKind::Newest => Handshake::NewestFirst,
            CachedHandshakeKind::Legacy => Handshake::LegacyFirst,
        })
    }

    /// Saves the handshake that worked with a server. If the file cannot be written, the next start
    /// tries the usual one again.
    pub(super) fn put_handshake(&self, server: &Server, handshake: Handshake) {
        let cached = CachedHandshake {
            version: VERSION,
            saved_at: seconds_since_epoch(),
            handshake: match handshake {
                Handshake::NewestFirst => CachedHandshakeKind::Newest,
                Handshake::LegacyFirst => CachedHandshakeKind::Legacy,
            },
        };
        self.write(&self.file_path(server, HANDSHAKE_SUFFIX), &cached);
    }

    fn write(&self, path: &Path, content: &impl Serialize) {
        let has_folder = private_files::create_folder(&self.folder).is_ok();
        if let (true, Ok(bytes)) = (has_folder, serde_json::to_vec(content)) {
            drop(private_files::write(path, &bytes));
        }
    }

    /// Reads a file that only this user could write. Another user could write definitions into
    /// another file that the gateway would believe.
    fn read_own_file(&self, path: &Path) -> Option<Vec<u8>> {
        if !path.exists() {
            return None;
        }
        if !private_files::is_own_folder(&self.folder) || !private_files::is_own_file(path) {
            tracing::warn!(
                target: "picktools::mcp", file = %path.display(),
                "a file of the cache is not used: another user could have written it"
            );
            return None;
        }
        std::fs::read(path).ok()
    }

    fn file_path(&self, server: &Server, suffix: &str) -> PathBuf {
        let identity = match &server.transport {
            ServerTransport::Stdio {
                command,
                arguments,
                variables,
                folder,
                inherit,
            } => match inherit.as_slice() {
                [] => json!([command, arguments, variables, folder]),
                names => json!([command, arguments, variables, folder, names]),
            },
            ServerTransport::Http {
                url,
                headers,
                credentials,
            } => {
                let client = match credentials {
                    Some(credentials) => json!([credentials.id, credentials.secret]),
                    None => Value::Null,
                };
                json!([url, headers, client])
            }
        };
        let file_name = format!("{}.{suffix}", hex(identity.to_string().as_bytes()));
        self.folder.join(file_name)
    }
}

fn seconds_since_epoch() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.unwrap_or(Duration::ZERO).as_secs()
}

/// Returns the age of a file. A time in the future comes from a clock that was set back: the file
/// counts as old.
fn age_of(saved_at: u64) -> Duration {
    let now = SystemTime::now();
    UNIX_EPOCH
        .checked_add(Duration::from_secs(saved_at))
        .and_then(|saved_at| now.duration_since(saved_at).ok())
        .unwrap_or(Duration::MAX)
}

fn digest(tools: &[Value], instructions: Option<&str>) -> String {
    let mut text = serde_json::to_string(tools).expect("a JSON value can be written");
    if let Some(instructions) = instructions {
        text.push_str(&json!(instructions).to_string());
    }
    hex(text.as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
