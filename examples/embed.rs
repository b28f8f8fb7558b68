//! Embeds the engine in a program: reads a catalog, picks the tools for a request, translates them
//! for OpenAI's API, and validates the call that a model answers with.
//!
//! ```console
//! $ cargo run -p picktools-examples --bin embed -- "post in the chat that the build is done"
//! ```

#![expect(clippy::print_stdout, reason = "the example prints its results")]

use std::error::Error;

use picktools::{Access, Catalog, Engine, PickOptions, Query};
use picktools_call::{HydratedCall, Hydrator};
use picktools_provider::{Provider, TranslateOptions, translate};
use serde_json::json;

const CATALOG: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../fixtures/catalogs/workplace"
);
const DEFAULT_REQUEST: &str = "post in the chat that the build is done";
const PROVIDER: Provider = Provider::OpenAiChat;

fn main() -> Result<(), Box<dyn Error>> {
    let request = std::env::args()
        .nth(1)
        .unwrap_or_else(|| DEFAULT_REQUEST.to_owned());

    // A catalog is read and checked once. An engine indexes it once and serves many requests.
    let catalog = Catalog::open(CATALOG)?;
    let engine = Engine::new(catalog.clone())?;

    // The same access applies to picks and to calls: a tool that the caller may not see is not run.
    let access = Access {
        roles: ["support".to_owned()].into(),
        ..Access::default()
    };
    let options = PickOptions {
        access: access.clone(),
        ..PickOptions::default()
    };
    let selection = engine.pick(&Query::new(request), &options)?;
    for pick in &selection.picks {
        println!("{:.2} {}: {}", pick.score, pick.tool.id, pick.reason);
    }
    let ineligible = &selection.ineligible;
    println!(
        "not eligible for this caller: {} tools {:?}\n",
        ineligible.total, ineligible.counts
    );

    // The definitions go into the `tools` member of the API request. `changes` lists what OpenAI's
    // format cannot express.
    let translation = translate(
        &selection.shown_tools(),
        PROVIDER,
        &TranslateOptions::default(),
    )?;
    println!(
        "tools for the model: {}\n",
        serde_json::to_string_pretty(&translation.tools)?
    );
    for change in &translation.changes {
        println!(
            "changed for {PROVIDER}: {} {}",
            change.pointer, change.detail
        );
    }

    // One hydrator per catalog and caller is enough. `translated` restricts it to the tools that
    // the model has seen.
    let hydrator = Hydrator::new(catalog, &access)?.translated(&translation);
    for call in PROVIDER.calls(&model_answer())? {
        match hydrator.hydrate(&call) {
            Ok(HydratedCall::Ready(valid)) => {
                println!("run {} with {}", valid.tool().id, valid.arguments());
                for repair in valid.repaired() {
                    println!("  {repair}");
                }
            }
            Ok(HydratedCall::NeedsApproval(pending)) => {
                println!(
                    "ask the user before running {}: {}",
                    pending.tool().id,
                    pending.awaits()
                );
            }
            // The message is written for the model: it says what a valid call looks like.
            Err(error) => println!("return to the model: {error}"),
        }
    }
    Ok(())
}

/// Returns an answer as a model could send it. Its arguments are not valid JSON: the quotes are
/// single, and there is a trailing comma.
fn model_answer() -> serde_json::Value {
    let arguments = "{'channel': '#release', 'text': 'The build is done',}";
    let function = json!({"name": "post_message", "arguments": arguments});
    let call = json!({"id": "call_1", "type": "function", "function": function});
    json!({"choices": [{"message": {"role": "assistant", "content": null, "tool_calls": [call]}}]})
}
