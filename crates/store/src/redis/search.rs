//! Search commands: tools by words, by names and by vectors, among the eligible tools.
//!
//! Queries contain only hashes in hexadecimal digits, and numbers.

use std::collections::BTreeSet;

use half::f16;
use redis::Cmd;

use crate::first_stage::{AccessFilter, TagFilter, VectorQuery};

/// The largest number of postings to read per returned tool.
///
/// Rare words are searched first. A word with more postings than the rest of this budget is
/// omitted, because frequent words matter least. `docs/results.md` compares other values.
const POSTINGS_PER_TOOL: usize = 24;
/// The cost of a visited neighbour in the graph, in direct comparisons of vectors.
const NEIGHBOUR_COST: usize = 16;
/// The smallest number of neighbours that a vector search visits.
const MIN_NEIGHBOURS: usize = 48;
/// The number of names per search.
pub(super) const NAMES_AT_ONCE: usize = 100;
/// The largest number of tools that a search by names returns.
const MAX_NAMED: usize = 10_000;

/// The field with the words of the name.
pub(super) const NAME_WORDS: &str = "n";
/// The field with the other words.
pub(super) const WORDS: &str = "d";
/// The field with the words of examples.
pub(super) const EXAMPLE_WORDS: &str = "e";
/// The field with the hash of the policy.
pub(super) const POLICY: &str = "p";
/// The field with the hash of the source.
pub(super) const SOURCE: &str = "s";
/// The field with the hashes of the names.
pub(super) const NAMES: &str = "m";
/// The field with the bytes of the row.
pub(super) const ROW: &str = "r";

/// Returns the field with the vectors of a model.
pub(super) fn vector_field(model: usize) -> String {
    format!("v{model}")
}

/// Returns the form of a hash in documents and queries.
///
/// Forty bits distinguish words well enough to find candidates.
pub(super) fn tag(hash: u64) -> String {
    format!("{:010x}", hash >> 24)
}

fn join_tags(tags: &BTreeSet<u64>) -> String {
    tags.iter()
        .map(|&hash| tag(hash))
        .collect::<Vec<_>>()
        .join("|")
}

/// Returns the query for the eligible tools, or `None` if all tools are eligible.
fn filter_query(filter: &AccessFilter) -> Option<String> {
    let clause = |field: &str, tags: &TagFilter| match tags {
        TagFilter::Any => None,
        TagFilter::Only(tags) => Some(format!("@{field}:{{{}}}", join_tags(tags))),
        TagFilter::AllBut(tags) => Some(format!("-@{field}:{{{}}}", join_tags(tags))),
    };
    let names = (!filter.excluded_names.is_empty())
        .then(|| format!("-@{NAMES}:{{{}}}", join_tags(&filter.excluded_names)));
    let clauses: Vec<String> = [
        clause(POLICY, &filter.policies),
        clause(SOURCE, &filter.sources),
        names,
    ]
    .into_iter()
    .flatten()
    .collect();
    (!clauses.is_empty()).then(|| clauses.join(" "))
}

/// Returns `true` if no tool is eligible.
pub(super) fn excludes_all(filter: &AccessFilter) -> bool {
    let is_empty = |tags: &TagFilter| matches!(tags, TagFilter::Only(only) if only.is_empty());
    filter.eligible == 0 || is_empty(&filter.policies) || is_empty(&filter.sources)
}

/// Returns the search for tools by terms, or `None` if all terms are too frequent.
///
/// Each term has its weight, and the number of tools that contain it.
pub(super) fn search_words(
    index: &str,
    filter: &AccessFilter,
    terms: &[(u64, f32, u32)],
    limit: usize,
) -> Option<Cmd> {
    let mut terms: Vec<_> = terms.iter().filter(|(.., count)| *count > 0).collect();
    terms.sort_by_key(|(term, _, count)| (*count, *term));
    let mut budget = u32::try_from(limit * POSTINGS_PER_TOOL).unwrap_or(u32::MAX);
    terms.retain(|(.., count)| match budget.checked_sub(*count) {
        Some(rest) => {
            budget = rest;
            true
        }
        None => false,
    });
    if terms.is_empty() {
        return None;
    }
    let term = |&&(term, weight, _): &&(u64, f32, u32)| match tag(term) {
        term if weight < 1.0 => format!("({term})=>{{$weight:{weight:.2}}}"),
        term => term,
    };
    let words = terms.iter().map(term).collect::<Vec<_>>().join("|");
    let query = match filter_query(filter) {
        Some(filter) => format!("{filter} ({words})"),
        None => words,
    };
    let mut search = redis::cmd("FT.SEARCH");
    search
        .arg(index)
        .arg(query)
        .arg("NOCONTENT")
        .arg("SCORER")
        .arg("BM25STD");
    search.arg("LIMIT").arg(0).arg(limit).arg("DIALECT").arg(2);
    Some(search)
}

/// Returns the search for the tools nearest to a vector.
pub(super) fn search_vector(
    index: &str,
    filter: &AccessFilter,
    VectorQuery {
        model,
        vector,
        limit,
    }: &VectorQuery,
) -> Cmd {
    let (filter_clause, policy) = match filter_query(filter) {
        None => (
            "*".to_owned(),
            format!("EF_RUNTIME {}", MIN_NEIGHBOURS.max(*limit)),
        ),
        Some(clause) => {
            // Enough neighbours to expect `limit` eligible ones among them. If that costs more than
            // comparing all eligible tools, all of them are compared.
            let expected = (limit * filter.tools).div_ceil(filter.eligible.max(1));
            let batch = MIN_NEIGHBOURS.max(expected * 5 / 4);
            let policy = if filter.eligible <= batch.saturating_mul(NEIGHBOUR_COST) {
                "HYBRID_POLICY ADHOC_BF".to_owned()
            } else {
                format!("HYBRID_POLICY BATCHES BATCH_SIZE {batch}")
            };
            (format!("({clause})"), policy)
        }
    };
    let field = vector_field(*model);
    let mut search = redis::cmd("FT.SEARCH");
    search
        .arg(index)
        .arg(format!(
            "{filter_clause}=>[KNN {limit} @{field} $near {policy} AS distance]"
        ))
        .arg("NOCONTENT");
    search
        .arg("SORTBY")
        .arg("distance")
        .arg("LIMIT")
        .arg(0)
        .arg(limit);
    search
        .arg("PARAMS")
        .arg(2)
        .arg("near")
        .arg(vector_bytes(vector))
        .arg("DIALECT")
        .arg(2);
    search
}

/// Returns the search for the tools with one of these names.
pub(super) fn search_names(index: &str, names: &[u64]) -> Cmd {
    let names = names
        .iter()
        .map(|&name| tag(name))
        .collect::<Vec<_>>()
        .join("|");
    let mut search = redis::cmd("FT.SEARCH");
    search
        .arg(index)
        .arg(format!("@{NAMES}:{{{names}}}"))
        .arg("NOCONTENT");
    search
        .arg("LIMIT")
        .arg(0)
        .arg(MAX_NAMED)
        .arg("DIALECT")
        .arg(2);
    search
}

/// Returns the command that creates the index of the documents whose keys begin with `prefix`.
///
/// `dimensions` has the number of dimensions of each model.
pub(super) fn create_index(index: &str, prefix: &str, dimensions: &[usize]) -> Cmd {
    let mut create = redis::cmd("FT.CREATE");
    create
        .arg(index)
        .arg("ON")
        .arg("HASH")
        .arg("PREFIX")
        .arg(1)
        .arg(prefix);
    create
        .arg("STOPWORDS")
        .arg(0)
        .arg("NOOFFSETS")
        .arg("NOHL")
        .arg("SCHEMA");
    create
        .arg(NAME_WORDS)
        .arg("TEXT")
        .arg("NOSTEM")
        .arg("WEIGHT")
        .arg(3)
        .arg(WORDS)
        .arg("TEXT")
        .arg("NOSTEM");
    create.arg(EXAMPLE_WORDS).arg("TEXT").arg("NOSTEM");
    for field in [POLICY, SOURCE, NAMES] {
        create.arg(field).arg("TAG");
    }
    for (model, dimensions) in dimensions.iter().enumerate() {
        create
            .arg(vector_field(model))
            .arg("VECTOR")
            .arg("HNSW")
            .arg(10);
        create
            .arg("TYPE")
            .arg("FLOAT16")
            .arg("DIM")
            .arg(*dimensions)
            .arg("DISTANCE_METRIC")
            .arg("IP");
        create.arg("M").arg(16).arg("EF_CONSTRUCTION").arg(100);
    }
    create
}

/// Returns the bytes of a vector in the index: 16-bit floats, little-endian.
pub(super) fn vector_bytes(vector: &[f32]) -> Vec<u8> {
    vector
        .iter()
        .flat_map(|&value| f16::from_f32(value).to_le_bytes())
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::first_stage::FirstStage;
    use picktools::Mode;
    use picktools::access::Access;
    use picktools::catalog::{Catalog, CatalogStats, Tool};
    use picktools::options::PickOptions;
    use picktools::query::Query;

    /// Returns the query of a search, without vectors.
    fn text(command: &Cmd) -> String {
        let argument = |argument| match argument {
            redis::Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        command.args_iter().nth(2).map(argument).unwrap_or_default()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn query_contains_only_hashes_and_numbers(
            request in any::<String>(),
            name in any::<String>(),
            source in any::<String>(),
            role in any::<String>(),
        ) {
            let grammar = regex::Regex::new(
                concat!(
                    r"^(\*|\(?(-?@[psm]:\{[0-9a-f|]+\} ?)*\)?)",
                    r"(=>\[KNN \d+ @v\d \$near (EF_RUNTIME \d+|",
                    r"HYBRID_POLICY (ADHOC_BF|BATCHES BATCH_SIZE \d+)) AS distance\])?",
                    r"(\(?(\(?[0-9a-f]{10}\)?(=>\{\$weight:\d\.\d+\})?\|?)+\)?)?$",
                ),
            ).expect("an expression");
            let mut tool = Tool::without_arguments("t", "Does something");
            tool.source = Some(source.clone());
            tool.allowed_roles = [role.clone()].into();
            let other = Tool::without_arguments("u", "Does another thing");
            let catalog = Catalog::from_tools([tool, other]);
            prop_assume!(catalog.is_ok());
            let stats = CatalogStats::from_catalog(&catalog.expect("a catalog")).expect("in memory");
            let access = Access {
                roles: [role, request.clone()].into(),
                deny_sources: [source].into(),
                exclude: [name.clone()].into(),
                ..Access::default()
            };
            let options = PickOptions { access, in_use: vec![name], ..PickOptions::default() };
            let rows = ndarray::Array2::from_elem((1, 4), 0.5);
            let query = Query::new(&request);
            let first =
                FirstStage::new(&query, &options, Mode::Hybrid, &[(0, rows)], &stats);
            let mut commands = Vec::new();
            for text in &first.texts {
                let terms = text.terms.iter().map(|&(term, weight)| (term, weight, 1));
                let terms: Vec<_> = terms.collect();
                commands.extend(search_words("i", &first.filter, &terms, text.limit));
            }
            for vector in &first.vectors {
                commands.push(search_vector("i", &first.filter, vector));
            }
            let names: Vec<u64> = first.names.iter().copied().collect();
            commands.extend(names.chunks(2).map(|names| search_names("i", names)));
            for command in commands {
                let text = text(&command);
                prop_assert!(grammar.is_match(&text), "{}", text);
            }
        }
    }

    #[test]
    fn access_filter_is_part_of_every_search() {
        let filter = AccessFilter {
            eligible: 50_000,
            tools: 100_000,
            policies: TagFilter::Only([1 << 24, 2 << 24].into()),
            sources: TagFilter::AllBut([3 << 24].into()),
            excluded_names: [4 << 24].into(),
        };
        let clauses = "@p:{0000000001|0000000002} -@s:{0000000003} -@m:{0000000004}";
        let words = search_words(
            "i",
            &filter,
            &[
                (5 << 24, 1.0, 7),
                (6 << 24, 0.25, 9),
                (7 << 24, 1.0, 90_000),
            ],
            10,
        );
        let words = text(&words.expect("two are rare enough"));
        assert_eq!(
            words,
            format!("{clauses} (0000000005|(0000000006)=>{{$weight:0.25}})")
        );
        let query = VectorQuery {
            model: 0,
            vector: vec![0.5; 4],
            limit: 64,
        };
        let near = text(&search_vector("i", &filter, &query));
        assert_eq!(
            near,
            format!(
                "({clauses})=>[KNN 64 @v0 $near HYBRID_POLICY BATCHES BATCH_SIZE 160 AS distance]"
            )
        );
        assert!(excludes_all(&AccessFilter {
            policies: TagFilter::Only([].into()),
            ..filter
        }));
    }
}
