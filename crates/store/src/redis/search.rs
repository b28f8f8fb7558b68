//! Queries of the index: which tools have words, names, or are near a vector, among those that may
//! be seen.
//!
//! Queries are written of hashes in hexadecimal digits and of numbers alone.

use std::collections::BTreeSet;

use redis::Cmd;

use super::vector_bytes;
use crate::first_stage::{Filter, Nearest, Tags};

/// How many postings are read at most for each tool that is wanted: words that more tools hold than
/// are left are not asked for, as they tell least. `docs/results.md` has what fewer and more give.
const POSTINGS_A_TOOL: usize = 24;
/// What a neighbour that is looked at on the way through the graph costs, in tools that are held
/// against the vector one by one.
const COST_OF_A_NEIGHBOUR: usize = 16;
/// The fewest neighbours that a search for a vector looks at on its way.
const LEAST_EFFORT: usize = 48;
/// How many names are asked for at once.
pub(super) const NAMES_AT_ONCE: usize = 100;
/// The most tools that come for names that are asked for at once.
const MOST_NAMED: usize = 10_000;

/// The fields of a row's document.
pub(super) const NAME_WORDS: &str = "n";
pub(super) const WORDS: &str = "d";
pub(super) const EXAMPLE_WORDS: &str = "e";
pub(super) const POLICY: &str = "p";
pub(super) const SOURCE: &str = "s";
pub(super) const NAMES: &str = "m";
pub(super) const ROW: &str = "r";

/// The field of the vectors of a model.
pub(super) fn vector_field(model: usize) -> String {
    format!("v{model}")
}

/// A hash as it stands in documents and queries. Forty bits of a term tell words apart as well as
/// is needed to find candidates.
pub(super) fn tag(hash: u64) -> String {
    format!("{:010x}", hash >> 24)
}

fn any_of(tags: &BTreeSet<u64>) -> String {
    tags.iter()
        .map(|&hash| tag(hash))
        .collect::<Vec<_>>()
        .join("|")
}

/// Writes which tools pass; `None` where all do.
fn passing(filter: &Filter) -> Option<String> {
    let tags = |field: &str, tags: &Tags| match tags {
        Tags::Any => None,
        Tags::Only(only) => Some(format!("@{field}:{{{}}}", any_of(only))),
        Tags::AllBut(but) => Some(format!("-@{field}:{{{}}}", any_of(but))),
    };
    let but_named = (!filter.but_named.is_empty())
        .then(|| format!("-@{NAMES}:{{{}}}", any_of(&filter.but_named)));
    let clauses: Vec<String> = [
        tags(POLICY, &filter.policies),
        tags(SOURCE, &filter.sources),
        but_named,
    ]
    .into_iter()
    .flatten()
    .collect();
    (!clauses.is_empty()).then(|| clauses.join(" "))
}

/// Returns `true` if no tool can pass.
pub(super) fn passes_none(filter: &Filter) -> bool {
    let is_empty = |tags: &Tags| matches!(tags, Tags::Only(only) if only.is_empty());
    filter.admitted == 0 || is_empty(&filter.policies) || is_empty(&filter.sources)
}

/// Looks for the tools that hold most of these terms, each with what it counts and how many tools
/// hold it; rare ones tell most. `None` where all are too frequent.
pub(super) fn of_words(
    index: &str,
    filter: &Filter,
    terms: &[(u64, f32, u32)],
    most: usize,
) -> Option<Cmd> {
    let mut terms: Vec<_> = terms.iter().filter(|(.., holding)| *holding > 0).collect();
    terms.sort_by_key(|(term, _, holding)| (*holding, *term));
    let mut left = u32::try_from(most * POSTINGS_A_TOOL).unwrap_or(u32::MAX);
    terms.retain(|(.., holding)| match left.checked_sub(*holding) {
        Some(rest) => {
            left = rest;
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
    let query = match passing(filter) {
        Some(passing) => format!("{passing} ({words})"),
        None => words,
    };
    let mut search = redis::cmd("FT.SEARCH");
    search
        .arg(index)
        .arg(query)
        .arg("NOCONTENT")
        .arg("SCORER")
        .arg("BM25STD");
    search.arg("LIMIT").arg(0).arg(most).arg("DIALECT").arg(2);
    Some(search)
}

/// Looks for the tools that are nearest to a vector.
pub(super) fn near(
    index: &str,
    filter: &Filter,
    Nearest {
        model,
        vector,
        most,
    }: &Nearest,
) -> Cmd {
    let (passing, policy) = match passing(filter) {
        None => (
            "*".to_owned(),
            format!("EF_RUNTIME {}", LEAST_EFFORT.max(*most)),
        ),
        Some(passing) => {
            // So many of the neighbours that enough of them may be expected to pass; or all that
            // may be seen, where those are fewer.
            let batch =
                LEAST_EFFORT.max((most * filter.tools).div_ceil(filter.admitted.max(1)) * 5 / 4);
            let policy = match filter.admitted <= batch.saturating_mul(COST_OF_A_NEIGHBOUR) {
                true => "HYBRID_POLICY ADHOC_BF".to_owned(),
                false => format!("HYBRID_POLICY BATCHES BATCH_SIZE {batch}"),
            };
            (format!("({passing})"), policy)
        }
    };
    let field = vector_field(*model);
    let mut search = redis::cmd("FT.SEARCH");
    search
        .arg(index)
        .arg(format!(
            "{passing}=>[KNN {most} @{field} $near {policy} AS distance]"
        ))
        .arg("NOCONTENT");
    search
        .arg("SORTBY")
        .arg("distance")
        .arg("LIMIT")
        .arg(0)
        .arg(most);
    search
        .arg("PARAMS")
        .arg(2)
        .arg("near")
        .arg(vector_bytes(vector))
        .arg("DIALECT")
        .arg(2);
    search
}

/// Looks for the tools that have one of these names.
pub(super) fn named(index: &str, names: &[u64]) -> Cmd {
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
        .arg(MOST_NAMED)
        .arg("DIALECT")
        .arg(2);
    search
}

/// Makes an index of the documents whose keys begin with `prefix`, with vectors of so many
/// dimensions by each model.
pub(super) fn create(index: &str, prefix: &str, dimensions: &[usize]) -> Cmd {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::first_stage::FirstStage;
    use picktools::Mode;
    use picktools::access::Access;
    use picktools::catalog::{Catalog, Tool, Whole};
    use picktools::options::PickOptions;
    use picktools::query::Query;

    /// The text of a search, without vectors.
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
        fn a_query_is_written_of_hashes_and_nothing_else(
            request in any::<String>(), name in any::<String>(), source in any::<String>(), role in any::<String>(),
        ) {
            let grammar = regex::Regex::new(
                r"^(\*|\(?(-?@[psm]:\{[0-9a-f|]+\} ?)*\)?)(=>\[KNN \d+ @v\d \$near (EF_RUNTIME \d+|HYBRID_POLICY (ADHOC_BF|BATCHES BATCH_SIZE \d+)) AS distance\])?(\(?(\(?[0-9a-f]{10}\)?(=>\{\$weight:\d\.\d+\})?\|?)+\)?)?$",
            ).expect("an expression");
            let mut tool = Tool::without_arguments("t", "Does something");
            tool.source = Some(source.clone());
            tool.allowed_roles = [role.clone()].into();
            let catalog = Catalog::from_tools([tool, Tool::without_arguments("u", "Does another thing")]);
            prop_assume!(catalog.is_ok());
            let whole = Whole::of(&catalog.expect("it is one"));
            let access = Access {
                roles: [role, request.clone()].into(),
                deny_sources: [source].into(),
                exclude: [name.clone()].into(),
                ..Access::default()
            };
            let options = PickOptions { access, in_use: vec![name], ..PickOptions::default() };
            let rows = ndarray::Array2::from_elem((1, 4), 0.5);
            let first = FirstStage::new(&Query::new(&request), &options, Mode::Hybrid, &[(0, rows)], &whole);
            let words = first.texts.iter().filter_map(|words| {
                let terms: Vec<_> = words.terms.iter().map(|&(term, weight)| (term, weight, 1)).collect();
                of_words("i", &first.filter, &terms, words.most)
            });
            let near = first.vectors.iter().map(|nearest| near("i", &first.filter, nearest));
            let names: Vec<u64> = first.names.iter().copied().collect();
            let named = names.chunks(2).map(|names| named("i", names));
            for command in words.chain(near).chain(named) {
                let text = text(&command);
                prop_assert!(grammar.is_match(&text), "{}", text);
            }
        }
    }

    #[test]
    fn what_passes_is_part_of_every_search() {
        let filter = Filter {
            admitted: 50_000,
            tools: 100_000,
            policies: Tags::Only([1 << 24, 2 << 24].into()),
            sources: Tags::AllBut([3 << 24].into()),
            but_named: [4 << 24].into(),
        };
        let passing = "@p:{0000000001|0000000002} -@s:{0000000003} -@m:{0000000004}";
        let words = of_words(
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
            format!("{passing} (0000000005|(0000000006)=>{{$weight:0.25}})")
        );
        let nearest = Nearest {
            model: 0,
            vector: vec![0.5; 4],
            most: 64,
        };
        let near = text(&near("i", &filter, &nearest));
        assert_eq!(
            near,
            format!(
                "({passing})=>[KNN 64 @v0 $near HYBRID_POLICY BATCHES BATCH_SIZE 160 AS distance]"
            )
        );
        assert!(passes_none(&Filter {
            policies: Tags::Only([].into()),
            ..filter
        }));
    }
}
