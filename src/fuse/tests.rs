//! Fusion compared with its definitions.

use super::fits::Fit;
use super::*;
use crate::access::Eligibility;
use crate::ranking::{ScoredTools, ToolId, top_k};
use crate::sequences::PopularityGain;
use proptest::prelude::*;

fn signal(scores: &[f32], floor: f32, ceiling: f32) -> Signal {
    let scored = ScoredTools::All(scores.len());
    Signal {
        scored,
        scores: scores.to_vec(),
        floor,
        ceiling,
        context: None,
        sources: None,
        examples: None,
        scope: None,
    }
}

fn naive_ranks(scores: &[f32], admitted: &[ToolId], floor: f32) -> Vec<Option<usize>> {
    let ranks_before = |a: ToolId, b: ToolId| {
        let (x, y) = (scores[a.index()], scores[b.index()]);
        x > floor && (x > y || (x >= y && a < b))
    };
    let mut ranks = Vec::new();
    for &tool in admitted {
        let better = admitted.iter().filter(|&&other| ranks_before(other, tool));
        let rank = 1 + better.count();
        ranks.push((scores[tool.index()] > floor).then_some(rank));
    }
    ranks
}

fn catalogs() -> impl Strategy<Value = (Vec<f32>, Vec<f32>, Vec<ToolId>)> {
    prop::collection::vec((0u8..40, -100i8..100, any::<bool>()), 1..40).prop_map(|tools| {
        let (mut keyword, mut semantic, mut admitted) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (quarters, hundredths, is_admitted)) in tools.into_iter().enumerate() {
            keyword.push(f32::from(quarters) / 4.0);
            semantic.push(f32::from(hundredths) / 100.0);
            if is_admitted {
                admitted.push(ToolId::from_index(index));
            }
        }
        (keyword, semantic, admitted)
    })
}

#[test]
fn scope_estimate_lowers_answerability_but_not_scores() {
    let eligibility = Eligibility::only(&[0, 1, 2].map(ToolId::from_index), 3);
    let fused = |scope: Option<f32>| {
        let with_scope = Signal {
            scope,
            ..signal(&[0.3, 0.28, 0.25], f32::NEG_INFINITY, 1.0)
        };
        CalibratedScores::new(
            vec![(Retriever::Static, with_scope)],
            Fusion::Weighted,
            &eligibility,
            None,
        )
    };
    let [likely, unlikely, unknown] = [Some(6.0), Some(-6.0), None].map(fused);
    let tools = [0, 1, 2].map(ToolId::from_index);
    for tool in tools {
        assert_eq!(unlikely.score(tool).to_bits(), likely.score(tool).to_bits());
    }
    assert!(unlikely.answerable() < 0.8 * likely.answerable());
    let best = unlikely.score(tools[0]);
    assert_eq!(
        unlikely.answerable().to_bits(),
        best.to_bits(),
        "no tool's score exceeds the probability that any tool answers"
    );
    assert!(
        (unknown.answerable() - likely.answerable()).abs() < 0.01,
        "a missing estimate changes nothing"
    );
}

proptest! {
    #[test]
    fn best_candidates_are_the_first_of_all_candidates(
        (keyword, semantic, admitted) in catalogs(),
        count in 0usize..15,
        min_value in prop::option::of(-3.0f32..3.0),
        popular in prop::collection::vec(0usize..40, 0..4),
    ) {
        let eligibility = Eligibility::only(&admitted, keyword.len());
        // Some tools match by neither signal, also among the largest values.
        let signals = vec![
            (Retriever::Keyword, signal(&keyword, 6.0, 12.0)),
            (Retriever::Static, signal(&semantic, 0.3, 1.0)),
        ];
        let fused = CalibratedScores::new(signals, Fusion::Weighted, &eligibility, None);
        let gain = PopularityGain { called: 30, expected: 3.0, log_ratio: 2.3 };
        let popular = popular.into_iter().filter(|&tool| tool < keyword.len());
        let fused = fused
            .raised_by_popularity(popular.map(|tool| (ToolId::from_index(tool), gain)));
        let min_value = min_value.unwrap_or(f32::NEG_INFINITY);
        let all = fused.scores.candidates(&eligibility, min_value);
        let best = fused.scores.best_candidates(&eligibility, min_value, count);
        prop_assert_eq!(best, top_k(all.into_iter(), count));
    }

    #[test]
    fn the_weighted_sum_equals_its_definition((keyword, semantic, admitted) in catalogs()) {
        let eligibility = Eligibility::only(&admitted, keyword.len());
        let signals = vec![
            (Retriever::Keyword, signal(&keyword, 0.0, 12.0)),
            (Retriever::Static, signal(&semantic, f32::NEG_INFINITY, 1.0)),
        ];
        let fused = CalibratedScores::new(signals, Fusion::Weighted, &eligibility, None);
        let fit = Fit::for_retrievers(&[Retriever::Keyword, Retriever::Static]);
        let best = admitted.iter().map(|tool| keyword[tool.index()]).fold(0.0, f32::max);
        let (k, s) = (fit.weight(Retriever::Keyword, 0.0), fit.weight(Retriever::Static, 0.0));
        let softening = fit.weight(Retriever::Static, 0.0) / fit.weight(Retriever::Static, best);
        for &tool in &admitted {
            let value = k * keyword[tool.index()] + s * semantic[tool.index()] / softening;
            prop_assert!((fused.scores.value(tool) - value).abs() < 1e-3);
            let score = fused.score(tool);
            prop_assert!((0.0..=1.0).contains(&score));
            prop_assert!(score <= fused.answerable());
            let most = fused.calibration.largest_probability();
            if score > 1e-3 && score < (most - 1e-3).min(1.0 - 1e-3) {
                prop_assert!((fused.calibration.value_at(score) - fused.scores.value(tool)).abs() < 0.05);
            }
        }
        prop_assert!((0.0..=1.0).contains(&fused.answerable()));
    }

    #[test]
    fn other_catalog_is_scored_like_the_same_catalog(
        (keyword, semantic, admitted) in catalogs(),
        cut in 0..40usize,
    ) {
        let cut = cut.min(keyword.len());
        let signals = |keyword: &[f32], semantic: &[f32]| vec![
            (Retriever::Keyword, signal(keyword, 0.0, 12.0)),
            (Retriever::Static, signal(semantic, f32::NEG_INFINITY, 1.0)),
        ];
        let (tools, others): (Vec<ToolId>, Vec<ToolId>) =
            admitted.iter().copied().partition(|tool| tool.index() < cut);
        let other_id = |tool: ToolId| ToolId::from_index(tool.index() - cut);
        let others: Vec<ToolId> = others.into_iter().map(other_id).collect();
        let all = CalibratedScores::new(
            signals(&keyword, &semantic),
            Fusion::Weighted,
            &Eligibility::only(&admitted, keyword.len()), None);
        let tools = Eligibility::only(&tools, cut);
        let by_ranks = CalibratedScores::new(
            signals(&keyword[..cut], &semantic[..cut]),
            Fusion::Rrf { k: 60 },
            &tools, None);
        let other_eligibility = Eligibility::only(&others, keyword.len() - cut);
        // Like the near tools of a large catalog; here they are all tools.
        let every = ScoredTools::Some((0..cut).map(ToolId::from_index).collect());
        let mut near = signals(&keyword[..cut], &semantic[..cut]);
        near.iter_mut().for_each(|(_, signal)| *signal = signal.restricted(&every));
        for fused in [by_ranks, CalibratedScores::new(near, Fusion::Weighted, &tools, None)] {
            let other_signals = signals(&keyword[cut..], &semantic[cut..]);
            let scored = fused.score_other_catalog(&tools, other_signals, &other_eligibility);
            for &other in &others {
                let same = ToolId::from_index(cut + other.index());
                prop_assert!((scored.score(other) - all.score(same)).abs() < 1e-6);
                prop_assert!((scored.scores.value(other) - all.scores.value(same)).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn better_signals_never_lower_a_tool(
        (keyword, semantic, admitted) in catalogs(),
        more in 0u8..40,
    ) {
        prop_assume!(admitted.len() > 1);
        let eligibility = Eligibility::only(&admitted, keyword.len());
        let better_tools = |keyword: &[f32], semantic: &[f32]| {
            let signals = vec![
                (Retriever::Keyword, signal(keyword, 0.0, 12.0)),
                (Retriever::Model, signal(semantic, f32::NEG_INFINITY, 1.0)),
            ];
            let fused = CalibratedScores::new(signals, Fusion::Weighted, &eligibility, None);
            let value = fused.scores.value(admitted[0]);
            admitted.iter().filter(|&&tool| fused.scores.value(tool) > value + 1e-4).count()
        };
        let rank = better_tools(&keyword, &semantic);
        let mut nearer = semantic.clone();
        nearer[admitted[0].index()] += f32::from(more) / 100.0;
        prop_assert!(better_tools(&keyword, &nearer) <= rank);
    }

    #[test]
    fn reciprocal_ranks_equal_their_definition(
        (keyword, semantic, admitted) in catalogs(),
        k in 1u32..100,
    ) {
        let eligibility = Eligibility::only(&admitted, keyword.len());
        let signals = (signal(&keyword, 0.0, 12.0), signal(&semantic, f32::NEG_INFINITY, 1.0));
        let ranks = [
            naive_ranks(&keyword, &admitted, 0.0),
            naive_ranks(&semantic, &admitted, f32::NEG_INFINITY),
        ];
        for (index, &tool) in admitted.iter().enumerate() {
            let rank = |signal: &Signal| signal.rank(tool, eligibility.flags());
            let actual = [rank(&signals.0), rank(&signals.1)];
            prop_assert_eq!(actual, [ranks[0][index], ranks[1][index]]);
        }
        let signals =
            vec![(Retriever::Keyword, signals.0), (Retriever::Static, signals.1)];
        let fused = CalibratedScores::new(signals, Fusion::Rrf { k }, &eligibility, None);
        for (index, &tool) in admitted.iter().enumerate() {
            let mut value = 0.0;
            for retriever_ranks in &ranks {
                if let Some(rank) = retriever_ranks[index] {
                    value += 1.0 / (f64::from(k) + rank as f64);
                }
            }
            prop_assert!((f64::from(fused.scores.value(tool)) - value).abs() < 1e-5);
            prop_assert!((0.0..=1.0).contains(&fused.score(tool)));
        }
    }
}

/// Fuses tools with keyword scores of at most 40 and cosine similarities.
fn hybrid(keyword: &[f32], semantic: &[f32]) -> CalibratedScores {
    let tools: Vec<ToolId> = (0..keyword.len()).map(ToolId::from_index).collect();
    let signals = vec![
        (Retriever::Keyword, signal(keyword, 0.0, 40.0)),
        (Retriever::Static, signal(semantic, f32::NEG_INFINITY, 1.0)),
    ];
    CalibratedScores::new(
        signals,
        Fusion::Weighted,
        &Eligibility::only(&tools, tools.len()),
        None,
    )
}

#[test]
fn single_matching_tool_has_a_high_score() {
    let score =
        |keyword: f32, semantic: f32| hybrid(&[keyword], &[semantic]).score(ToolId::from_index(0));
    assert!(score(30.0, 0.7) > 0.7, "{}", score(30.0, 0.7));
    assert!(score(30.0, 0.7) > score(3.0, 0.7) && score(3.0, 0.7) > score(3.0, 0.1));
}

#[test]
fn rivals_lower_the_score_of_the_best_tool() {
    let alone = hybrid(&[20.0, 0.0, 0.0], &[0.6, 0.1, 0.0]);
    let among_equals = hybrid(&[20.0, 20.0, 20.0], &[0.6, 0.6, 0.6]);
    let odds = |fused: &CalibratedScores| {
        let score = fused.score(ToolId::from_index(0));
        score / (1.0 - score)
    };
    assert!(odds(&alone) > 3.0 * odds(&among_equals));
}

#[test]
fn request_without_a_match_is_hardly_answerable() {
    let fits = hybrid(&[30.0, 2.0], &[0.7, 0.1]).answerable();
    let does_not = hybrid(&[2.0, 1.0], &[0.1, 0.1]).answerable();
    assert!(
        fits > 0.95 && does_not < 0.65,
        "four in five requests are answerable a priori: {fits} {does_not}"
    );
    assert!(hybrid(&[], &[]).answerable().abs() < f32::EPSILON);
}

#[test]
fn tool_without_a_match_scores_zero() {
    let tool = ToolId::from_index(0);
    let eligibility = Eligibility::only(&[tool], 1);
    let keyword = vec![(Retriever::Keyword, signal(&[0.0], 0.0, 10.0))];
    let fused = CalibratedScores::new(keyword, Fusion::Weighted, &eligibility, None);
    assert!(fused.score(tool).abs() < f32::EPSILON && fused.answerable().abs() < f32::EPSILON);
}
