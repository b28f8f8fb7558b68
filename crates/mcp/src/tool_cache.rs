//! A cache on disk for the tool lists of servers.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use picktools::disk;
use picktools_import::mcp::{Server, ServerTransport};

use super::client::Listing;

/// The version of the file format.
const VERSION: u32 = 1;

/// A folder with the tool lists and instructions that servers sent earlier.
///
/// A file name is a digest, so it does not reveal the configuration, which may be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolListCache {
    folder: PathBuf,
}

/// The content of a cache file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CachedToolList {
    version: u32,
    /// Time of the list, in seconds since 1970.
    #[serde(rename = "taken")]
    saved_at: u64,
    /// SHA-256 of the tools and the instructions.
    digest: String,
    tools: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
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
        let bytes = std::fs::read(self.file_path(server)).ok()?;
        let cached: CachedToolList = serde_json::from_slice(&bytes).ok()?;
        let saved_at = UNIX_EPOCH + Duration::from_secs(cached.saved_at);
        // A time in the future comes from a clock that was set back: treat the list as old.
        let age = SystemTime::now()
            .duration_since(saved_at)
            .unwrap_or(Duration::MAX);
        let mut listing = Listing {
            tools: cached.tools,
            instructions: cached.instructions,
            ..Listing::default()
        };
        if cached.version != VERSION || cached.digest != digest(&listing) {
            return None;
        }
        server.tools.retain(&mut listing.tools);
        Some((listing, age))
    }

    /// Saves the listing of a server. If the file cannot be written, the next start asks the
    /// server again.
    pub fn put(&self, server: &Server, listing: &Listing) {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        let cached = CachedToolList {
            version: VERSION,
            saved_at: since_epoch.as_secs(),
            digest: digest(listing),
            tools: listing.tools.clone(),
            instructions: listing.instructions.clone(),
        };
        let has_folder = std::fs::create_dir_all(&self.folder).is_ok();
        if let (true, Ok(bytes)) = (has_folder, serde_json::to_vec(&cached)) {
            drop(disk::write(&self.file_path(server), &bytes));
        }
    }

    fn file_path(&self, server: &Server) -> PathBuf {
        let identity = match &server.transport {
            ServerTransport::Stdio {
                command,
                arguments,
                variables,
                folder,
            } => json!([command, arguments, variables, folder]),
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
        let file_name = format!("{}.json", hex(identity.to_string().as_bytes()));
        self.folder.join(file_name)
    }
}

fn digest(listing: &Listing) -> String {
    let mut text = json!(listing.tools).to_string();
    if let Some(instructions) = &listing.instructions {
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
