//! Who may see and run what: the one decision that picking and calling share.
//!
//! An [`Access`] says who asks. It is held against each tool's policy data. Catalogs have many
//! tools and few different policies, so tools of equal policy are grouped once, and a decision is
//! made once per group instead of once per tool. What a caller excludes by name, has no quota left
//! for, or keeps in quarantine is added tool by tool. An ineligible tool is never scored, uses up
//! no depth, is not accepted as a call, and is reported with every reason that applies to it.

mod eligibility;
mod reason;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

pub use eligibility::Eligibility;
pub use reason::IneligibleReason;

use crate::catalog::{
    Catalog, Effects, KnownSources, READ_ONLY, ThreatLevel, Tool, UnknownValue, Whole, is_read_only,
};
use crate::json::Json;
use crate::names::{NameTable, Resolution};
use crate::ranking::ToolId;

/// The most ineligible tools that an outcome lists one by one.
pub const MAX_LISTED_INELIGIBLE: usize = 50;

/// Who asks, and so what may be seen and run. The default is a caller without roles who may not see
/// unsafe tools.
///
/// A source is denied with all that look like it; one is allowed by its very name, or but for case
/// and spaces where only one source is meant, and never for its looks. Tools are named by id,
/// `source/name`, name or alias. As JSON every field may be left out, and unknown ones are refused.
///
/// ```
/// use picktools::{Access, Engine, PickOptions, Query, Tool, Catalog};
///
/// let mut refund = Tool::without_arguments("refund", "Sends a customer their money back");
/// refund.allowed_roles = ["finance".to_owned()].into();
/// let engine = Engine::new(Catalog::from_tools([refund])?)?;
/// let query = Query::new("give the money back");
/// let anyone = engine.pick(&query, &PickOptions::default())?;
/// assert!(anyone.picks.is_empty() && anyone.ineligible.counts["role"] == 1);
/// let access = Access { roles: ["finance".to_owned()].into(), ..Access::default() };
/// let clerk = engine.pick(&query, &PickOptions { access, ..PickOptions::default() })?;
/// assert_eq!(clerk.picks[0].tool.name, "refund");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Access {
    /// Whether tools that are marked unsafe are eligible.
    pub allow_unsafe: bool,
    /// The caller's roles.
    pub roles: BTreeSet<String>,
    /// The mode that the agent runs in; tools that fit other modes only are ineligible.
    ///
    /// In the mode `read-only`, without regard to case and separators, so are tools that anyone
    /// marks unsafe or not read-only. A call of a tool that no trusted source says only reads, by
    /// `readOnlyHint: true` or the mode among the tool's own, waits for a person.
    pub execution_mode: Option<String>,
    /// What every tool must be capable of.
    pub capabilities: BTreeSet<String>,
    /// What is left to spend on one call; tools without a cost cost nothing.
    pub max_cost: Option<f64>,
    /// The highest threat level allowed. A tool that names none passes, unless it is marked unsafe:
    /// it counts as high.
    pub max_threat_level: Option<ThreatLevel>,
    /// How many calls are left of the tools named here; one with none left is ineligible.
    #[serde(deserialize_with = "distinct")]
    pub quotas: BTreeMap<String, u64>,
    /// The only sources allowed; empty allows all.
    pub allow_sources: BTreeSet<String>,
    /// Sources that are not allowed.
    pub deny_sources: BTreeSet<String>,
    /// Tools that are excluded; a name that several tools share excludes all of them.
    pub exclude: BTreeSet<String>,
    /// Tools that are held back until the operator approves them; a name that several tools share
    /// holds all of them.
    pub quarantine: BTreeSet<String>,
}

/// Reads quotas, of which none may stand twice.
fn distinct<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, u64>, D::Error> {
    let Json { value, repeated } = Json::deserialize(deserializer)?;
    match repeated.first() {
        Some(pointer) => Err(D::Error::custom(format_args!(
            "the quota {pointer:?} stands twice"
        ))),
        None => serde_json::from_value(value).map_err(D::Error::custom),
    }
}

/// An access that cannot be decided on.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// A field names a tool that the catalog does not have.
    #[error("{field} names {name:?}, which is not a tool of the catalog{}; check the name, or write source/name",
        suggestion.as_ref().map(|s| format!(" (did you mean {s:?}?)")).unwrap_or_default())]
    UnknownTool {
        /// The field.
        field: &'static str,
        /// The name as it was given.
        name: String,
        /// The nearest known name.
        suggestion: Option<String>,
    },
    /// What is left to spend is not a number.
    #[error("max_cost is not a number; give what is left to spend on one call")]
    InvalidCost,
    /// A caller asks for what it may not have ([`Access::within`]).
    #[error(
        "{field} asks for {value:?}, which this caller may not have; leave it out, or ask for less"
    )]
    NotWithin {
        /// The field.
        field: &'static str,
        /// What is asked for.
        value: String,
    },
}

impl Access {
    /// Decides on every tool of a catalog.
    ///
    /// # Errors
    ///
    /// [`AccessError`] for a tool that is named and that the catalog does not have, or a cost that
    /// is not a number: what was misspelt must not let a tool through.
    pub fn decide(&self, catalog: &Catalog, names: &NameTable) -> Result<Eligibility, AccessError> {
        Eligibility::decide(catalog, names, self)
    }

    /// Returns what both this and `limits` allow: `limits` is what the operator allows a caller,
    /// and this how much less the caller wants. It may leave roles away, and have none that the
    /// limits do not have.
    ///
    /// # Errors
    ///
    /// [`AccessError::NotWithin`] for a role, or an execution mode, that the limits do not have,
    /// and for sources of which the limits allow none.
    pub fn within(&self, limits: &Self) -> Result<Self, AccessError> {
        let refuse = |field, value: &str| {
            Err(AccessError::NotWithin {
                field,
                value: value.to_owned(),
            })
        };
        if let Some(role) = self.roles.difference(&limits.roles).next() {
            return refuse("roles", role);
        }
        let execution_mode = match (&self.execution_mode, &limits.execution_mode) {
            (Some(asked), Some(limit)) if asked != limit => return refuse("execution_mode", asked),
            (asked, limit) => asked.as_ref().or(limit.as_ref()).cloned(),
        };
        let both = |asked: &BTreeSet<String>, limits: &BTreeSet<String>| match (
            asked.is_empty(),
            limits.is_empty(),
        ) {
            (true, _) => limits.clone(),
            (_, true) => asked.clone(),
            _ => asked.intersection(limits).cloned().collect(),
        };
        let allow_sources = both(&self.allow_sources, &limits.allow_sources);
        if let Some(source) = self
            .allow_sources
            .first()
            .filter(|_| allow_sources.is_empty())
        {
            return refuse("allow_sources", source);
        }
        let least = |asked: Option<f64>, limit: Option<f64>| match (asked, limit) {
            // What is no number stays, so that it is refused.
            (Some(asked), Some(limit)) => Some(if asked < limit || asked.is_nan() {
                asked
            } else {
                limit
            }),
            (asked, limit) => asked.or(limit),
        };
        let mut quotas = limits.quotas.clone();
        for (tool, &left) in &self.quotas {
            let least = quotas.entry(tool.clone()).or_insert(left);
            *least = left.min(*least);
        }
        let all = |asked: &BTreeSet<String>, limits: &BTreeSet<String>| {
            asked.union(limits).cloned().collect()
        };
        Ok(Self {
            allow_unsafe: self.allow_unsafe && limits.allow_unsafe,
            roles: both(&self.roles, &limits.roles),
            execution_mode,
            capabilities: all(&self.capabilities, &limits.capabilities),
            max_cost: least(self.max_cost, limits.max_cost),
            max_threat_level: [self.max_threat_level, limits.max_threat_level]
                .into_iter()
                .flatten()
                .min(),
            quotas,
            allow_sources,
            deny_sources: all(&self.deny_sources, &limits.deny_sources),
            exclude: all(&self.exclude, &limits.exclude),
            quarantine: all(&self.quarantine, &limits.quarantine),
        })
    }

    /// Returns the values that no tool of the catalog has: roles, capabilities, the execution mode
    /// and sources. Nothing more may be seen for them, and what was meant may not be held back.
    pub fn unknown_values(&self, catalog: &Catalog) -> Vec<UnknownValue> {
        let mut unknown = Vec::new();
        let mut look_for = |field,
                            values: &mut dyn Iterator<Item = &String>,
                            of: fn(&Tool) -> &BTreeSet<String>| {
            for value in
                values.filter(|value| !catalog.policies().any(|tool| of(tool).contains(*value)))
            {
                let known = catalog.policies().flat_map(of).map(String::as_str);
                unknown.push(UnknownValue::new(field, value, known));
            }
        };
        look_for("roles", &mut self.roles.iter(), |tool| &tool.allowed_roles);
        look_for("capabilities", &mut self.capabilities.iter(), |tool| {
            &tool.capabilities
        });
        let modes = || catalog.policies().flat_map(|tool| &tool.modes);
        // No tool need name the mode read-only for it to mean something.
        let is_unknown =
            |mode: &&String| !is_read_only(mode) && modes().all(|known| known != *mode);
        if let Some(mode) = self.execution_mode.as_ref().filter(is_unknown) {
            let known = modes().map(String::as_str).chain([READ_ONLY]);
            unknown.push(UnknownValue::new("execution_mode", mode, known));
        }
        let sources = catalog.sources();
        let allowed = self
            .allow_sources
            .iter()
            .filter(|name| sources.permits_none(name));
        unknown
            .extend(allowed.map(|name| UnknownValue::new("allow_sources", name, sources.names())));
        let denied = self
            .deny_sources
            .iter()
            .filter(|name| sources.restricts_none(name));
        unknown.extend(denied.map(|name| UnknownValue::new("deny_sources", name, sources.names())));
        unknown
    }

    /// Returns `true` if a person must let a call of this tool through: the caller may only read,
    /// and the tool is not known to.
    pub fn must_be_approved(&self, tool: &Tool) -> bool {
        self.only_reads() && tool.effects() != Effects::OnlyReads
    }

    fn only_reads(&self) -> bool {
        self.execution_mode.as_deref().is_some_and(is_read_only)
    }

    /// Returns every reason why `tool` may not be seen, wherever it comes from; none means that it
    /// may.
    ///
    /// A tool without a cost costs nothing.
    fn verdict(&self, tool: &Tool) -> Vec<IneligibleReason> {
        let mut reasons = Vec::new();
        if tool.is_unsafe() && !self.allow_unsafe {
            reasons.push(IneligibleReason::Unsafe);
        }
        if let (Some(level), Some(most)) = (tool.threat_level(), self.max_threat_level)
            && level > most
        {
            reasons.push(IneligibleReason::ThreatLevel { level, most });
        }
        if !tool.allowed_roles.is_empty() && tool.allowed_roles.is_disjoint(&self.roles) {
            reasons.push(IneligibleReason::Role {
                allowed: tool.allowed_roles.clone(),
            });
        }
        let is_meant = |mode: &String| self.execution_mode.as_ref() == Some(mode);
        let fits = |mode: &String| is_meant(mode) || self.only_reads() && is_read_only(mode);
        if self.execution_mode.is_some() && !tool.modes.is_empty() && !tool.modes.iter().any(fits) {
            reasons.push(IneligibleReason::ExecutionMode {
                modes: tool.modes.clone(),
            });
        }
        if self.only_reads() && tool.effects() == Effects::Writes {
            reasons.push(IneligibleReason::NotReadOnly);
        }
        let missing: BTreeSet<String> = self
            .capabilities
            .difference(&tool.capabilities)
            .cloned()
            .collect();
        if !missing.is_empty() {
            reasons.push(IneligibleReason::Capability { missing });
        }
        if let (Some(cost), Some(left)) = (tool.cost, self.max_cost)
            && cost > left
        {
            reasons.push(IneligibleReason::Cost { cost, left });
        }
        reasons
    }

    /// Returns the reasons that concern single tools, by name.
    fn by_tool(
        &self,
        names: &NameTable,
    ) -> Result<BTreeMap<ToolId, Vec<IneligibleReason>>, AccessError> {
        let excluded = self
            .exclude
            .iter()
            .map(|name| ("exclude", name, Some(IneligibleReason::Excluded)));
        let quotas = self.quotas.iter();
        let quotas = quotas.map(|(name, left)| {
            (
                "quotas",
                name,
                (*left == 0).then_some(IneligibleReason::Quota),
            )
        });
        let held_back = self
            .quarantine
            .iter()
            .map(|name| ("quarantine", name, Some(IneligibleReason::Quarantine)));
        let mut by_tool: BTreeMap<ToolId, Vec<IneligibleReason>> = BTreeMap::new();
        for (field, name, reason) in excluded.chain(quotas).chain(held_back) {
            let tools = named(names, field, name)?;
            let Some(reason) = reason else { continue };
            for tool in tools {
                let reasons = by_tool.entry(tool).or_default();
                if !reasons.contains(&reason) {
                    reasons.push(reason.clone());
                }
            }
        }
        Ok(by_tool)
    }
}

/// What an [`Access`] admits of a catalog of which there are parts.
pub struct WholeVerdict<'a> {
    /// Of each policy whether it is admitted.
    pub policies: Vec<bool>,
    /// Whether no source is denied.
    pub admits_all_sources: bool,
    sources: SourceVerdict<'a>,
}

impl WholeVerdict<'_> {
    /// Returns `true` if it admits tools of this source.
    pub fn admits_source(&self, source: Option<&str>) -> bool {
        self.sources.reason(source).is_none()
    }
}

impl Access {
    /// Decides on the policies and sources of a catalog, but for what it says of single tools.
    pub fn decide_whole<'a>(&self, whole: &'a Whole) -> WholeVerdict<'a> {
        let sources = SourceVerdict::new(self, &whole.sources);
        let policies = whole
            .policies
            .iter()
            .map(|tool| self.verdict(tool).is_empty())
            .collect();
        WholeVerdict {
            policies,
            admits_all_sources: sources.admits_all(),
            sources,
        }
    }
}

/// Which sources of a catalog an [`Access`] admits.
struct SourceVerdict<'a> {
    /// `None` where all are.
    allowed: Option<HashSet<&'a str>>,
    denied: HashSet<&'a str>,
}

impl<'a> SourceVerdict<'a> {
    fn new(access: &Access, sources: &'a KnownSources) -> Self {
        let allowed =
            (!access.allow_sources.is_empty()).then(|| sources.permitted(&access.allow_sources));
        Self {
            allowed,
            denied: sources.restricted(&access.deny_sources),
        }
    }

    /// Returns `true` if it admits all sources.
    fn admits_all(&self) -> bool {
        self.allowed.is_none() && self.denied.is_empty()
    }

    /// Returns why a tool of this source may not be seen, if it may not. An empty set of allowed
    /// sources allows all.
    fn reason(&self, source: Option<&str>) -> Option<IneligibleReason> {
        let among = |sources: &HashSet<&str>| source.is_some_and(|source| sources.contains(source));
        let admits = !among(&self.denied) && self.allowed.as_ref().is_none_or(among);
        (!admits).then(|| IneligibleReason::Source {
            source: source.map(str::to_owned),
        })
    }
}

/// The tools that a field's name means: one, or several that share it.
pub(crate) fn named(
    names: &NameTable,
    field: &'static str,
    name: &str,
) -> Result<Vec<ToolId>, AccessError> {
    match names.resolve(name) {
        Resolution::Tool(resolved) => Ok(vec![resolved.tool]),
        Resolution::Ambiguous(tools) => Ok(tools),
        Resolution::Unknown { suggestions } => {
            let suggestion = suggestions.into_iter().next();
            Err(AccessError::UnknownTool {
                field,
                name: name.to_owned(),
                suggestion,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_gets_no_more_than_the_limits_allow_whatever_it_asks_for() {
        let read = |text: &str| serde_json::from_str::<Access>(text).expect(text);
        let limits = read(
            r#"{"allow_unsafe": false, "roles": ["ops", "dev"], "execution_mode": "read-only", "max_cost": 2,
                "max_threat_level": "medium", "quotas": {"a": 3}, "allow_sources": ["git", "web"], "exclude": ["b"]}"#,
        );
        let nothing = Access::default()
            .within(&limits)
            .expect("it asks for nothing");
        assert_eq!(nothing, limits, "who says nothing has the limits");
        let asked = read(
            r#"{"allow_unsafe": true, "roles": ["dev"], "max_cost": 5, "max_threat_level": "high", "quotas": {"a": 9, "c": 1},
                "allow_sources": ["web", "mail"], "deny_sources": ["git"], "exclude": ["d"], "capabilities": ["images"]}"#,
        );
        let expected = read(
            r#"{"allow_unsafe": false, "roles": ["dev"], "execution_mode": "read-only", "max_cost": 2,
                "max_threat_level": "medium", "quotas": {"a": 3, "c": 1}, "allow_sources": ["web"], "deny_sources": ["git"],
                "exclude": ["b", "d"], "capabilities": ["images"]}"#,
        );
        assert_eq!(asked.within(&limits).expect("it is narrower"), expected);
        for (asked, field) in [
            (r#"{"roles": ["admin"]}"#, "roles"),
            (r#"{"execution_mode": "write"}"#, "execution_mode"),
            (r#"{"allow_sources": ["mail"]}"#, "allow_sources"),
        ] {
            let error = read(asked).within(&limits).expect_err(asked);
            assert!(
                matches!(error, AccessError::NotWithin { field: of, .. } if of == field),
                "{asked}: {error}"
            );
        }
    }

    fn tool(name: &str, change: impl FnOnce(&mut Tool)) -> Tool {
        let mut tool = Tool::without_arguments(name, "");
        change(&mut tool);
        tool
    }

    fn set(items: &[&str]) -> BTreeSet<String> {
        items.iter().map(|&item| item.to_owned()).collect()
    }

    fn codes(access: &Access, tool: &Tool) -> Vec<&'static str> {
        let catalog = Catalog::from_tools([tool.clone()]).expect("valid");
        let sources = SourceVerdict::new(access, catalog.sources().known());
        let reasons = access
            .verdict(tool)
            .into_iter()
            .chain(sources.reason(tool.source.as_deref()));
        reasons.map(|reason| reason.code()).collect()
    }

    #[test]
    fn every_reason_applies_alone_and_together() {
        let dangerous = tool("a", |t| t.annotations.destructive_hint = Some(true));
        let hidden = tool("b", |t| {
            t.safe = Some(false);
            t.allowed_roles = set(&["admin"]);
            t.modes = set(&["batch"]);
            t.cost = Some(2.0);
            t.source = Some("mail".into());
        });
        let access = Access {
            execution_mode: Some("interactive".into()),
            capabilities: set(&["streaming"]),
            max_cost: Some(1.0),
            deny_sources: set(&["mail"]),
            ..Access::default()
        };
        assert_eq!(codes(&Access::default(), &dangerous), ["unsafe"]);
        assert_eq!(
            codes(&access, &hidden),
            [
                "unsafe",
                "role",
                "execution_mode",
                "capability",
                "cost",
                "source"
            ]
        );
        let generous = Access {
            allow_unsafe: true,
            roles: set(&["admin", "user"]),
            ..Access::default()
        };
        assert!(codes(&generous, &dangerous).is_empty() && codes(&generous, &hidden).is_empty());
    }

    #[test]
    fn a_hint_only_tightens_and_an_absent_one_is_unknown() {
        assert!(
            tool("a", |t| {
                t.safe = Some(true);
                t.annotations.destructive_hint = Some(true);
            })
            .is_unsafe()
        );
        assert!(!tool("a", |t| t.annotations.read_only_hint = Some(false)).is_unsafe());
        assert!(!tool("a", |_| ()).is_unsafe());
    }

    #[test]
    fn the_table_decides_as_each_verdict_does_and_counts_all() {
        let tools: Vec<Tool> = (0..120)
            .map(|i| {
                tool(&format!("t{i}"), |t| {
                    t.safe = (i % 3 == 0).then_some(false);
                    t.allowed_roles = if i % 2 == 0 {
                        set(&["admin"])
                    } else {
                        set(&[])
                    };
                })
            })
            .collect();
        let catalog = Catalog::from_tools(tools).expect("valid");
        let access = Access {
            exclude: set(&["t1"]),
            ..Access::default()
        };
        let decided = access
            .decide(&catalog, &NameTable::new(&catalog))
            .expect("the name is known");
        for id in catalog.ids() {
            let naive = codes(&access, catalog.tool(id)).is_empty() && id.index() != 1;
            assert_eq!(decided.admits(id), naive);
            assert_eq!(decided.reasons(id).is_empty(), naive);
        }
        assert_eq!(
            *decided.counts(),
            BTreeMap::from([("excluded", 1), ("role", 60), ("unsafe", 40)])
        );
        assert_eq!(decided.ineligible_count(), 81);
        assert_eq!(decided.reasons(ToolId::from_index(0)).len(), 2);
    }

    #[test]
    fn what_is_misspelt_lets_nothing_through() {
        let catalog = Catalog::from_tools([tool("send_email", |_| ())]).expect("valid");
        let names = NameTable::new(&catalog);
        let misspelt = || set(&["send_emial"]);
        for (field, access) in [
            (
                "exclude",
                Access {
                    exclude: misspelt(),
                    ..Access::default()
                },
            ),
            (
                "quarantine",
                Access {
                    quarantine: misspelt(),
                    ..Access::default()
                },
            ),
            (
                "quotas",
                Access {
                    quotas: BTreeMap::from([("send_emial".into(), 3)]),
                    ..Access::default()
                },
            ),
        ] {
            let error = access
                .decide(&catalog, &names)
                .expect_err(field)
                .to_string();
            assert!(
                error.starts_with(field) && error.contains("did you mean \"send_email\"?"),
                "{error}"
            );
        }
        let access = Access {
            max_cost: Some(f64::NAN),
            ..Access::default()
        };
        assert_eq!(
            access.decide(&catalog, &names).expect_err("NaN"),
            AccessError::InvalidCost
        );
        for json in [
            r#"{"allow_unsafe": true, "role": ["admin"]}"#,
            r#"{"allow_unsafe": "yes"}"#,
            r#"{"max_cost": "1"}"#,
            r#"{"quotas": {"send_email": 0, "send_email": 5}}"#,
        ] {
            serde_json::from_str::<Access>(json).expect_err(json);
        }
        let read: Access =
            serde_json::from_str(r#"{"roles": ["admin"]}"#).expect("the rest is filled in");
        assert_eq!(
            read,
            Access {
                roles: set(&["admin"]),
                ..Access::default()
            }
        );
    }
}
