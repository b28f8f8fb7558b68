//! Approvals of unsafe calls that hold for more than one call.
//!
//! An approval refers to the definitions that the operator or the user knew. A changed definition
//! or another command or address of the server needs a new approval.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use picktools::Tool;
use picktools_import::mcp::Server;
use picktools_state::keys::{digest, hex};
use picktools_state::lock;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::pins::endpoint_digest;
use crate::upstream::Owner;

/// The most sessions whose approvals are remembered.
const MAX_SESSIONS: usize = 10_000;

/// The calls for which an approval holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApprovalScope {
    /// The call itself.
    #[default]
    Call,
    /// Calls of the tool in the session.
    Tool,
    /// Calls of the tools of the server in the session.
    Server,
    /// Calls of the tool by the client, in all sessions.
    Always,
}

impl ApprovalScope {
    /// All scopes, the narrowest first.
    pub const ALL: [Self; 4] = [Self::Call, Self::Tool, Self::Server, Self::Always];

    /// Returns the name of the scope in options and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Tool => "tool",
            Self::Server => "server",
            Self::Always => "always",
        }
    }

    /// Returns the scope of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }

    /// Returns a description for the person who decides.
    pub fn title(self) -> &'static str {
        match self {
            Self::Call => "Only this call",
            Self::Tool => "Calls of this tool in this session",
            Self::Server => "Calls of all tools of this server in this session",
            Self::Always => "All calls of this tool by this client, in every session",
        }
    }

    /// Returns the name of the decision in records.
    pub fn decision(self) -> &'static str {
        match self {
            Self::Call => "allowed",
            Self::Tool => "allowed_tool",
            Self::Server => "allowed_server",
            Self::Always => "allowed_always",
        }
    }
}

/// A tool as it was when its calls were approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApprovedTool {
    pub(crate) id: String,
    /// The digest of its definition and of the endpoint of its server.
    pub(crate) digest: String,
}

impl ApprovedTool {
    pub(crate) fn new(tool: &Tool, server: &Server) -> Self {
        let definition = json!([
            tool.id,
            tool.title,
            tool.description,
            tool.parameters,
            tool.output_schema,
            tool.annotations,
            endpoint_digest(server),
        ]);
        Self {
            id: tool.id.clone(),
            digest: hex(&digest(&definition.to_string())),
        }
    }
}

/// The approvals of sessions: digests of tools, by owner and tool id.
#[derive(Debug, Default)]
pub(crate) struct SessionApprovals(Mutex<HashMap<Owner, HashMap<String, String>>>);

impl SessionApprovals {
    /// Returns `true` if calls of the tool are approved in the session.
    pub(crate) fn allow(&self, owner: &Owner, tool: &ApprovedTool) -> bool {
        let sessions = lock(&self.0);
        let approved = sessions.get(owner).and_then(|tools| tools.get(&tool.id));
        approved == Some(&tool.digest)
    }

    /// Remembers approvals until the session ends.
    pub(crate) fn remember(&self, owner: &Owner, tools: Vec<ApprovedTool>) {
        let mut sessions = lock(&self.0);
        if sessions.len() >= MAX_SESSIONS && !sessions.contains_key(owner) {
            // The approvals are asked for again.
            sessions.clear();
        }
        let approved = sessions.entry(owner.clone()).or_default();
        for tool in tools {
            approved.insert(tool.id, tool.digest);
        }
    }

    /// Forgets the approvals of a session.
    pub(crate) fn forget(&self, owner: &Owner) {
        lock(&self.0).remove(owner);
    }
}

/// A client whose approvals can be remembered across sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientIdentity(pub(crate) Arc<str>);

impl ClientIdentity {
    /// Returns the client of an API key.
    pub(crate) fn from_key(key: &str) -> Self {
        Self(format!("key {key}").into())
    }

    /// Returns the client on standard input and output, by the name that it states. It runs as the
    /// user of this machine.
    pub(crate) fn from_local_client(name: &str) -> Self {
        Self(format!("local {name}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(id: &str, digest: &str) -> ApprovedTool {
        ApprovedTool {
            id: id.to_owned(),
            digest: digest.to_owned(),
        }
    }

    #[test]
    fn session_approval_holds_for_its_session_and_definition() {
        let approvals = SessionApprovals::default();
        let (one, two) = (Owner("1".into()), Owner("2".into()));
        approvals.remember(&one, vec![tool("up/a", "x"), tool("up/b", "y")]);
        assert!(approvals.allow(&one, &tool("up/a", "x")));
        for (owner, other) in [
            (&one, tool("up/a", "changed")),
            (&one, tool("up/c", "x")),
            (&two, tool("up/a", "x")),
        ] {
            assert!(!approvals.allow(owner, &other), "{other:?}");
        }
        approvals.remember(&one, vec![tool("up/a", "z")]);
        assert!(!approvals.allow(&one, &tool("up/a", "x")));
        approvals.forget(&one);
        assert!(!approvals.allow(&one, &tool("up/b", "y")));
    }

    #[test]
    fn scopes_have_unique_names() {
        for scope in ApprovalScope::ALL {
            assert_eq!(ApprovalScope::from_name(scope.name()), Some(scope));
        }
        assert_eq!(ApprovalScope::from_name("ever"), None);
    }
}
