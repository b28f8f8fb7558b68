//! Fusion against its definitions.

use super::*;
use proptest::prelude::*;

fn signal(scores: &[f32], floor: f32, ceiling: f32) -> Signal {
    let scored = Scored::All(scores.len());
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
    let before = |a: ToolId, b: ToolId| {
        let (x, y) = (scores[a.index()], scores[b.index()]);
        x > floor && (x > y || (x >= y && a < b))
    };
    let place = |tool: ToolId| {
        admitted
            .iter()
            .filter(|&&other| before(other, tool))
            .count()
    };
    admitted
        .iter()
        .map(|&tool| (scores[tool.index()] > floor).then(|| 1 + place(tool)))
        .collect()
}

fn catalogs() -> impl Strategy<Value = (Vec<f32>, Vec<f32>, Vec<ToolId>)> {
    prop::collection::vec((0u8..40, -100i8..100, any::<bool>()), 1..40).prop_map(|tools| {
        let keyword = tools.iter().map(|tool| f32::from(tool.0) / 4.0).collect();
        let semantic = tools.iter().map(|tool| f32::from(tool.1) / 100.0).collect();
        let admitted = tools.iter().enumerate().filter(|(_, tool)| tool.2);
        (
            keyword,
            semantic,
            admitted
                .map(|(index, _)| ToolId::from_index(index))
                .collect(),
        )
    })
}

#[test]
fn a_request_that_tools_seldom_serve_is_seldom_answerable_and_keeps_its_scores() {
    let eligibility = Eligibility::only(&[0, 1, 2].map(ToolId::from_index), 3);
    let fused = |scope: Option<f32>| {
        let said = Signal {
            scope,
            ..signal(&[0.3, 0.28, 0.25], f32::NEG_INFINITY, 1.0)
        };
        Fused::new(
            vec![(Retriever::Static, said)],
            Fusion::Weighted,
            &eligibility,
        )
    };
    let [served, seldom, silent] = [Some(6.0), Some(-6.0), None].map(fused);
    let tools = [0, 1, 2].map(ToolId::from_index);
    for tool in tools {
        assert_eq!(
            seldom.score_of(tool).to_bits(),
            served.score_of(tool).to_bits()
        );
    }
    assert!(seldom.answerable() < 0.8 * served.answerable());
    let best = seldom.score_of(tools[0]);
    assert_eq!(
        seldom.answerable().to_bits(),
        best.to_bits(),
        "no tool is likelier than that any is"
    );
    assert!(
        (silent.answerable() - served.answerable()).abs() < 0.01,
        "what says nothing is no evidence"
    );
}

proptest! {
    #[test]
    fn the_weighted_sum_equals_its_definition((keyword, semantic, admitted) in catalogs()) {
        let eligibility = Eligibility::only(&admitted, keyword.len());
        let signals = vec![
            (Retriever::Keyword, signal(&keyword, 0.0, 12.0)),
            (Retriever::Static, signal(&semantic, f32::NEG_INFINITY, 1.0)),
        ];
        let fused = Fused::new(signals, Fusion::Weighted, &eligibility);
        let fit = Fit::of(&[Retriever::Keyword, Retriever::Static]);
        let best = admitted.iter().map(|tool| keyword[tool.index()]).fold(0.0, f32::max);
        let (k, s) = (fit.weight(Retriever::Keyword, 0.0), fit.weight(Retriever::Static, 0.0));
        let softening = fit.weight(Retriever::Static, 0.0) / fit.weight(Retriever::Static, best);
        for &tool in &admitted {
            let value = k * keyword[tool.index()] + s * semantic[tool.index()] / softening;
            prop_assert!((fused.value(tool) - value).abs() < 1e-3);
            let score = fused.score_of(tool);
            prop_assert!((0.0..=1.0).contains(&score));
            prop_assert!(score <= fused.answerable());
            if score > 1e-3 && score < fused.answerable().min(1.0 - 1e-3) {
                prop_assert!((fused.value_at(score) - fused.value(tool)).abs() < 0.05);
            }
        }
        prop_assert!((0.0..=1.0).contains(&fused.answerable()));
    }

    #[test]
    fn what_stands_beside_the_tools_is_scored_as_one_of_them((keyword, semantic, admitted) in catalogs(), cut in 0..40usize) {
        let cut = cut.min(keyword.len());
        let signals = |keyword: &[f32], semantic: &[f32]| vec![
            (Retriever::Keyword, signal(keyword, 0.0, 12.0)),
            (Retriever::Static, signal(semantic, f32::NEG_INFINITY, 1.0)),
        ];
        let place = |tool: &ToolId| tool.index();
        let before: Vec<ToolId> = admitted.iter().copied().filter(|tool| place(tool) < cut).collect();
        let behind = admitted.iter().filter(|tool| place(tool) >= cut).map(|tool| ToolId::from_index(place(tool) - cut));
        let behind: Vec<ToolId> = behind.collect();
        let all = Fused::new(
            signals(&keyword, &semantic), Fusion::Weighted, &Eligibility::only(&admitted, keyword.len())
        );
        let tools = Eligibility::only(&before, cut);
        let own = Fused::new(signals(&keyword[..cut], &semantic[..cut]), Fusion::Rrf { k: 60 }, &tools);
        let theirs = Eligibility::only(&behind, keyword.len() - cut);
        // As those of a large catalog that are near, here all of them.
        let every = Scored::Some((0..cut).map(ToolId::from_index).collect());
        let mut near = signals(&keyword[..cut], &semantic[..cut]);
        near.iter_mut().for_each(|(_, signal)| signal.restrict(&every));
        for own in [own, Fused::new(near, Fusion::Weighted, &tools)] {
            let beside = own.beside(&tools, signals(&keyword[cut..], &semantic[cut..]), &theirs);
            for &other in &behind {
                let same = ToolId::from_index(cut + other.index());
                prop_assert!((beside.score_of(other) - all.score_of(same)).abs() < 1e-6);
                prop_assert!((beside.value(other) - all.value(same)).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn better_signals_never_lower_a_tool((keyword, semantic, admitted) in catalogs(), more in 0u8..40) {
        prop_assume!(admitted.len() > 1);
        let eligibility = Eligibility::only(&admitted, keyword.len());
        let places = |keyword: &[f32], semantic: &[f32]| {
            let signals = vec![
                (Retriever::Keyword, signal(keyword, 0.0, 12.0)),
                (Retriever::Model, signal(semantic, f32::NEG_INFINITY, 1.0)),
            ];
            let fused = Fused::new(signals, Fusion::Weighted, &eligibility);
            let value = fused.value(admitted[0]);
            admitted.iter().filter(|&&tool| fused.value(tool) > value + 1e-4).count()
        };
        let before = places(&keyword, &semantic);
        let mut nearer = semantic.clone();
        nearer[admitted[0].index()] += f32::from(more) / 100.0;
        prop_assert!(places(&keyword, &nearer) <= before);
    }

    #[test]
    fn reciprocal_ranks_equal_their_definition((keyword, semantic, admitted) in catalogs(), k in 1u32..100) {
        let eligibility = Eligibility::only(&admitted, keyword.len());
        let signals = (signal(&keyword, 0.0, 12.0), signal(&semantic, f32::NEG_INFINITY, 1.0));
        let ranks = [naive_ranks(&keyword, &admitted, 0.0), naive_ranks(&semantic, &admitted, f32::NEG_INFINITY)];
        for (index, &tool) in admitted.iter().enumerate() {
            let found = [&signals.0, &signals.1].map(|signal| signal.rank(tool, eligibility.flags()));
            prop_assert_eq!(found, [ranks[0][index], ranks[1][index]]);
        }
        let signals = vec![(Retriever::Keyword, signals.0), (Retriever::Static, signals.1)];
        let fused = Fused::new(signals, Fusion::Rrf { k }, &eligibility);
        for (index, &tool) in admitted.iter().enumerate() {
            let share = |rank: usize| 1.0 / (f64::from(k) + rank as f64);
            let value: f64 = ranks.iter().filter_map(|ranks| ranks[index]).map(share).sum();
            prop_assert!((f64::from(fused.value(tool)) - value).abs() < 1e-5);
            prop_assert!((0.0..=1.0).contains(&fused.score_of(tool)));
        }
    }
}

/// The fused result of tools with these keyword scores of at most 40 and these similarities.
fn hybrid(keyword: &[f32], semantic: &[f32]) -> Fused {
    let tools: Vec<ToolId> = (0..keyword.len()).map(ToolId::from_index).collect();
    let signals = vec![
        (Retriever::Keyword, signal(keyword, 0.0, 40.0)),
        (Retriever::Static, signal(semantic, f32::NEG_INFINITY, 1.0)),
    ];
    Fused::new(
        signals,
        Fusion::Weighted,
        &Eligibility::only(&tools, tools.len()),
    )
}

#[test]
fn a_lone_tool_that_matches_stands_out() {
    let score = |keyword: f32, semantic: f32| {
        hybrid(&[keyword], &[semantic]).score_of(ToolId::from_index(0))
    };
    assert!(score(30.0, 0.7) > 0.7, "{}", score(30.0, 0.7));
    assert!(score(30.0, 0.7) > score(3.0, 0.7) && score(3.0, 0.7) > score(3.0, 0.1));
}

#[test]
fn rivals_lower_the_score_of_the_best() {
    let alone = hybrid(&[20.0, 0.0, 0.0], &[0.6, 0.1, 0.0]);
    let among_equals = hybrid(&[20.0, 20.0, 20.0], &[0.6, 0.6, 0.6]);
    let best = ToolId::from_index(0);
    assert!(alone.score_of(best) > 1.5 * among_equals.score_of(best));
}

#[test]
fn a_request_that_nothing_fits_is_hardly_answerable() {
    let fits = hybrid(&[30.0, 2.0], &[0.7, 0.1]).answerable();
    let does_not = hybrid(&[2.0, 1.0], &[0.1, 0.1]).answerable();
    assert!(
        fits > 0.95 && does_not < 0.6,
        "four of five are answerable before anything is known: {fits} {does_not}"
    );
    assert!(hybrid(&[], &[]).answerable().abs() < f32::EPSILON);
}

#[test]
fn nothing_that_matches_scores_nothing() {
    let tool = ToolId::from_index(0);
    let eligibility = Eligibility::only(&[tool], 1);
    let keyword = vec![(Retriever::Keyword, signal(&[0.0], 0.0, 10.0))];
    let fused = Fused::new(keyword, Fusion::Weighted, &eligibility);
    assert!(fused.score_of(tool).abs() < f32::EPSILON && fused.answerable().abs() < f32::EPSILON);
}
