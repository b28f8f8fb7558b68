//! Warnings about judgments that no pick can satisfy.

use std::collections::BTreeSet;

use picktools::names::NameTable;
use picktools::{Access, Catalog};
use picktools_eval::{IneligibleJudgments, Qrels, Run};

/// A remedy for a reason why tools are ineligible.
struct Remedy {
    /// The code of the reason.
    code: &'static str,
    action: &'static str,
}

/// The remedies, in the order of a warning.
const REMEDIES: [Remedy; 10] = [
    Remedy {
        code: "unsafe",
        action: "leave out --deny-unsafe",
    },
    Remedy {
        code: "role",
        action: "add --role",
    },
    Remedy {
        code: "execution_mode",
        action: "change --execution-mode",
    },
    Remedy {
        code: "not_read_only",
        action: "change --execution-mode",
    },
    Remedy {
        code: "threat_level",
        action: "raise --max-threat-level",
    },
    Remedy {
        code: "capability",
        action: "leave out --capability",
    },
    Remedy {
        code: "cost",
        action: "raise --max-cost",
    },
    Remedy {
        code: "quota",
        action: "raise --quota",
    },
    Remedy {
        code: "source",
        action: "change --allow-source or --deny-source",
    },
    Remedy {
        code: "excluded",
        action: "leave out --exclude",
    },
];

/// Counts the relevant tools that the caller may not see; `None` if all are eligible.
pub(super) fn ineligible(
    qrels: &Qrels,
    catalog: &Catalog,
    access: &Access,
) -> anyhow::Result<Option<IneligibleJudgments>> {
    let eligibility = access.decide(catalog, &NameTable::new(catalog)?)?;
    let reasons = |tool: &str| {
        let mut codes = Vec::new();
        if let Some(id) = catalog.find(tool) {
            codes.extend(eligibility.reasons(id).iter().map(|reason| reason.code()));
        }
        codes
    };
    Ok(IneligibleJudgments::new(qrels, reasons))
}

/// Returns the warning about relevant tools that the caller may not see, with the remedies.
pub(super) fn ineligible_warning(set: &str, judged: &IneligibleJudgments) -> String {
    let mut counts = Vec::new();
    for (code, tools) in &judged.counts {
        counts.push(format!("{code}: {tools}"));
    }
    let mut actions: Vec<&str> = Vec::new();
    for remedy in &REMEDIES {
        if judged.counts.contains_key(remedy.code) && !actions.contains(&remedy.action) {
            actions.push(remedy.action);
        }
    }
    // A quarantined tool has no remedy on this command line.
    let remedies = match &actions[..] {
        [] => "remove their judgments".to_owned(),
        actions => format!("{}, or remove their judgments", actions.join(" and ")),
    };
    format!(
        "{set}: judged tools that are ineligible and never picked: {} ({}); affected queries: {}, \
         {} of them without an eligible judged tool; {remedies}",
        judged.tools,
        counts.join(", "),
        judged.queries,
        judged.unreachable_queries,
    )
}

/// Returns warnings of judgments with unknown ids, which are usually wrong.
pub(super) fn unknown(set: &str, qrels: &Qrels, run: &Run, catalog: &Catalog) -> Vec<String> {
    let mut warnings = Vec::new();
    let queries = qrels
        .iter()
        .filter(|(query, _)| run.get(query).is_none())
        .count();
    if queries > 0 {
        warnings.push(format!(
            "{set}: {queries} judged queries are missing from the queries and score 0"
        ));
    }
    let mut tools = BTreeSet::new();
    for (_, judgments) in qrels.iter() {
        for (tool, _) in judgments.iter() {
            if catalog.find(tool).is_none() {
                tools.insert(tool);
            }
        }
    }
    if let Some(first) = tools.first() {
        warnings.push(format!(
            "{set}: {} judged tools are not in the catalog, such as {first:?}",
            tools.len()
        ));
    }
    warnings
}
