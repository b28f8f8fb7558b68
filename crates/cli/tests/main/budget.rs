//! `--token-budget`: definitions that fit the token budget.

use picktools_provider::Tokenizer;
use serde_json::Value;

use crate::cli::{WORKPLACE, answer, json};

const QUERY: &str = "find a free room for a meeting";

#[test]
fn pick_with_token_budget_prints_fitting_definitions() {
    for provider in ["openai", "anthropic", "gemini"] {
        let arguments = [
            "pick",
            QUERY,
            "--catalog",
            WORKPLACE,
            "--token-budget",
            "150",
            "--provider",
            provider,
        ];
        let definitions: Value = json(&arguments);
        let tokens = Tokenizer::O200k.count(&definitions.to_string());
        assert!(tokens > 50 && tokens <= 150, "{provider}: {tokens}");
        let both = json(&[&arguments[..], &["--json"]].concat());
        assert_eq!(both["definitions"]["tools"], definitions);
        assert_eq!(
            (&both["tokens"]["picks"], &both["tokens"]["provider"]),
            (&Value::from(tokens), &Value::from(provider))
        );
    }
    let text = answer(&[
        "pick",
        QUERY,
        "--catalog",
        WORKPLACE,
        "--token-budget",
        "150",
    ]);
    assert!(
        text.contains(" of 150 tokens (o200k_base, openai) instead of "),
        "{text}"
    );
    assert!(text.contains("    Shown: "), "{text}");
}

#[test]
fn pick_with_tiny_token_budget_reports_the_budget() {
    let text = answer(&[
        "pick",
        "send an email",
        "--catalog",
        WORKPLACE,
        "--token-budget",
        "3",
    ]);
    assert!(
        text.starts_with("No tool fits the token budget.\n"),
        "{text}"
    );
    assert!(!text.contains("likely enough"), "{text}");
}
