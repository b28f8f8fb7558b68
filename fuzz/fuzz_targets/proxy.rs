//! The body of an API request; the first byte selects the API and the mode. A narrowed body has
//! tools of the original only, and its other members are unchanged.

#![no_main]

use libfuzzer_sys::fuzz_target;
use picktools_gateway::settings::{ProviderSettings, ProxyMode, ProxySettings};
use picktools_proxy::{ModelApi, narrowed_body};
use serde_json::Value;

const APIS: [ModelApi; 4] = [
    ModelApi::Chat,
    ModelApi::Responses,
    ModelApi::Messages,
    ModelApi::CountTokens,
];
const MODES: [ProxyMode; 3] = [ProxyMode::Narrow, ProxyMode::Allowed, ProxyMode::Defer];
/// The members that the proxy changes together with the tools.
const CHANGED: [&str; 3] = ["tools", "tool_choice", "parallel_tool_calls"];

fuzz_target!(|bytes: &[u8]| {
    let Some((first, body)) = bytes.split_first() else {
        return;
    };
    let choice = usize::from(*first);
    let mut provider = ProviderSettings::new("https://example.com/v1");
    provider.mode = MODES[choice / APIS.len() % MODES.len()];
    let mut settings = ProxySettings::default();
    settings.openai = Some(provider.clone());
    settings.anthropic = Some(provider);
    (settings.from_tools, settings.per_turn) = (2, 1);
    let Some(narrowed) = narrowed_body(APIS[choice % APIS.len()], &settings, body) else {
        return;
    };
    let original: Value = serde_json::from_slice(body).expect("narrowed bodies are JSON");
    let narrowed: Value = serde_json::from_str(&narrowed).expect("the result is JSON");
    let (original, narrowed) = (members(&original), members(&narrowed));
    assert_eq!(original, narrowed, "a member besides the tools changed");
});

/// Returns the members that the proxy may not change.
fn members(body: &Value) -> Vec<(&String, &Value)> {
    let members = body.as_object().into_iter().flatten();
    members
        .filter(|(name, _)| !CHANGED.contains(&name.as_str()))
        .collect()
}
