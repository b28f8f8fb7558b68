//! Selections that are run again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::Path;

use picktools::excerpt::marked;
use picktools::names::{NameTable, Resolution};
use picktools::{Access, Catalog, Engine, Mode, PickOptions, Selection};
use picktools_audit::{self as audit, PolicyRecord, Read, Record, SelectionRecord};
use picktools_gateway::Settings;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::args::Model;

/// How many engines are kept, each for a catalog.
const MAX_ENGINES: usize = 8;
/// How many tools of a selection a record lists.
const LISTED: usize = 64;
/// How many differences are kept, the largest.
const MAX_DIFFERENCES: usize = 100;
/// The most characters of a request, and how many tools, that a table shows.
const SHOWN_CHARS: usize = 60;
const SHOWN_TOOLS: usize = 4;
/// How many warnings are kept.
const MAX_WARNINGS: usize = 20;

/// How many selections came out how.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Counts {
    /// Those that were run again.
    replayed: u64,
    /// Byte for byte the same.
    identical: u64,
    /// The same tools in the same order, with other scores or reasons.
    scores_differ: u64,
    /// The same tools in another order.
    order_differs: u64,
    /// Other tools.
    tools_differ: u64,
    /// Those that could not be made any longer.
    failed: u64,
    /// Of those that differ: requests in which something was replaced, which are not held against
    /// it.
    redacted: u64,
    /// Of those that differ: selections of which a stage had failed or run out of time.
    degraded: u64,
    /// Those that are not run again: of requests to models, and what is too large.
    not_replayable: u64,
    /// How long those that were run again took together, in microseconds.
    time_us: u64,
}

impl Counts {
    /// Returns `true` if all that could be the same are.
    pub(super) fn are_same(&self) -> bool {
        self.replayed == self.identical + self.redacted
    }
}

impl fmt::Display for Counts {
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
            "{replayed} selections replayed: {identical} byte-identical, {order_differs} differ in order"
        )?;
        write!(
            f,
            ", {tools_differ} in tools, {scores_differ} in scores or reasons"
        )?;
        for (count, what) in [
            (*failed, "could not be made"),
            (
                self.redacted,
                "of those that differ had something replaced in the request",
            ),
            (
                self.degraded,
                "of those that differ had a stage that failed or ran out of time",
            ),
            (
                self.not_replayable,
                "are not run again: of requests to models, or too large",
            ),
        ] {
            if count > 0 {
                write!(f, "; {count} {what}")?;
            }
        }
        Ok(())
    }
}

/// A selection that came out in another way.
#[derive(Debug, Serialize)]
pub(super) struct Difference {
    record: u64,
    request: String,
    differs_in: Differs,
    /// The tools then and now.
    then: Vec<String>,
    now: Vec<String>,
    /// How many tools are among one of these alone.
    others: usize,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    redacted: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    degraded: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What a selection differs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Differs {
    Scores,
    Order,
    Tools,
    All,
}

impl Difference {
    /// A row of a table.
    pub(super) fn row(&self) -> [String; 5] {
        let list = |tools: &[String]| {
            let mut shown: Vec<String> = tools
                .iter()
                .take(SHOWN_TOOLS)
                .map(|tool| marked(tool, SHOWN_CHARS).into_owned())
                .collect();
            shown.extend(
                (tools.len() > SHOWN_TOOLS)
                    .then(|| format!("and {} more", tools.len() - SHOWN_TOOLS)),
            );
            if shown.is_empty() {
                "–".to_owned()
            } else {
                shown.join(", ")
            }
        };
        let differs = match self.differs_in {
            Differs::Scores => "scores",
            Differs::Order => "order",
            Differs::Tools => "tools",
            Differs::All => "cannot be made",
        };
        let now = self.error.as_ref().map_or_else(
            || list(&self.now),
            |error| marked(error, SHOWN_CHARS).into_owned(),
        );
        let request = marked(&self.request, SHOWN_CHARS).into_owned();
        [
            self.record.to_string(),
            differs.to_owned(),
            request,
            list(&self.then),
            now,
        ]
    }
}

/// Runs selections again, record by record.
pub(super) struct Again<'a> {
    folder: &'a Path,
    model: Model,
    mode: Mode,
    /// In place of the recorded ones, with what its names mean.
    catalog: Option<(Catalog, NameTable)>,
    settings: Option<Settings>,
    engines: HashMap<String, Engine>,
    accesses: HashMap<String, Access>,
    /// The digests of what roles may see.
    roles: BTreeMap<String, String>,
    counts: Counts,
    differences: Vec<Difference>,
    warnings: BTreeSet<String>,
}

impl<'a> Again<'a> {
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
            catalog: catalog.map(|catalog| {
                let names = NameTable::new(&catalog);
                (catalog, names)
            }),
            settings,
            engines: HashMap::new(),
            accesses: HashMap::new(),
            roles: BTreeMap::new(),
            counts: Counts::default(),
            differences: Vec::new(),
            warnings: BTreeSet::new(),
        }
    }

    /// Goes on with a record. Returns `true` if it was one of a selection.
    pub(super) fn take(&mut self, read: Read) -> anyhow::Result<bool> {
        match read.record {
            Record::Policy(policy) => self.hold(*policy),
            Record::Selection(selection) => {
                self.select(read.number, &selection)?;
                return Ok(true);
            }
            _ => {}
        }
        Ok(false)
    }

    /// What held from a record on.
    fn hold(&mut self, policy: PolicyRecord) {
        if let (Some(model), Some(own)) = (&policy.model, self.model.identity())
            && model != own
        {
            self.warn(format!(
                "some were made with the model {model}, and are run with {own}"
            ));
        }
        self.accesses.extend(policy.access);
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
        let made = self.pick(selection, options, query);
        self.counts.time_us += u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.counts.replayed += 1;
        let then: Vec<String> = selection
            .picks
            .iter()
            .map(|pick| pick.tool.clone())
            .collect();
        let (differs_in, now, error) = match made {
            Ok(made) if sha256(&serde_json::to_vec(&made)?) == *digest => {
                self.counts.identical += 1;
                return Ok(());
            }
            Ok(made) => {
                let now: Vec<String> = made
                    .picks
                    .iter()
                    .take(LISTED)
                    .map(|pick| pick.tool.id.clone())
                    .collect();
                let set = |tools: &[String]| tools.iter().cloned().collect::<BTreeSet<_>>();
                let differs = match () {
                    () if now == then => Differs::Scores,
                    () if set(&now) == set(&then) => Differs::Order,
                    () => Differs::Tools,
                };
                (differs, now, None)
            }
            Err(error) => (Differs::All, Vec::new(), Some(format!("{error:#}"))),
        };
        *match differs_in {
            Differs::Scores => &mut self.counts.scores_differ,
            Differs::Order => &mut self.counts.order_differs,
            Differs::Tools => &mut self.counts.tools_differ,
            Differs::All => &mut self.counts.failed,
        } += 1;
        let (redacted, degraded) = (selection.redacted && error.is_none(), selection.degraded);
        self.counts.redacted += u64::from(redacted);
        self.counts.degraded += u64::from(degraded);
        let others = then.iter().filter(|tool| !now.contains(tool)).count()
            + now.iter().filter(|tool| !then.contains(tool)).count();
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
        let recorded = selection.catalog.as_deref().unwrap_or_default();
        let engine = self.engine(recorded)?;
        let mut options = options.clone();
        options.access = self.access(selection, engine.catalog())?;
        // What is to be the same must not depend on how fast this machine is.
        options.timeout = None;
        if self.mode != Mode::Hybrid {
            options.mode = Some(self.mode);
        }
        if let Some((_, names)) = &self.catalog {
            options.always_include.retain(|name| is_known(names, name));
        }
        Ok(engine.pick(query, &options)?)
    }

    /// The engine for a catalog, or for the one that is in place of all.
    fn engine(&mut self, digest: &str) -> anyhow::Result<Engine> {
        let digest = if self.catalog.is_some() { "" } else { digest };
        if let Some(engine) = self.engines.get(digest) {
            return Ok(engine.clone());
        }
        let catalog = match &self.catalog {
            Some((catalog, _)) => catalog.clone(),
            None => audit::catalog(self.folder, digest)?,
        };
        let engine = self.model.engine(catalog)?;
        if self.engines.len() >= MAX_ENGINES {
            self.engines.clear();
        }
        self.engines.insert(digest.to_owned(), engine.clone());
        Ok(engine)
    }

    /// Who could see what, by what held then or by other settings.
    fn access(&self, selection: &SelectionRecord, catalog: &Catalog) -> anyhow::Result<Access> {
        let digest = selection.access.as_deref().unwrap_or_default();
        let Some(then) = self.accesses.get(digest) else {
            anyhow::bail!(
                "the audit does not say who could see what then ({digest}); the record that did was removed"
            );
        };
        let mut access = match &self.settings {
            None => then.clone(),
            Some(settings) => {
                let mut access = settings.access(&selection.role, catalog)?;
                access.quarantine.clone_from(&then.quarantine);
                // What the caller asked of fewer sources than it could see stays so.
                let role = self
                    .roles
                    .get(&selection.role)
                    .and_then(|role| self.accesses.get(role));
                if role.is_none_or(|role| role.allow_sources != then.allow_sources) {
                    access.allow_sources.clone_from(&then.allow_sources);
                }
                access
            }
        };
        if let Some((_, names)) = &self.catalog {
            // Another catalog may not have them, and what it does not have is neither held back nor
            // counted.
            access.exclude.retain(|name| is_known(names, name));
            access.quarantine.retain(|name| is_known(names, name));
            access.quotas.retain(|name, _| is_known(names, name));
        }
        Ok(access)
    }

    /// What is to be known of how they were run.
    pub(super) fn warnings(&self) -> impl Iterator<Item = &String> {
        self.warnings.iter()
    }

    /// What came of them, and the largest differences.
    pub(super) fn end(mut self) -> (Counts, Vec<Difference>) {
        self.keep_largest();
        (self.counts, self.differences)
    }
}

fn is_known(names: &NameTable, name: &str) -> bool {
    !matches!(names.resolve(name), Resolution::Unknown { .. })
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
