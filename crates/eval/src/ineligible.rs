//! Relevant tools that the access policy excludes from every ranking.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Qrels;

/// The relevant tools of a set that the caller may not see. They cannot be picked, so they lower
/// the measures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IneligibleJudgments {
    /// The number of tools that are relevant to a query and ineligible.
    pub tools: usize,
    /// The number of queries with such a tool.
    pub queries: usize,
    /// The number of these queries without an eligible relevant tool; they score 0.
    pub unreachable_queries: usize,
    /// The number of tools by the code of a reason; a tool with two reasons counts under both.
    pub counts: BTreeMap<&'static str, usize>,
}

impl IneligibleJudgments {
    /// Counts the ineligible tools among the relevant ones; `None` if all are eligible.
    ///
    /// `reasons` returns the codes of the reasons why a tool is ineligible. The list is empty for
    /// an eligible tool, and for one that the catalog does not have.
    pub fn new(qrels: &Qrels, reasons: impl Fn(&str) -> Vec<&'static str>) -> Option<Self> {
        let mut judged = Self::default();
        let mut tools = BTreeSet::new();
        for (_, judgments) in qrels.iter() {
            let mut ineligible = 0;
            for (tool, grade) in judgments.iter() {
                if grade <= 0 {
                    continue;
                }
                let codes: BTreeSet<&'static str> = reasons(tool).into_iter().collect();
                if codes.is_empty() {
                    continue;
                }
                ineligible += 1;
                if tools.insert(tool) {
                    for code in codes {
                        *judged.counts.entry(code).or_insert(0) += 1;
                    }
                }
            }
            judged.queries += usize::from(ineligible > 0);
            let is_unreachable = ineligible > 0 && ineligible == judgments.relevant_len();
            judged.unreachable_queries += usize::from(is_unreachable);
        }
        judged.tools = tools.len();
        (judged.tools > 0).then_some(judged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ineligible_tool_counts_once_per_reason() {
        let mut qrels = Qrels::default();
        for (query, tool, grade) in [
            ("a", "secret", 1),
            ("b", "secret", 2),
            ("b", "open", 1),
            ("c", "wiper", 1),
            ("d", "open", 1),
            ("e", "other", 0),
        ] {
            qrels.insert(query, tool, grade);
        }
        let reasons = |tool: &str| match tool {
            "secret" => vec!["role"],
            "wiper" | "other" => vec!["role", "unsafe"],
            _ => Vec::new(),
        };
        let judged = IneligibleJudgments::new(&qrels, reasons).expect("two are ineligible");
        assert_eq!((judged.tools, judged.queries), (2, 3));
        assert_eq!(judged.unreachable_queries, 2);
        assert_eq!(judged.counts, BTreeMap::from([("role", 2), ("unsafe", 1)]));
        assert_eq!(IneligibleJudgments::new(&qrels, |_| Vec::new()), None);
    }
}
