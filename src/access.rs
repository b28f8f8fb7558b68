//! Access policies: the one decision that picking and calling share.
//!
//! An [`Access`] describes the caller and is compared with the policy data of each tool. A catalog
//! has many tools and few different policies. So tools of equal policy are grouped once, and one
//! decision covers a group. Exclusions by name, exhausted quotas and quarantine are added tool by
//! tool.
//!
//! An ineligible tool is never scored and takes no place in the shortlist. Calls of it are
//! rejected. Every ineligible tool is counted under each reason that applies to it, and a selection
//! lists the first [`MAX_LISTED_INELIGIBLE`] by name.

mod eligibility;
mod reason;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

pub(crate) use eligibility::DecidedAccess;
pub use eligibility::Eligibility;
pub use reason::IneligibleReason;

use crate::catalog::{
    Catalog, CatalogStats, Effects, KnownSources, READ_ONLY, ThreatLevel, Tool, UnknownValue,
    is_read_only,
};
use crate::json::Json;
use crate::names::{NameTable, PatternError, Resolution, is_glob};
use crate::ranking::ToolId;
use crate::saved::SavedError;

/// The most ineligible tools that a selection lists one by one.
pub const MAX_LISTED_INELIGIBLE: usize = 50;

/// The permissions of a caller. The default is a caller without roles and without access to unsafe
/// tools.
///
/// A denied source includes every source with a confusable name. An allowed source must match by
/// its exact name. A name with other case or spaces matches too, unless it fits several sources.
/// Confusable names never match. Tools are named by id, `source/name`, name or alias, or by a
/// pattern (see [`ToolPatterns`](crate::names::ToolPatterns)); a name or pattern without a tool is
/// an error. In JSON every field is optional, and unknown fields are rejected.
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
    /// `true` if tools that are marked unsafe are eligible.
    pub allow_unsafe: bool,
    /// The caller's roles.
    pub roles: BTreeSet<String>,
    /// The mode that the agent runs in; tools that fit only other modes are ineligible.
    ///
    /// The mode `read-only` may be written in upper or lower case, and with any separators. In it,
    /// tools that are marked as unsafe, or as changing something, are ineligible too. A tool without
    /// such a mark is eligible. Its calls need an approval unless a trusted source declares that the
    /// tool only reads: by `readOnlyHint: true`, or by the mode `read-only` among the tool's modes.
    pub execution_mode: Option<String>,
    /// The capabilities that every tool must have.
    pub capabilities: BTreeSet<String>,
    /// The highest cost of one call; tools without a cost cost nothing.
    pub max_cost: Option<f64>,
    /// The highest threat level allowed. A tool without a threat level passes, unless it is marked
    /// unsafe: then it counts as high.
    pub max_threat_level: Option<ThreatLevel>,
    /// The number of calls left for each tool listed here; a tool with none left is ineligible. A
    /// pattern gives each tool that it matches this number.
    #[serde(deserialize_with = "distinct_quotas")]
    pub quotas: BTreeMap<String, u64>,
    /// The only sources allowed; empty allows all.
    pub allow_sources: BTreeSet<String>,
    /// Sources that are not allowed.
    pub deny_sources: BTreeSet<String>,
    /// Excluded tools: names and patterns. A name that several tools share excludes all of them.
    pub exclude: BTreeSet<String>,
    /// Tools in quarantine until the operator approves them; a name that several tools share covers
    /// all of them.
    pub quarantine: BTreeSet<String>,
}

/// Reads quotas and rejects duplicates.
fn distinct_quotas<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, u64>, D::Error> {
    let Json { value, repeated } = Json::deserialize(deserializer)?;
    match repeated.first() {
        Some(pointer) => Err(D::Error::custom(format_args!(
            "duplicate quota {pointer:?}; remove one of them"
        ))),
        None => serde_json::from_value(value).map_err(D::Error::custom),
    }
}

/// An access policy that cannot be applied.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// A field names a tool that the catalog does not have, or has a pattern that matches no tool.
    #[error(
        "{field} names {name:?}, which {}{}; check the name, or write source/name",
        if is_glob(name) { "matches no tool of the catalog" } else { "is not a tool of the catalog" },
        suggestion.as_ref().map(|s| format!(" (did you mean {s:?}?)")).unwrap_or_default()
    )]
    UnknownTool {
        /// The field.
        field: &'static str,
        /// The unknown name or pattern.
        name: String,
        /// The nearest known name.
        suggestion: Option<String>,
    },
    /// A field has an invalid glob.
    #[error("{field}: {error}")]
    InvalidPattern {
        /// The field.
        field: &'static str,
        /// The fault of the glob.
        #[source]
        error: PatternError,
    },
    /// The definition of a tool cannot be read from the saved index of the catalog.
    #[error("{reason}")]
    Saved {
        /// The fault.
        reason: String,
    },
    /// The cost limit is not a number.
    #[error("max_cost is not a number; give the highest cost of one call")]
    InvalidCost,
    /// A caller asks for more than its limits allow ([`Access::within`]).
    #[error(
        "{field} is not allowed: {value:?} exceeds the limits of this caller; leave it out, or ask \
         for less"
    )]
    NotWithin {
        /// The field.
        field: &'static str,
        /// The requested value.
        value: String,
    },
}

impl From<SavedError> for AccessError {
    fn from(error: SavedError) -> Self {
        Self::Saved {
            reason: error.to_string(),
        }
    }
}

impl Access {
    /// Returns the intersection of this policy and `limits`. `limits` is what the operator allows
    /// the caller; this policy is what the caller requests. It may have some of the limits' roles; a
    /// policy without roles gets all of them.
    ///
    /// # Errors
    ///
    /// [`AccessError::NotWithin`] for a role that the limits lack, for an execution mode other than
    /// that of the limits, and if none of the requested `allow_sources` is among theirs.
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
            (Some(requested), Some(limit)) if requested != limit => {
                return refuse("execution_mode", requested);
            }
            (requested, limit) => requested.as_ref().or(limit.as_ref()).cloned(),
        };
        let allow_sources = restrict(&self.allow_sources, &limits.allow_sources);
        if let Some(source) = self.allow_sources.first()
            && allow_sources.is_empty()
        {
            return refuse("allow_sources", source);
        }
        let mut quotas = limits.quotas.clone();
        for (tool, &calls) in &self.quotas {
            let quota = quotas.entry(tool.clone()).or_insert(calls);
            *quota = calls.min(*quota);
        }
        let union = |requested: &BTreeSet<String>, limits: &BTreeSet<String>| {
            requested.union(limits).cloned().collect()
        };
        Ok(Self {
            allow_unsafe: self.allow_unsafe && limits.allow_unsafe,
            roles: restrict(&self.roles, &limits.roles),
            execution_mode,
            capabilities: union(&self.capabilities, &limits.capabilities),
            max_cost: lower_cost(self.max_cost, limits.max_cost),
            max_threat_level: [self.max_threat_level, limits.max_threat_level]
                .into_iter()
                .flatten()
                .min(),
            quotas,
            allow_sources,
            deny_sources: union(&self.deny_sources, &limits.deny_sources),
            exclude: union(&self.exclude, &limits.exclude),
            quarantine: union(&self.quarantine, &limits.quarantine),
        })
    }

    /// Returns the values that no tool of the catalog has: roles, capabilities, the execution mode
    /// and sources. They are probably misspelt: an unknown role admits no tool, an unknown
    /// capability, mode or allowed source excludes tools, and an unknown denied source excludes
    /// none.
    ///
    /// # Errors
    ///
    /// [`SavedError`] if the definition of a tool cannot be read.
    pub fn unknown_values(&self, catalog: &Catalog) -> Result<Vec<UnknownValue>, SavedError> {
        let policies = catalog.policies()?;
        let policies = || policies.iter().copied();
        let mut unknown = Vec::new();
        let mut collect_unknown =
            |field, values: &BTreeSet<String>, tool_values: fn(&Tool) -> &BTreeSet<String>| {
                for value in values {
                    let has_value = |tool: &Tool| tool_values(tool).contains(value);
                    if !policies().any(has_value) {
                        let candidates = policies().flat_map(tool_values);
                        let candidates = candidates.map(String::as_str);
                        unknown.push(UnknownValue::new(field, value, candidates));
                    }
                }
            };
        collect_unknown("roles", &self.roles, |tool| &tool.allowed_roles);
        collect_unknown("capabilities", &self.capabilities, |tool| {
            &tool.capabilities
        });
        let modes = || policies().flat_map(|tool| &tool.modes);
        // The mode read-only has an effect even if no tool names it.
        if let Some(mode) = &self.execution_mode
            && !is_read_only(mode)
            && modes().all(|tool_mode| tool_mode != mode)
        {
            let candidates = modes().map(String::as_str).chain([READ_ONLY]);
            unknown.push(UnknownValue::new("execution_mode", mode, candidates));
        }
        let sources = catalog.sources();
        for name in &self.allow_sources {
            if sources.permits_none(name) {
                unknown.push(UnknownValue::new("allow_sources", name, sources.names()));
            }
        }
        for name in &self.deny_sources {
            if sources.restricts_none(name) {
                unknown.push(UnknownValue::new("deny_sources", name, sources.names()));
            }
        }
        Ok(unknown)
    }

    /// Returns the names and patterns of tools in the policy, each with its field.
    pub fn named_tools(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let excluded = self.exclude.iter().map(|name| ("exclude", name));
        let limited = self.quotas.keys().map(|name| ("quotas", name));
        let quarantined = self.quarantine.iter().map(|name| ("quarantine", name));
        excluded.chain(limited).chain(quarantined)
    }

    /// Returns `true` if a call of this tool needs an approval: the caller may only read, and no
    /// trusted source declares that the tool only reads.
    pub fn must_be_approved(&self, tool: &Tool) -> bool {
        self.only_reads() && tool.effects() != Effects::OnlyReads
    }

    fn only_reads(&self) -> bool {
        self.execution_mode.as_deref().is_some_and(is_read_only)
    }

    /// Returns the reasons why `tool` is ineligible, apart from its source; an empty list means
    /// that it is eligible.
    ///
    /// A tool without a cost costs nothing.
    fn verdict(&self, tool: &Tool) -> Vec<IneligibleReason> {
        let mut reasons = Vec::new();
        if tool.is_unsafe() && !self.allow_unsafe {
            reasons.push(IneligibleReason::Unsafe);
        }
        if let (Some(level), Some(limit)) = (tool.threat_level(), self.max_threat_level)
            && level > limit
        {
            reasons.push(IneligibleReason::ThreatLevel { level, most: limit });
        }
        if !tool.allowed_roles.is_empty() && tool.allowed_roles.is_disjoint(&self.roles) {
            reasons.push(IneligibleReason::Role {
                allowed: tool.allowed_roles.clone(),
            });
        }
        let is_current = |mode: &String| self.execution_mode.as_ref() == Some(mode);
        let fits = |mode: &String| is_current(mode) || self.only_reads() && is_read_only(mode);
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
        if let (Some(cost), Some(limit)) = (tool.cost, self.max_cost)
            && cost > limit
        {
            reasons.push(IneligibleReason::Cost { cost, left: limit });
        }
        reasons
    }

    /// Returns the reasons that apply to single tools, which the policy names.
    fn reasons_by_tool(
        &self,
        names: &NameTable,
        catalog: &Catalog,
    ) -> Result<BTreeMap<ToolId, Vec<IneligibleReason>>, AccessError> {
        let mut by_tool: BTreeMap<ToolId, Vec<IneligibleReason>> = BTreeMap::new();
        let mut add = |tools: Vec<ToolId>, reason: IneligibleReason| {
            for tool in tools {
                let reasons = by_tool.entry(tool).or_default();
                if !reasons.contains(&reason) {
                    reasons.push(reason.clone());
                }
            }
        };
        for name in &self.exclude {
            let tools = resolve_tools(names, catalog, "exclude", name)?;
            add(tools, IneligibleReason::Excluded);
        }
        for (name, calls) in &self.quotas {
            let tools = resolve_tools(names, catalog, "quotas", name)?;
            if *calls == 0 {
                add(tools, IneligibleReason::Quota);
            }
        }
        for name in &self.quarantine {
            let tools = resolve_tools(names, catalog, "quarantine", name)?;
            add(tools, IneligibleReason::Quarantine);
        }
        Ok(by_tool)
    }
}

/// The decision on the policies and sources of a sharded catalog.
pub struct CatalogVerdict<'a> {
    /// Flags by policy: `true` if the policy is admitted.
    pub policies: Vec<bool>,
    /// `true` if every source is admitted.
    pub admits_all_sources: bool,
    sources: SourceVerdict<'a>,
}

impl CatalogVerdict<'_> {
    /// Returns `true` if tools of this source are admitted.
    pub fn admits_source(&self, source: Option<&str>) -> bool {
        self.sources.reason(source).is_none()
    }
}

impl Access {
    /// Decides on the policies and sources of a catalog. Exclusions, quotas and quarantine of
    /// single tools do not count.
    pub fn decide_for_stats<'a>(&self, stats: &'a CatalogStats) -> CatalogVerdict<'a> {
        let sources = SourceVerdict::new(self, &stats.sources);
        let policies = stats
            .policies
            .iter()
            .map(|tool| self.verdict(tool).is_empty())
            .collect();
        CatalogVerdict {
            policies,
            admits_all_sources: sources.admits_all(),
            sources,
        }
    }
}

/// The sources of a catalog that an [`Access`] admits.
struct SourceVerdict<'a> {
    /// The allowed sources; `None` allows all.
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

    /// Returns `true` if every source is admitted.
    fn admits_all(&self) -> bool {
        self.allowed.is_none() && self.denied.is_empty()
    }

    /// Returns the reason why tools of this source are ineligible, if they are.
    fn reason(&self, source: Option<&str>) -> Option<IneligibleReason> {
        let is_in = |sources: &HashSet<&str>| source.is_some_and(|source| sources.contains(source));
        let admits = !is_in(&self.denied) && self.allowed.as_ref().is_none_or(is_in);
        (!admits).then(|| IneligibleReason::Source {
            source: source.map(str::to_owned),
        })
    }
}

/// Returns the tools that a name in a policy field refers to: one, several that share it, or those
/// that a pattern matches. A pattern is never read as a variant spelling of a name.
///
/// # Errors
///
/// [`AccessError`] if no tool has the name, the pattern matches no tool, or it is invalid, and if
/// the definition of a tool cannot be read.
pub fn resolve_tools(
    names: &NameTable,
    catalog: &Catalog,
    field: &'static str,
    name: &str,
) -> Result<Vec<ToolId>, AccessError> {
    let pattern = names.pattern(name);
    if let Some(pattern) = pattern.map_err(|error| AccessError::InvalidPattern { field, error })? {
        let tools = pattern.tools(catalog)?;
        if tools.is_empty() {
            return Err(AccessError::UnknownTool {
                field,
                name: name.to_owned(),
                suggestion: None,
            });
        }
        return Ok(tools);
    }
    match names.resolve(name, catalog)? {
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

/// Returns the values that both sets allow; an empty set allows all.
fn restrict(requested: &BTreeSet<String>, limits: &BTreeSet<String>) -> BTreeSet<String> {
    match (requested.is_empty(), limits.is_empty()) {
        (true, _) => limits.clone(),
        (_, true) => requested.clone(),
        _ => requested.intersection(limits).cloned().collect(),
    }
}

/// Returns the lower of two costs. A requested NaN is returned as it is, so that it is rejected
/// later.
fn lower_cost(requested: Option<f64>, limit: Option<f64>) -> Option<f64> {
    match (requested, limit) {
        (Some(requested), Some(limit)) => {
            let is_lower = requested < limit || requested.is_nan();
            Some(if is_lower { requested } else { limit })
        }
        (requested, limit) => requested.or(limit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_within_limits_never_exceeds_the_limits() {
        let parse = |text: &str| serde_json::from_str::<Access>(text).expect(text);
        let limits = parse(
            r#"{"allow_unsafe": false, "roles": ["ops", "dev"], "execution_mode": "read-only",
                "max_cost": 2, "max_threat_level": "medium", "quotas": {"a": 3},
                "allow_sources": ["git", "web"], "exclude": ["b"]}"#,
        );
        let default = Access::default()
            .within(&limits)
            .expect("the default requests nothing");
        assert_eq!(default, limits, "a default request gets the limits");
        let requested = parse(
            r#"{"allow_unsafe": true, "roles": ["dev"], "max_cost": 5, "max_threat_level": "high",
                "quotas": {"a": 9, "c": 1}, "allow_sources": ["web", "mail"],
                "deny_sources": ["git"], "exclude": ["d"], "capabilities": ["images"]}"#,
        );
        let expected = parse(
            r#"{"allow_unsafe": false, "roles": ["dev"], "execution_mode": "read-only",
                "max_cost": 2, "max_threat_level": "medium", "quotas": {"a": 3, "c": 1},
                "allow_sources": ["web"], "deny_sources": ["git"],
                "exclude": ["b", "d"], "capabilities": ["images"]}"#,
        );
        let restricted = requested.within(&limits).expect("the roles are allowed");
        assert_eq!(restricted, expected);
        for (json, field) in [
            (r#"{"roles": ["admin"]}"#, "roles"),
            (r#"{"execution_mode": "write"}"#, "execution_mode"),
            (r#"{"allow_sources": ["mail"]}"#, "allow_sources"),
        ] {
            let error = parse(json).within(&limits).expect_err(json);
            let AccessError::NotWithin { field: refused, .. } = error else {
                panic!("{json}: {error}");
            };
            assert_eq!(refused, field, "{json}");
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
        let sources = SourceVerdict::new(access, catalog.sources().known_sources());
        let reasons = access
            .verdict(tool)
            .into_iter()
            .chain(sources.reason(tool.source.as_deref()));
        reasons.map(|reason| reason.code()).collect()
    }

    #[test]
    fn ineligible_reasons_apply_alone_and_together() {
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
    fn hints_only_tighten_and_an_absent_hint_is_unknown() {
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
    fn eligibility_equals_single_verdicts_and_counts_all_tools() {
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
        let eligibility = access
            .decide(&catalog, &NameTable::new(&catalog).expect("in memory"))
            .expect("the name is known");
        for id in catalog.ids() {
            let is_eligible =
                codes(&access, catalog.tool(id).expect("in memory")).is_empty() && id.index() != 1;
            assert_eq!(eligibility.admits(id), is_eligible);
            assert_eq!(eligibility.reasons(id).is_empty(), is_eligible);
        }
        assert_eq!(
            *eligibility.counts(),
            BTreeMap::from([("excluded", 1), ("role", 60), ("unsafe", 40)])
        );
        assert_eq!(eligibility.ineligible_count(), 81);
        assert_eq!(eligibility.reasons(ToolId::from_index(0)).len(), 2);
    }

    #[test]
    fn misspelt_policies_are_rejected() {
        let catalog = Catalog::from_tools([tool("send_email", |_| ())]).expect("valid");
        let names = NameTable::new(&catalog).expect("in memory");
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
        let parsed: Access =
            serde_json::from_str(r#"{"roles": ["admin"]}"#).expect("the other fields are optional");
        assert_eq!(
            parsed,
            Access {
                roles: set(&["admin"]),
                ..Access::default()
            }
        );
    }
}
