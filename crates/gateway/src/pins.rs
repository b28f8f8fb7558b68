//! Which definitions were approved, and which wait?
//!
//! What an upstream says of its tools goes to a model, so it is pinned: the first listing is
//! believed, or nothing is, and what is new or different afterwards is held back until somebody
//! approves it. A held tool keeps its approved text.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use picktools_import::mcp::{Server, Way};
use picktools_state::keys::now;
use picktools_state::{
    Keeps, Lost, Purpose, Shared, SharedFile, Stamp, StateError, Store, Stored, lock,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::settings::{NewTools, Trust, UpstreamRules};

const VERSION: u32 = 1;
const REMEDY: &str = "put back a copy, or remove it: all servers are then seen for the first time";
/// The most programs or addresses that a tool is known from.
const MAX_WAYS: usize = 16;
/// What of a definition is shown to a model, or decides on a call.
const MEMBERS: [&str; 6] = [
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
];

/// The definitions that were approved, and those that wait, in a folder or store that gateways
/// share.
#[derive(Debug, Clone)]
pub struct Pins {
    shared: Shared<PinsFile>,
    /// What this gateway saw last of each tool, by `source/tool`. Another may see another
    /// definition that waits, which this one then leaves alone.
    seen: Arc<Mutex<HashMap<String, Seen>>>,
}

/// A definition, by its digest, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    digest: String,
    way: String,
}

/// A definition that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Held {
    /// Why.
    pub why: Why,
    /// When it was first seen, in seconds since 1970.
    pub seen: u64,
    /// Its digest, by which it is approved.
    pub digest: String,
    /// The digest of the program and arguments, or address, that it came from.
    pub way: String,
    /// As the upstream sent it.
    pub definition: Value,
    /// What `check` says of it: errors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// Whether somebody refused it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub denied: bool,
}

impl Held {
    fn seen(&self) -> Seen {
        Seen {
            digest: self.digest.clone(),
            way: self.way.clone(),
        }
    }
}

/// Why a definition waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Why {
    /// It is not the one that was approved.
    Changed,
    /// The upstream did not have it at first.
    New,
    /// Nothing of the upstream is approved unseen.
    Unapproved,
    /// The configuration now names another program or address.
    Moved,
    /// `check` finds an error in it.
    Finding,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Changed => "changed since it was approved",
            Self::New => "new",
            Self::Unapproved => "not approved yet",
            Self::Moved => "its server is another program or address now",
            Self::Finding => "check finds an error in it",
        })
    }
}

type Refused = BTreeMap<String, BTreeSet<Seen>>;

fn is_refused(refused: &Refused, id: &str, seen: &Seen) -> bool {
    refused
        .get(id)
        .is_some_and(|refused| refused.contains(seen))
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct PinsFile {
    upstreams: BTreeMap<String, Approved>,
    /// By `source/tool`; of several that wait, at several gateways, one.
    held: BTreeMap<String, Held>,
    /// What somebody refused, by `source/tool`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    refused: Refused,
    /// That a store came back with an older copy, until somebody says what is to become of it: till
    /// then nothing is believed because it is seen for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost: Option<Lost>,
}

impl Keeps for PinsFile {
    fn was_lost(&mut self, lost: &Lost) {
        self.lost.get_or_insert_with(|| lost.clone());
    }

    fn lost(&self) -> Option<&Lost> {
        self.lost.as_ref()
    }
}

/// What was approved of an upstream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Approved {
    first_seen: u64,
    /// Of each tool a pin for each program or address that it came from: configurations may call
    /// different servers the same.
    tools: BTreeMap<String, Vec<Pin>>,
}

impl Approved {
    fn pin(&self, tool: &str, way: &str) -> Option<&Pin> {
        self.tools.get(tool)?.iter().find(|pin| pin.way == way)
    }

    fn put(&mut self, tool: &str, pin: Pin) {
        let pins = self.tools.entry(tool.to_owned()).or_default();
        pins.retain(|other| other.way != pin.way);
        pins.push(pin);
        let surplus = pins.len().saturating_sub(MAX_WAYS);
        pins.drain(..surplus);
    }

    /// Returns `true` if there are approvals of another program or address, and of this one none
    /// but a person's: what a person has approved of it speaks for nothing else of it.
    fn has_moved_to(&self, way: &str) -> bool {
        let pins = || self.tools.values().flatten();
        pins().any(|pin| pin.way != way)
            && !pins().any(|pin| pin.way == way && pin.by != By::Operator)
    }
}

/// An approved definition, whole: without it there is no difference to show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pin {
    digest: String,
    /// Digest of the program and arguments, or address, that it came from.
    way: String,
    approved: u64,
    by: By,
    definition: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum By {
    FirstUse,
    Operator,
    Trusted,
}

/// What is made of what an upstream sent.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Judged {
    /// What is shown: as it was approved. Of a tool that never was there is the name alone.
    pub(crate) definitions: Vec<Value>,
    /// The names of those that may be neither found nor called.
    pub(crate) held: BTreeSet<String>,
}

/// What somebody has decided of definitions, and of what nobody has.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Decided {
    /// What a person refused: `source/tool` and digest.
    pub(crate) refused: BTreeSet<(String, String)>,
    /// What a person approved: `source/tool` and digest.
    pub(crate) approved: BTreeSet<(String, String)>,
    /// When each server was first seen.
    pub(crate) first_seen: BTreeMap<String, u64>,
    /// Whether a store lost some of it, and nobody has seen to that.
    pub(crate) has_lost: bool,
}

/// What upstreams sent, to be judged.
pub(crate) struct Arrival<'a> {
    pub(crate) server: &'a Server,
    pub(crate) rules: UpstreamRules,
    pub(crate) tools: &'a [Value],
}

impl Pins {
    fn new(shared: Shared<PinsFile>) -> Self {
        Self {
            shared,
            seen: Arc::default(),
        }
    }

    /// Names a folder, which is made where it is not there yet, for its owner alone.
    ///
    /// # Errors
    ///
    /// [`StateError`] when it cannot be made, or what is there cannot be read: nothing is approved
    /// then.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, StateError> {
        SharedFile::open(folder.into(), "pins.json", VERSION, REMEDY)
            .map(|file| Self::new(Shared::File(file)))
    }

    /// Takes those of a store.
    ///
    /// # Errors
    ///
    /// [`StateError`] when it does not answer, or what is there cannot be read: nothing is approved
    /// then.
    pub fn of(store: &Store) -> Result<Self, StateError> {
        Stored::open(store, Purpose::Pins, "pins", VERSION)
            .map(|stored| Self::new(Shared::Store(stored)))
    }

    /// Returns whether the store came back with an older copy, and nobody has seen to that yet.
    /// Definitions that are not in the copy wait till then, also those of servers that are seen for
    /// the first time.
    ///
    /// # Errors
    ///
    /// [`StateError`] when it cannot be read.
    pub fn lost(&self) -> Result<Option<Lost>, StateError> {
        Ok(self.shared.read()?.lost)
    }

    /// Ends the time after a loss. With `restore`, what gateways knew to be approved before is
    /// approved again, but for what was decided otherwise since; without, the older copy holds.
    /// Returns how many approvals were put back.
    ///
    /// # Errors
    ///
    /// [`StateError`] when it cannot be read or written, or nothing was lost.
    pub fn see_to_loss(&self, restore: bool) -> Result<usize, StateError> {
        let aside = if restore {
            self.shared.aside()?.unwrap_or_default()
        } else {
            PinsFile::default()
        };
        self.shared.change(|file| {
            if file.lost.take().is_none() {
                return Err("nothing was lost, or somebody has seen to it".to_owned());
            }
            Ok(file.put_back(&aside))
        })
    }

    /// Returns what waits, by `source/tool`.
    ///
    /// # Errors
    ///
    /// [`StateError`] when it cannot be read.
    pub fn held(&self) -> Result<BTreeMap<String, Held>, StateError> {
        Ok(self.shared.read()?.held)
    }

    /// Returns the definition of a tool, by `source/tool`, that was approved, and is in force while
    /// another waits.
    ///
    /// # Errors
    ///
    /// [`StateError`] when it cannot be read.
    pub fn approved(&self, id: &str) -> Result<Option<Value>, StateError> {
        let file = self.shared.read()?;
        let Some((source, tool)) = id.split_once('/') else {
            return Ok(None);
        };
        let Some(approved) = file.upstreams.get(source) else {
            return Ok(None);
        };
        let of_its_way = file
            .held
            .get(id)
            .and_then(|held| approved.pin(tool, &held.way));
        let pin = of_its_way.or_else(|| approved.tools.get(tool)?.last());
        Ok(pin.map(|pin| pin.definition.clone()))
    }

    /// Approves definitions that wait, each by the digest that was shown. Returns those that were
    /// approved.
    ///
    /// # Errors
    ///
    /// [`StateError`] when it cannot be read or written, or one of them does not wait any longer,
    /// or is another one by now: nothing is approved then.
    pub fn approve(&self, shown: &[(String, String)]) -> Result<(), StateError> {
        self.shared.change(|file| {
            shown
                .iter()
                .try_for_each(|(id, digest)| file.approve(id, digest))
        })
    }

    /// Refuses a definition that waits, by the digest that was shown: it is no longer listed as
    /// waiting, and stays held, also where it comes again after another.
    ///
    /// # Errors
    ///
    /// [`StateError`] when it cannot be read or written, nothing of this name waits, or it is
    /// another one by now.
    pub fn deny(&self, id: &str, digest: &str) -> Result<(), StateError> {
        self.shared.change(|file| file.deny(id, digest))
    }

    /// Forgets all of an upstream: its next listing is its first.
    ///
    /// # Errors
    ///
    /// [`StateError`] when it cannot be read or written, or nothing is known of it.
    pub fn forget(&self, source: &str) -> Result<(), StateError> {
        self.shared.change(|file| {
            let prefix = format!("{source}/");
            file.held.retain(|id, _| !id.starts_with(&prefix));
            file.refused.retain(|id, _| !id.starts_with(&prefix));
            file.upstreams
                .remove(source)
                .map(|_| ())
                .ok_or_else(|| format!("no server {source:?} was seen"))
        })
    }

    /// What somebody has decided so far, and of what nobody has.
    pub(crate) fn decided(&self) -> Result<Decided, StateError> {
        let PinsFile {
            upstreams,
            refused,
            lost,
            ..
        } = self.shared.read()?;
        let refused = refused
            .into_iter()
            .flat_map(|(id, seen)| seen.into_iter().map(move |seen| (id.clone(), seen.digest)));
        let mut decided = Decided {
            refused: refused.collect(),
            has_lost: lost.is_some(),
            ..Decided::default()
        };
        for (source, approved) in upstreams {
            for (tool, pins) in approved.tools {
                let by_operator = pins.into_iter().filter(|pin| pin.by == By::Operator);
                decided
                    .approved
                    .extend(by_operator.map(|pin| (format!("{source}/{tool}"), pin.digest)));
            }
            decided.first_seen.insert(source, approved.first_seen);
        }
        Ok(decided)
    }

    /// By what is told that somebody approved something.
    pub(crate) fn stamp(&self) -> Stamp {
        self.shared.stamp()
    }

    /// Holds what upstreams sent to what was approved, and tells which approvals that were.
    /// `errors` tells what `check` finds in a definition of an upstream.
    pub(crate) fn judge(
        &self,
        arrivals: &[Arrival<'_>],
        trust: Trust,
        errors: &dyn Fn(&str, &str) -> Vec<String>,
    ) -> Result<(Vec<Judged>, Stamp), StateError> {
        let mut seen = lock(&self.seen);
        let judge = |file: &mut PinsFile| Ok(file.judge(arrivals, trust, errors, &seen));
        let (judged, stamp) = self.shared.change_and_stamp(judge)?;
        let (judged, saw): (Vec<Judged>, Vec<_>) = judged.into_iter().unzip();
        seen.extend(saw.into_iter().flatten());
        Ok((judged, stamp))
    }
}

impl PinsFile {
    fn approve(&mut self, id: &str, digest: &str) -> Result<(), String> {
        let Some(held) = self.held.get(id).filter(|held| held.digest == digest) else {
            return Err(format!(
                "{id} is not what was shown any longer; look again and approve what it is now"
            ));
        };
        let (source, tool) = id.split_once('/').unwrap_or(("", id));
        let seen = held.seen();
        let Seen { digest, way } = seen.clone();
        let pin = Pin {
            digest,
            way,
            approved: now(),
            by: By::Operator,
            definition: held.definition.clone(),
        };
        let Some(approved) = self.upstreams.get_mut(source) else {
            return Err(format!("{id}: no such server was seen"));
        };
        approved.put(tool, pin);
        self.held.remove(id);
        if let Some(refused) = self.refused.get_mut(id) {
            refused.remove(&seen);
        }
        Ok(())
    }

    fn deny(&mut self, id: &str, digest: &str) -> Result<(), String> {
        let held = self
            .held
            .get_mut(id)
            .ok_or_else(|| format!("{id} does not wait"))?;
        if held.digest != digest {
            return Err(format!(
                "{id} is not what was shown any longer; look again and refuse what it is now"
            ));
        }
        held.denied = true;
        self.note_refused();
        Ok(())
    }

    /// Notes what of that which waits was refused.
    fn note_refused(&mut self) {
        for (id, held) in self.held.iter().filter(|(_, held)| held.denied) {
            self.refused
                .entry(id.clone())
                .or_default()
                .insert(held.seen());
        }
    }

    /// Approves what was approved in a later copy and neither approved nor refused here. Returns
    /// how many.
    fn put_back(&mut self, later: &Self) -> usize {
        let mut count = 0;
        for (source, approved) in &later.upstreams {
            let first_seen = approved.first_seen;
            let known = self.upstreams.entry(source.clone());
            let known = known.or_insert_with(|| Approved {
                first_seen,
                tools: BTreeMap::new(),
            });
            for (tool, pin) in approved
                .tools
                .iter()
                .flat_map(|(tool, pins)| pins.iter().map(move |pin| (tool, pin)))
            {
                let id = format!("{source}/{tool}");
                let seen = Seen {
                    digest: pin.digest.clone(),
                    way: pin.way.clone(),
                };
                let waits = self.held.get(&id).is_some_and(|held| held.seen() == seen);
                let is_newer = known
                    .pin(tool, &pin.way)
                    .is_some_and(|here| here.approved > pin.approved);
                let is_here = known
                    .pin(tool, &pin.way)
                    .is_some_and(|here| here.digest == pin.digest);
                if is_newer || is_here || is_refused(&self.refused, &id, &seen) {
                    continue;
                }
                if waits {
                    self.held.remove(&id);
                }
                known.put(tool, pin.clone());
                count += 1;
            }
        }
        for (id, seen) in later
            .refused
            .iter()
            .flat_map(|(id, refused)| refused.iter().map(move |seen| (id, seen)))
        {
            let (source, tool) = id.split_once('/').unwrap_or(("", id));
            let here = self
                .upstreams
                .get(source)
                .and_then(|known| known.pin(tool, &seen.way));
            if here.is_none_or(|pin| pin.digest != seen.digest) {
                self.refused
                    .entry(id.clone())
                    .or_default()
                    .insert(seen.clone());
            }
        }
        count
    }

    /// Judges what servers say, and tells of each what of it was seen; `before` is what was seen
    /// before.
    fn judge(
        &mut self,
        arrivals: &[Arrival<'_>],
        trust: Trust,
        errors: &dyn Fn(&str, &str) -> Vec<String>,
        before: &HashMap<String, Seen>,
    ) -> Vec<(Judged, Vec<(String, Seen)>)> {
        // As a file of before has it, which knows of no other refusals.
        self.note_refused();
        arrivals
            .iter()
            .map(|arrival| self.judge_one(arrival, trust, errors, before))
            .collect()
    }

    fn judge_one(
        &mut self,
        Arrival {
            server,
            rules,
            tools,
        }: &Arrival<'_>,
        trust: Trust,
        errors: &dyn Fn(&str, &str) -> Vec<String>,
        before: &HashMap<String, Seen>,
    ) -> (Judged, Vec<(String, Seen)>) {
        let source = &server.name;
        let way = way(server);
        // What seems new may be what was lost, and may have changed since.
        let trust = if self.lost.is_some() {
            Trust::Approve
        } else {
            trust
        };
        let first_seen = now();
        let known = self.upstreams.entry(source.clone());
        let known = known.or_insert_with(|| Approved {
            first_seen,
            tools: BTreeMap::new(),
        });
        let is_first = known.tools.is_empty()
            && !self
                .held
                .keys()
                .any(|id| id.split('/').next() == Some(source));
        let has_moved = known.has_moved_to(&way);
        let (mut judged, mut saw) = (Judged::default(), Vec::new());
        let mut names = BTreeSet::new();
        for sent in *tools {
            let Some(name) = sent.get("name").and_then(Value::as_str) else {
                continue;
            };
            // The first of several counts, as in the catalog.
            if !names.insert(name.to_owned()) {
                continue;
            }
            let definition = own(sent);
            let digest = digest(&definition);
            let id = format!("{source}/{name}");
            let this = Seen {
                digest: digest.clone(),
                way: way.clone(),
            };
            let is_news = before.get(&id) != Some(&this);
            let is_refused = is_refused(&self.refused, &id, &this);
            let held = self.held.get(&id);
            let is_held = held.is_some_and(|held| held.seen() == this);
            let pin = known.pin(name, &way);
            let is_pinned = pin.is_some_and(|pin| pin.digest == digest);
            let why = match pin {
                _ if is_refused => Some(
                    held.filter(|_| is_held)
                        .map_or(Why::Unapproved, |held| held.why),
                ),
                _ if is_pinned || rules.trusted => None,
                Some(_) => Some(Why::Changed),
                None if has_moved => Some(Why::Moved),
                None if trust == Trust::Approve => Some(Why::Unapproved),
                None if is_first => None,
                None => Some(Why::New).filter(|_| rules.new_tools == NewTools::Hold),
            };
            let findings = if is_pinned {
                Vec::new()
            } else {
                errors(source, name)
            };
            // What check finds counts whoever is trusted: a server of one's own can be broken into.
            let why = why.or_else(|| (!is_pinned && !findings.is_empty()).then_some(Why::Finding));
            saw.push((id.clone(), this.clone()));
            let Some(why) = why else {
                // Another gateway may see another definition and trust it too: none writes over the
                // other's again and again.
                let is_put = pin.is_none_or(|pin| !is_pinned && is_news && pin.by != By::Operator);
                // Nor does it take away what waits there, but by news.
                let is_over =
                    |held: &Held| is_news || held.digest == digest && (is_pinned || is_put);
                if held.is_some_and(|held| held.way == way && is_over(held)) {
                    self.held.remove(&id);
                }
                if is_put {
                    let by = if is_first { By::FirstUse } else { By::Trusted };
                    let pin = Pin {
                        digest,
                        way: way.clone(),
                        approved: now(),
                        by,
                        definition: definition.clone(),
                    };
                    known.put(name, pin);
                }
                judged.definitions.push(definition);
                continue;
            };
            // Of several that wait the one that somebody sees for the first time is shown, and one
            // that is refused gives way.
            if held.is_none_or(|held| !is_held && (is_news || held.denied && !is_refused)) {
                let Seen { digest, way } = this;
                let held = Held {
                    why,
                    seen: now(),
                    digest,
                    way,
                    definition,
                    findings,
                    denied: is_refused,
                };
                self.held.insert(id, held);
            }
            judged.definitions.push(match known.pin(name, &way) {
                Some(pin) => pin.definition.clone(),
                None => json!({"name": name, "inputSchema": {"type": "object"}}),
            });
            judged.held.insert(name.to_owned());
        }
        (judged, saw)
    }
}

/// What of a definition counts, with its members in order.
fn own(sent: &Value) -> Value {
    let members = sent.as_object().into_iter().flatten();
    let members: Map<String, Value> = members
        .filter(|(key, _)| MEMBERS.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    Value::Object(members)
}

/// The digest of a value, however the members of its objects are ordered.
fn digest(value: &Value) -> String {
    fn ordered(value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let sorted: BTreeMap<&String, &Value> = members.iter().collect();
                Value::Object(
                    sorted
                        .into_iter()
                        .map(|(key, value)| (key.clone(), ordered(value)))
                        .collect(),
                )
            }
            Value::Array(items) => Value::Array(items.iter().map(ordered).collect()),
            other => other.clone(),
        }
    }
    sha256(&ordered(value).to_string())
}

/// The digest of how a server is reached, without what may be secret.
pub(crate) fn way(server: &Server) -> String {
    let way = match &server.way {
        Way::Stdio {
            command,
            arguments,
            folder,
            ..
        } => json!([command, arguments, folder]),
        Way::Http { url, .. } => json!([url]),
    };
    sha256(&way.to_string())
}

fn sha256(text: &str) -> String {
    format!("sha256:{}", picktools_audit::sha256(text.as_bytes()))
}
