//! The rerun of recorded selections.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use picktools::access::resolve_tools;
use picktools::excerpt::marked;
use picktools::names::{NameTable, is_glob};
use picktools::{Access, Catalog, Engine, Mode, PickOptions, Selection};
use picktools_audit::{self as audit, NumberedRecord, PolicyRecord, Record, SelectionRecord};
use picktools_gateway::Settings;
use picktools_gateway::snapshot::VisibleTools;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::args::Model;

/// The largest number of cached engines, one per catalog and view of a role.
const MAX_ENGINES: usize = 8;
/// The number of picked tools that a record lists.
const MAX_RECORDED_PICKS: usize = 64;
/// The number of differences that are kept, largest first.
const MAX_DIFFERENCES: usize = 100;
/// The most characters of a request, and the most tools, in a table.
const SHOWN_CHARS: usize = 60;
const SHOWN_TOOLS: usize = 4;
/// The largest number of warnings.
const MAX_WARNINGS: usize = 20;

/// The counts of selections by the result of their rerun.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ReplayCounts {
    /// Selections that were made again.
    replayed: u64,
    /// Selections that are byte-identical.
    identical: u64,
    /// Selections with the same tools in the same order, but other scores or reasons.
    scores_differ: u64,
    /// Selections with the same tools in another order.
    order_differs: u64,
    /// Selections with other tools.
    tools_differ: u64,
    /// Selections that can no longer be made.
    failed: u64,
    /// Selections that differ, but whose requests were redacted. They do not count as differences.
    redacted: u64,
    /// Selections that differ, but had a stage that failed or timed out.
    degraded: u64,
    /// Selections that are not made again: those of the model proxy, and those that are too large.
    not_replayable: u64,
    /// The total time of the rerun in microseconds.
    time_us: u64,
}

impl ReplayCounts {
    /// Returns `true` if all selections that were not redacted are identical.
    pub(super) fn are_same(&self) -> bool {
        self.replayed == self.identical + self.redacted
    }
}

impl fmt::Display for ReplayCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            replayed,
            identical,
            scores_differ,
            order_differs,
            tools_differ,
            failed,
            ..
        } = self;
        write!(
            f,
            "{replayed} selections replayed: {identical} byte-identical, \
             {order_differs} differ in order"
        )?;
        write!(
            f,
            ", {tools_differ} in tools, {scores_differ} in scores or reasons"
        )?;
        for (count, description) in [
            (*failed, "failed"),
            (self.redacted, "differing ones have a redacted request"),
            (
                self.degraded,
                "differing ones had a stage that failed or timed out",
            ),
            (
                self.not_replayable,
                "not replayed, because they belong to the model proxy or are too large",
            ),
        ] {
            if count > 0 {
                write!(f, "; {count} {description}")?;
            }
        }
        Ok(())
    }
}

/// A selection that differs from the recorded one.
#[derive(Debug, Serialize)]
pub(super) struct Difference {
    record: u64,
    request: String,
    differs_in: DifferenceKind,
    /// The recorded tools and the current ones.
    then: Vec<String>,
    now: Vec<String>,
    /// The number of tools that are in only one of the two.
    others: usize,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    redacted: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    degraded: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The kind of a difference, from the smallest to the largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum DifferenceKind {
    Scores,
    Order,
    Tools,
    All,
}

impl Difference {
    /// Returns the row of the table.
    pub(super) fn row(&self) -> [String; 5] {
        let differs = match self.differs_in {
            DifferenceKind::Scores => "scores",
            DifferenceKind::Order => "order",
            DifferenceKind::Tools => "tools",
            DifferenceKind::All => "failed",
        };
        let now = match &self.error {
            Some(error) => marked(error, SHOWN_CHARS).into_owned(),
            None => list_tools(&self.now),
        };
        [
            self.record.to_string(),
            differs.to_owned(),
            marked(&self.request, SHOWN_CHARS).into_owned(),
            list_tools(&self.then),
            now,
        ]
    }
}

/// Returns the first tools for the table, and the number of the others.
fn list_tools(tools: &[String]) -> String {
    if tools.is_empty() {
        return "–".to_owned();
    }
    let mut names = Vec::new();
    for tool in tools.iter().take(SHOWN_TOOLS) {
        names.push(marked(tool, SHOWN_CHARS).into_owned());
    }
    if tools.len() > SHOWN_TOOLS {
        names.push(format!("and {} more", tools.len() - SHOWN_TOOLS));
    }
    names.join(", ")
}

/// Compares the tools of a recorded selection with those of its rerun.
fn difference_in_tools(then: &[String], now: &[String]) -> DifferenceKind {
    let then_set: BTreeSet<&String> = then.iter().collect();
    let now_set: BTreeSet<&String> = now.iter().collect();
    if now == then {
        DifferenceKind::Scores
    } else if now_set == then_set {
        DifferenceKind::Order
    } else {
        DifferenceKind::Tools
    }
}

/// Returns the number of tools that are not among the others.
fn count_missing(tools: &[String], others: &[String]) -> usize {
    tools.iter().filter(|tool| !others.contains(tool)).count()
}

/// The tools that a role would see with another catalog or other settings.
#[derive(Clone)]
struct OtherView {
    engine: Engine,
    names: Arc<NameTable>,
    /// The access policy of the role.
    access: Access,
}

impl OtherView {
    fn is_known(&self, name: &str) -> bool {
        resolve_tools(&self.names, self.engine.catalog(), "name", name).is_ok()
    }

    /// Removes the names that the view lacks. They would be errors.
    fn remove_unknown(&self, options: &mut PickOptions) {
        let access = &mut options.access;
        access.exclude.retain(|name| self.is_known(name));
        access.quarantine.retain(|name| self.is_known(name));
        access.quotas.retain(|name, _| self.is_known(name));
        // A glob without a tool is no error in these options.
        let may_stay = |name: &String| is_glob(name) || self.is_known(name);
        options.always_include.retain(may_stay);
        options.fallbacks.retain(may_stay);
    }
}

/// A rerun of recorded selections, record by record.
pub(super) struct Replayer<'a> {
    folder: &'a Path,
    model: Model,
    mode: Mode,
    /// The catalog that replaces the recorded ones.
    catalog: Option<Catalog>,
    settings: Option<Settings>,
    /// The engines by the digests of their catalogs.
    engines: HashMap<String, Engine>,
    /// The views by role, access policy and catalog.
    views: HashMap<[String; 3], OtherView>,
    /// The digest of the complete catalog, of which a role sees a part.
    complete_catalog: Option<String>,
    accesses: HashMap<String, Access>,
    /// The digests of the roles' access policies.
    roles: BTreeMap<String, String>,
    counts: ReplayCounts,
    differences: Vec<Difference>,
    warnings: BTreeSet<String>,
}

impl<'a> Replayer<'a> {
    pub(super) fn new(
        folder: &'a Path,
        model: Model,
        mode: Mode,
        catalog: Option<Catalog>,
        settings: Option<Settings>,
    ) -> Self {
        Self {
            folder,
            model,
            mode,
            catalog,
            settings,
            engines: HashMap::new(),
            views: HashMap::new(),
            complete_catalog: None,
            accesses: HashMap::new(),
            roles: BTreeMap::new(),
            counts: ReplayCounts::default(),
            differences: Vec::new(),
            warnings: BTreeSet::new(),
        }
    }

    /// Processes a record. Returns `true` if it is a selection.
    pub(super) fn take(&mut self, read: NumberedRecord) -> anyhow::Result<bool> {
        match read.record {
            Record::Policy(policy) => self.apply_policy(*policy),
            Record::Selection(selection) => {
                self.select(read.number, &selection)?;
                return Ok(true);
            }
            _ => {}
        }
        Ok(false)
    }

    /// Applies a policy record to the records after it.
    fn apply_policy(&mut self, policy: PolicyRecord) {
        if let (Some(recorded), Some(current)) = (&policy.model, self.model.identity())
            && recorded != current
        {
            self.warn(format!(
                "some selections were made with the model {recorded} and are rerun with {current}"
            ));
        }
        self.accesses.extend(policy.access);
        if policy.catalog.is_some() {
            self.complete_catalog = policy.catalog;
        }
        if !policy.roles.is_empty() {
            self.roles = policy
                .roles
                .into_iter()
                .map(|(name, role)| (name, role.access))
                .collect();
        }
    }

    fn warn(&mut self, warning: String) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.insert(warning);
        }
    }

    fn select(&mut self, number: u64, selection: &SelectionRecord) -> anyhow::Result<()> {
        let (Some(query), Some(options), Some(digest)) =
            (&selection.query, &selection.options, &selection.selection)
        else {
            self.counts.not_replayable += 1;
            return Ok(());
        };
        let started = std::time::Instant::now();
        let result = self.pick(selection, options, query);
        self.counts.time_us += u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.counts.replayed += 1;
        let then: Vec<String> = selection
            .picks
            .iter()
            .map(|pick| pick.tool.clone())
            .collect();
        let (differs_in, now, error) = match result {
            Ok(replayed) if sha256(&serde_json::to_vec(&replayed)?) == *digest => {
                self.counts.identical += 1;
                return Ok(());
            }
            Ok(replayed) => {
                let now: Vec<String> = replayed
                    .picks
                    .iter()
                    .take(MAX_RECORDED_PICKS)
                    .map(|pick| pick.tool.id.clone())
                    .collect();
                (difference_in_tools(&then, &now), now, None)
            }
            Err(error) => (DifferenceKind::All, Vec::new(), Some(format!("{error:#}"))),
        };
        *match differs_in {
            DifferenceKind::Scores => &mut self.counts.scores_differ,
            DifferenceKind::Order => &mut self.counts.order_differs,
            DifferenceKind::Tools => &mut self.counts.tools_differ,
            DifferenceKind::All => &mut self.counts.failed,
        } += 1;
        let (redacted, degraded) = (selection.redacted && error.is_none(), selection.degraded);
        self.counts.redacted += u64::from(redacted);
        self.counts.degraded += u64::from(degraded);
        let others = count_missing(&then, &now) + count_missing(&now, &then);
        let request = marked(query.text(), 200).into_owned();
        let record = number;
        self.differences.push(Difference {
            record,
            request,
            differs_in,
            then,
            now,
            others,
            redacted,
            degraded,
            error,
        });
        if self.differences.len() > MAX_DIFFERENCES * 2 {
            self.keep_largest();
        }
        Ok(())
    }

    fn keep_largest(&mut self) {
        self.differences.sort_by_key(|difference| {
            let Difference {
                redacted,
                differs_in,
                others,
                record,
                ..
            } = difference;
            (
                *redacted,
                std::cmp::Reverse((*differs_in, *others)),
                *record,
            )
        });
        self.differences.truncate(MAX_DIFFERENCES);
    }

    fn pick(
        &mut self,
        selection: &SelectionRecord,
        options: &PickOptions,
        query: &picktools::Query,
    ) -> anyhow::Result<Selection> {
        let mut options = options.clone();
        // The result must not depend on the speed of this machine.
        options.timeout = None;
        if self.mode != Mode::Hybrid {
            options.mode = Some(self.mode);
        }
        options.access = self.recorded_access(selection)?.clone();
        if self.catalog.is_none() && self.settings.is_none() {
            let recorded = selection.catalog.as_deref().unwrap_or_default();
            return Ok(self.engine(recorded)?.pick(query, &options)?);
        }
        let view = self.other_view(selection)?;
        if self.settings.is_some() {
            options.access = self.other_access(selection, &view, &options.access);
        }
        view.remove_unknown(&mut options);
        Ok(view.engine.pick(query, &options)?)
    }

    /// Returns the engine of a recorded catalog.
    fn engine(&mut self, digest: &str) -> anyhow::Result<Engine> {
        if let Some(engine) = self.engines.get(digest) {
            return Ok(engine.clone());
        }
        let catalog = match &self.catalog {
            Some(catalog) if catalog.digest() == digest => catalog.clone(),
            _ => audit::catalog(self.folder, digest)?,
        };
        let engine = self.model.engine(catalog)?;
        if self.engines.len() >= MAX_ENGINES {
            self.engines.clear();
        }
        self.engines.insert(digest.to_owned(), engine.clone());
        Ok(engine)
    }

    /// Returns the tools that the role of a selection would see with the other catalog or settings.
    fn other_view(&mut self, selection: &SelectionRecord) -> anyhow::Result<OtherView> {
        let recorded = selection.catalog.as_deref();
        let digest = match &self.catalog {
            Some(catalog) => catalog.digest(),
            None => self
                .complete_catalog
                .as_deref()
                .or(recorded)
                .unwrap_or_default(),
        };
        let digest = digest.to_owned();
        let role = selection.role.clone();
        let policy = self.roles.get(&role).or(selection.access.as_ref());
        let key = [role, policy.cloned().unwrap_or_default(), digest];
        if let Some(view) = self.views.get(&key) {
            return Ok(view.clone());
        }
        let [role, _, digest] = &key;
        let engine = self.engine(digest)?;
        let catalog = engine.catalog();
        let recorded = match self.role_access(role) {
            Some(access) => access,
            None => self.recorded_access(selection)?,
        };
        let mut access = recorded.clone();
        if let Some(settings) = &self.settings {
            access = settings.access(role, catalog)?;
            access.quarantine.clone_from(&recorded.quarantine);
        }
        access.exclude.retain(|id| catalog.find(id).is_some());
        access.quarantine.retain(|id| catalog.find(id).is_some());
        access.quotas.retain(|id, _| catalog.find(id).is_some());
        let visible = VisibleTools::new(catalog, &access)?;
        let view = OtherView {
            names: Arc::new(NameTable::new(&visible.catalog)?),
            access: visible.access.clone(),
            engine: visible.engine(&engine)?,
        };
        if self.views.len() >= MAX_ENGINES {
            self.views.clear();
        }
        self.views.insert(key, view.clone());
        Ok(view)
    }

    /// Returns the recorded access policy of a selection.
    fn recorded_access(&self, selection: &SelectionRecord) -> anyhow::Result<&Access> {
        let digest = selection.access.as_deref().unwrap_or_default();
        self.accesses.get(digest).with_context(|| {
            format!(
                "the audit log does not contain the access policy {digest} of this selection; \
                 its record was removed"
            )
        })
    }

    /// Returns the access policy of a selection with the other settings.
    fn other_access(
        &self,
        selection: &SelectionRecord,
        view: &OtherView,
        recorded: &Access,
    ) -> Access {
        let mut access = view.access.clone();
        // A caller that asked for fewer sources than it may see keeps that limit.
        let role = self.role_access(&selection.role);
        if role.is_none_or(|role| role.allow_sources != recorded.allow_sources) {
            access.allow_sources.clone_from(&recorded.allow_sources);
        }
        access
    }

    /// Returns the recorded access policy of a role.
    fn role_access(&self, role: &str) -> Option<&Access> {
        let digest = self.roles.get(role)?;
        self.accesses.get(digest)
    }

    /// Returns the warnings of the rerun.
    pub(super) fn warnings(&self) -> impl Iterator<Item = &String> {
        self.warnings.iter()
    }

    /// Returns the counts and the largest differences.
    pub(super) fn end(mut self) -> (ReplayCounts, Vec<Difference>) {
        self.keep_largest();
        (self.counts, self.differences)
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
