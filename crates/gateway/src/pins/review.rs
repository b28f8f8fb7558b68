//! The review of listings: each definition is compared with the approved one, and approved or
//! quarantined.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use picktools::excerpt::marked;
use picktools_check::{Finding, Severity};
use picktools_import::mcp::Server;
use picktools_state::keys::now;
use serde_json::{Value, json};

use super::digests::{digest, endpoint_digest, pinned_members};
use super::file::{
    ApprovalOrigin, HoldReason, INSTRUCTIONS, Pin, PinsFile, QuarantinedDefinition, SeenDefinition,
    SeenDigest, ServerPins, is_denied, is_denied_anywhere,
};
use crate::settings::{NewTools, Trust, UpstreamRules};

/// The longest name or list of findings in the log, in characters.
const MAX_LOGGED_CHARS: usize = 300;

/// The listing of an upstream, to be reviewed.
pub(crate) struct ServerListing<'a> {
    pub(crate) server: &'a Server,
    /// The scope of the server's name. It is empty if the name stands for one server everywhere.
    pub(crate) scope: String,
    pub(crate) rules: UpstreamRules,
    pub(crate) tools: &'a [Value],
    /// The instructions of the server, empty if it has none; `None` if they are not known.
    pub(crate) instructions: Option<&'a str>,
}

/// The result of reviewing the listing of an upstream.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ReviewedListing {
    /// The definitions to show: the approved ones. A tool without an approved definition has only
    /// its name.
    pub(crate) definitions: Vec<Value>,
    /// The names of quarantined tools, which can be neither found nor called.
    pub(crate) quarantined: BTreeSet<String>,
    /// The approved instructions.
    pub(crate) instructions: Option<String>,
}

/// The definitions that were seen in a listing, by `source/tool`.
pub(super) type SeenDefinitions = Vec<(String, SeenDigest)>;

/// The errors and warnings of `check` for a definition.
#[derive(Debug, Clone, Default)]
pub(crate) struct DefinitionFindings {
    /// The errors and warnings, each with its code.
    messages: Vec<String>,
    has_error: bool,
    /// `true` if a person should decide before a model reads the definition.
    holds: bool,
}

impl DefinitionFindings {
    pub(crate) fn add(&mut self, finding: &Finding) {
        self.messages.push(finding.summary());
        self.has_error |= finding.severity == Severity::Error;
        self.holds |= finding.holds();
    }

    /// Returns the findings of a definition that cannot be checked.
    pub(crate) fn unchecked(error: &impl fmt::Display) -> Self {
        Self {
            messages: vec![error.to_string()],
            has_error: true,
            holds: true,
        }
    }
}

/// The state of a server that the review of each of its definitions uses.
struct ServerReview<'a> {
    source: &'a str,
    endpoint_digest: String,
    rules: UpstreamRules,
    trust: Trust,
    /// `true` if this is the first listing of the server.
    is_first: bool,
    /// `true` if the configuration now names another program or URL.
    has_moved: bool,
    /// Returns the errors and warnings of `check` for a definition.
    findings_of: &'a dyn Fn(&str, &str) -> DefinitionFindings,
    /// The definitions that this gateway saw last.
    previous: &'a HashMap<String, SeenDigest>,
}

/// A definition to review.
struct ListedDefinition {
    name: String,
    definition: Value,
    seen: SeenDefinition,
}

impl ServerReview<'_> {
    fn listed(&self, name: &str, definition: Value) -> ListedDefinition {
        let seen = SeenDefinition {
            digest: digest(&definition),
            endpoint_digest: self.endpoint_digest.clone(),
        };
        ListedDefinition {
            name: name.to_owned(),
            definition,
            seen,
        }
    }

    fn id(&self, name: &str) -> String {
        format!("{}/{name}", self.source)
    }
}

impl PinsFile {
    /// Reviews the listings of servers. Returns for each the definitions that were seen; `previous`
    /// contains those that were seen earlier.
    pub(super) fn review(
        &mut self,
        listings: &[ServerListing<'_>],
        trust: Trust,
        findings_of: &dyn Fn(&str, &str) -> DefinitionFindings,
        previous: &HashMap<String, SeenDigest>,
    ) -> Vec<(ReviewedListing, SeenDefinitions)> {
        // A file of an earlier version has no separate list of denied definitions.
        self.record_denied();
        // After a rollback, a definition that seems new may have been approved and changed.
        let trust = if self.rollback.is_some() {
            Trust::Approve
        } else {
            trust
        };
        let mut reviewed_listings = Vec::with_capacity(listings.len());
        for listing in listings {
            let (is_first, has_moved) = self.begin_server(listing);
            let review = ServerReview {
                source: &listing.server.name,
                endpoint_digest: endpoint_digest(listing.server),
                rules: listing.rules,
                trust,
                is_first,
                has_moved,
                findings_of,
                previous,
            };
            reviewed_listings.push(self.review_server(listing, &review));
        }
        reviewed_listings
    }

    /// Records that a server is used. Returns whether its listing is the first one, and whether the
    /// configuration now names another program or URL.
    fn begin_server(&mut self, listing: &ServerListing<'_>) -> (bool, bool) {
        let source = &listing.server.name;
        let endpoint_digest = endpoint_digest(listing.server);
        let (mut has_quarantined_tool, mut has_quarantine_here) = (false, false);
        for (id, quarantined) in &self.quarantined {
            if let Some((quarantined_source, tool)) = id.split_once('/')
                && quarantined_source == source
            {
                has_quarantined_tool |= tool != INSTRUCTIONS;
                has_quarantine_here |= quarantined.endpoint_digest == endpoint_digest;
            }
        }
        let server_pins = self.upstreams.entry(source.clone());
        let server_pins = server_pins.or_insert_with(|| ServerPins::new(now()));
        let has_tools = server_pins.tools.keys().any(|tool| tool != INSTRUCTIONS);
        let is_empty = !has_tools && !has_quarantined_tool;
        // What was quarantined in one scope is not approved by the first use in another.
        let is_first_use = server_pins.is_first_use(&listing.scope, &endpoint_digest);
        // The first listing counts also if it is empty.
        let was_listed = !server_pins.scopes.is_empty();
        let is_first = is_empty && !was_listed || !has_quarantine_here && is_first_use;
        if is_empty && was_listed && !is_first && !listing.tools.is_empty() {
            tracing::warn!(
                target: "picktools::gateway", server = %source, tools = listing.tools.len(),
                "the first tools of a server arrived after its first list; unless it is trusted, \
                 they wait for `picktools approve`"
            );
        }
        let has_moved = !is_first && server_pins.has_moved_to(&listing.scope, &endpoint_digest);
        // The scope keeps its former endpoint until nothing of the new one waits for approval.
        if !has_moved {
            server_pins.record_use(&listing.scope, &endpoint_digest);
        }
        (is_first, has_moved)
    }

    fn review_server(
        &mut self,
        listing: &ServerListing<'_>,
        review: &ServerReview<'_>,
    ) -> (ReviewedListing, SeenDefinitions) {
        let (mut reviewed, mut seen_now) = (ReviewedListing::default(), Vec::new());
        let mut names = BTreeSet::new();
        for definition in listing.tools {
            let Some(name) = definition.get("name").and_then(Value::as_str) else {
                continue;
            };
            // The first of several definitions counts, as in the catalog. The snapshot reports a
            // tool with the name that stands for the instructions.
            if name == INSTRUCTIONS || !names.insert(name) {
                continue;
            }
            let listed = review.listed(name, pinned_members(definition));
            seen_now.push((review.id(name), listed.seen.summary()));
            let (shown, is_quarantined) = match self.review_definition(review, listed) {
                Ok(definition) => (definition, false),
                Err(approved) => (
                    approved.unwrap_or_else(
                        || json!({"name": name, "inputSchema": {"type": "object"}}),
                    ),
                    true,
                ),
            };
            reviewed.definitions.push(shown);
            if is_quarantined {
                reviewed.quarantined.insert(name.to_owned());
            }
        }
        if let Some(instructions) = listing.instructions {
            let definition = json!({"name": INSTRUCTIONS, "instructions": instructions});
            let listed = review.listed(INSTRUCTIONS, definition);
            seen_now.push((review.id(INSTRUCTIONS), listed.seen.summary()));
            if instructions.trim().is_empty() {
                self.record_missing_instructions(review, listed);
            } else if self.review_definition(review, listed).is_ok() {
                reviewed.instructions = Some(instructions.to_owned());
            }
        }
        if review.has_moved && !reviewed.definitions.is_empty() && !self.has_waiting(review) {
            let server_pins = self.upstreams.get_mut(review.source);
            if let Some(server_pins) = server_pins {
                server_pins.record_use(&listing.scope, &review.endpoint_digest);
            }
        }
        (reviewed, seen_now)
    }

    /// Returns `true` if a definition of the server at this endpoint is quarantined.
    fn has_waiting(&self, review: &ServerReview<'_>) -> bool {
        self.quarantined.iter().any(|(id, quarantined)| {
            id.split('/').next() == Some(review.source)
                && quarantined.endpoint_digest == review.endpoint_digest
        })
    }

    /// Records that a server has no instructions, so that later ones count as a change. Instructions
    /// that waited for approval are gone.
    fn record_missing_instructions(&mut self, review: &ServerReview<'_>, listed: ListedDefinition) {
        let id = review.id(INSTRUCTIONS);
        let is_here = |quarantined: &QuarantinedDefinition| {
            quarantined.endpoint_digest == review.endpoint_digest && !quarantined.denied
        };
        if self.quarantined.get(&id).is_some_and(is_here) {
            self.quarantined.remove(&id);
        }
        let pin = self.pin_of(review, INSTRUCTIONS);
        // A pin of a moved server would approve its other definitions.
        if pin.is_none() && !review.has_moved {
            self.put_pin(review, listed);
        }
    }

    fn pin_of(&self, review: &ServerReview<'_>, name: &str) -> Option<&Pin> {
        let server_pins = self.upstreams.get(review.source)?;
        server_pins.pin(name, &review.endpoint_digest)
    }

    /// Pins a definition that needs no approval of the operator.
    fn put_pin(&mut self, review: &ServerReview<'_>, listed: ListedDefinition) {
        let by = if review.is_first {
            ApprovalOrigin::FirstUse
        } else {
            ApprovalOrigin::Trusted
        };
        let pin = Pin {
            digest: listed.seen.digest,
            endpoint_digest: listed.seen.endpoint_digest,
            approved: now(),
            by,
            definition: listed.definition,
        };
        if let Some(server_pins) = self.upstreams.get_mut(review.source) {
            server_pins.put(&listed.name, pin);
        }
    }

    /// Returns the reason why a definition is quarantined, if it is, before `check` is asked.
    fn hold_reason(
        &self,
        review: &ServerReview<'_>,
        listed: &ListedDefinition,
    ) -> Option<HoldReason> {
        let id = review.id(&listed.name);
        let pin = self.pin_of(review, &listed.name);
        // A definition that was denied at another endpoint needs an approval here.
        let is_denied_elsewhere =
            is_denied_anywhere(&self.denied_definitions, &id, &listed.seen.digest);
        if is_denied(&self.denied_definitions, &id, &listed.seen) {
            let quarantined = self.quarantined.get(&id);
            let same =
                quarantined.filter(|quarantined| quarantined.seen_definition() == listed.seen);
            return Some(same.map_or(HoldReason::Unapproved, |same| same.reason));
        }
        // Pins of earlier versions have no instructions, so their first ones are no change.
        let is_first = review.is_first || listed.name == INSTRUCTIONS;
        match pin {
            Some(pin) if pin.digest == listed.seen.digest => None,
            _ if review.rules.trusted && !is_denied_elsewhere => None,
            Some(_) => Some(HoldReason::Changed),
            None if review.has_moved => Some(HoldReason::Moved),
            None if review.trust == Trust::Approve || is_denied_elsewhere => {
                Some(HoldReason::Unapproved)
            }
            None if is_first => None,
            None => Some(HoldReason::New).filter(|_| review.rules.new_tools == NewTools::Hold),
        }
    }

    /// Approves or quarantines a definition. Returns the definition if it is approved, else an
    /// earlier approved one.
    fn review_definition(
        &mut self,
        review: &ServerReview<'_>,
        listed: ListedDefinition,
    ) -> Result<Value, Option<Value>> {
        let pin = self.pin_of(review, &listed.name);
        let is_pinned = pin.is_some_and(|pin| pin.digest == listed.seen.digest);
        let mut findings = DefinitionFindings::default();
        if !is_pinned {
            findings = (review.findings_of)(review.source, &listed.name);
        }
        // Errors of `check` count even for trusted servers, because a trusted server can be
        // compromised.
        let holds = findings.has_error || findings.holds && !review.rules.trusted;
        let finding = holds.then_some(HoldReason::Finding);
        let findings = findings.messages;
        match self.hold_reason(review, &listed).or(finding) {
            None => {
                if !findings.is_empty() {
                    tracing::warn!(
                        target: "picktools::gateway", server = %review.source,
                        tool = %marked(&listed.name, MAX_LOGGED_CHARS), findings = %list(&findings),
                        "a new definition is used without an approval, although `check` warns of it"
                    );
                }
                Ok(self.accept(review, listed))
            }
            Some(reason) => {
                let approved = self.pin_of(review, &listed.name);
                let approved = approved.map(|pin| pin.definition.clone());
                self.quarantine(review, listed, Hold { reason, findings });
                Err(approved)
            }
        }
    }

    /// Records a definition that needs no approval, and returns it.
    fn accept(&mut self, review: &ServerReview<'_>, listed: ListedDefinition) -> Value {
        let id = review.id(&listed.name);
        let is_new = review.previous.get(&id) != Some(&listed.seen.summary());
        let pin = self.pin_of(review, &listed.name);
        let is_pinned = pin.is_some_and(|pin| pin.digest == listed.seen.digest);
        // Another gateway may see and trust another definition. Neither may overwrite the pin of the
        // other repeatedly.
        let is_trusted_now =
            pin.is_none_or(|pin| !is_pinned && is_new && pin.by != ApprovalOrigin::Operator);
        // It also removes the other's quarantine only for a definition that it sees for the first
        // time.
        let is_replaced = |quarantined: &QuarantinedDefinition| {
            quarantined.endpoint_digest == review.endpoint_digest
                && (is_new
                    || quarantined.digest == listed.seen.digest && (is_pinned || is_trusted_now))
        };
        if self.quarantined.get(&id).is_some_and(is_replaced) {
            self.quarantined.remove(&id);
        }
        let definition = listed.definition.clone();
        if is_trusted_now {
            self.put_pin(review, listed);
        }
        definition
    }

    /// Quarantines a definition. If several definitions are quarantined, the one that is seen for
    /// the first time is stored. A denied one is replaced.
    fn quarantine(&mut self, review: &ServerReview<'_>, listed: ListedDefinition, hold: Hold) {
        let id = review.id(&listed.name);
        let is_new = review.previous.get(&id) != Some(&listed.seen.summary());
        let is_denied = is_denied(&self.denied_definitions, &id, &listed.seen);
        let is_replaced = |quarantined: &QuarantinedDefinition| {
            let is_same = quarantined.seen_definition() == listed.seen;
            !is_same && (is_new || quarantined.denied && !is_denied)
        };
        if !self.quarantined.get(&id).is_none_or(is_replaced) {
            return;
        }
        if !hold.findings.is_empty() {
            tracing::warn!(
                target: "picktools::gateway", server = %review.source,
                tool = %marked(&listed.name, MAX_LOGGED_CHARS), findings = %list(&hold.findings),
                "a definition is quarantined, and `check` warns of it"
            );
        }
        let quarantined = QuarantinedDefinition {
            reason: hold.reason,
            first_seen: now(),
            digest: listed.seen.digest,
            endpoint_digest: listed.seen.endpoint_digest,
            definition: listed.definition,
            findings: hold.findings,
            denied: is_denied,
        };
        self.quarantined.insert(id, quarantined);
    }
}

/// Returns findings as one text for the log.
fn list(findings: &[String]) -> String {
    marked(&findings.join("; "), MAX_LOGGED_CHARS).into_owned()
}

/// The reason for a quarantine, with the errors and warnings of `check`.
struct Hold {
    reason: HoldReason,
    findings: Vec<String>,
}
