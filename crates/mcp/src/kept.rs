//! What servers sent before, kept on disk.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use picktools::disk;
use picktools_import::mcp::{Server, Way};

/// The version of the files.
const VERSION: u32 = 1;

/// The tools that servers sent before, in a folder.
///
/// A file's name tells nothing of the configuration, which may be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptTools {
    folder: PathBuf,
}

/// A file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    version: u32,
    /// Seconds since 1970.
    taken: u64,
    /// SHA-256 of the tools.
    digest: String,
    tools: Vec<Value>,
}

impl KeptTools {
    /// Names the folder, which need not be there yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// Returns what a server sent, and how long ago; `None` where there is no file, or it is not
    /// whole.
    pub fn get(&self, server: &Server) -> Option<(Vec<Value>, Duration)> {
        let kept: Kept = serde_json::from_slice(&std::fs::read(self.place(server)).ok()?).ok()?;
        let taken = UNIX_EPOCH + Duration::from_secs(kept.taken);
        // A time to come is one of a clock that was set back: long ago.
        let age = SystemTime::now()
            .duration_since(taken)
            .unwrap_or(Duration::MAX);
        let whole = kept.version == VERSION && kept.digest == digest(&kept.tools);
        whole.then_some((kept.tools, age))
    }

    /// Keeps what a server sent; where that cannot be written, it is asked again the next time.
    pub fn put(&self, server: &Server, tools: &[Value]) {
        let taken = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs());
        let kept = Kept {
            version: VERSION,
            taken,
            digest: digest(tools),
            tools: tools.to_vec(),
        };
        let written = std::fs::create_dir_all(&self.folder).is_ok();
        if let (true, Ok(bytes)) = (written, serde_json::to_vec(&kept)) {
            drop(disk::write(&self.place(server), &bytes));
        }
    }

    fn place(&self, server: &Server) -> PathBuf {
        let way = match &server.way {
            Way::Stdio {
                command,
                arguments,
                variables,
                folder,
            } => json!([command, arguments, variables, folder]),
            Way::Http {
                url,
                headers,
                credentials,
            } => {
                json!([
                    url,
                    headers,
                    credentials.as_ref().map(|it| [&it.id, &it.secret])
                ])
            }
        };
        self.folder
            .join(format!("{}.json", hex(way.to_string().as_bytes())))
    }
}

fn digest(tools: &[Value]) -> String {
    hex(json!(tools).to_string().as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
