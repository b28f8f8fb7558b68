//! Tools of servers that have no schema, through the gateway.

use std::fs;

use serde_json::{Value, json};

use super::{Client, Place, code, said, text};
use crate::gateway_http::Serving;
use crate::support::files;

/// Creates a folder with a server of which two tools have no schema; one is known to only read.
fn place() -> Place {
    let reads = json!({"name": "look", "description": "Looks a word up",
        "annotations": {"readOnlyHint": true}});
    let echo = json!({"name": "echo", "description": "Gives a text back",
        "inputSchema": {"type": "object"}});
    let asks = json!({"name": "ask", "description": "Answers a question about the weather",
        // A server does not decide how its tools may be called.
        "allow_no_schema": true, "no_schema_mode": "full"});
    Place::hostile(&[("old", json!({"tools": [asks, reads, echo]}))])
}

/// Returns how calls of the tools `ask` and `look` end.
fn outcomes(client: &mut Client) -> [String; 2] {
    ["old__ask", "old__look"].map(|name| {
        let result = client.call(name, json!({"word": "rain"}));
        match result["isError"] == true {
            true => code(&result).to_owned(),
            false => {
                let ran: Value = serde_json::from_str(&said(&result)).expect("JSON");
                assert_eq!(ran["arguments"], json!({"word": "rain"}));
                "ran".to_owned()
            }
        }
    })
}

/// The modes, and how calls of the tools end without a person.
const MODES: [(&str, [&str; 2]); 3] = [
    ("read-only", ["not_confirmed", "ran"]),
    ("human-approval", ["not_confirmed", "not_confirmed"]),
    ("full", ["ran", "ran"]),
];

#[test]
fn tool_without_schema_is_left_out_by_default() {
    let place = place();
    let mut client = place.client(&json!({}));
    assert_eq!(client.listed(), ["old__echo"]);
    assert_eq!(code(&client.run("old__ask", json!({}))), "unknown_tool");
    client.leave();
    let log = fs::read_to_string(place.path("stderr")).expect("a log");
    assert!(log.contains("`--allow-no-schema MODE`"), "{log}");
}

#[test]
fn mode_of_tools_without_schema_decides_their_calls() {
    for (mode, expected) in MODES {
        for is_option in [true, false] {
            let place = place();
            let mut client = match is_option {
                true => place.client_with_options(&["--allow-no-schema", mode]),
                false => {
                    place.write("settings.json", &json!({"allow_no_schema": mode}));
                    place.client(&json!({}))
                }
            };
            let listed = client.ask("tools/list", &json!({}))["result"]["tools"].clone();
            let asks = listed.as_array().expect("a list").iter();
            let mut asks = asks.filter(|tool| tool["name"] == "old__ask");
            let asks = asks.next().expect("it is listed");
            assert_eq!(asks["inputSchema"]["type"], "object", "{asks}");
            assert_eq!(outcomes(&mut client), expected, "{mode} {is_option}");
            let found = client.search("answer a question about the weather");
            assert_eq!(found["tools"][0]["name"], "old__ask", "{found}");
        }
    }
}

#[test]
fn option_for_tools_without_schema_replaces_the_setting() {
    let place = place();
    place.write("settings.json", &json!({"allow_no_schema": "read-only"}));
    let mut client = place.client_with_options(&["--allow-no-schema", "full"]);
    assert_eq!(outcomes(&mut client), ["ran", "ran"]);
}

#[test]
fn person_approves_calls_of_tools_without_schema() {
    let place = place();
    let audit = place.path("audit").display().to_string();
    let options = ["--allow-no-schema", "human-approval", "--audit", &audit];
    let mut client = place.client_of_allowing_person(&options);
    assert_eq!(outcomes(&mut client), ["ran", "ran"]);
    let asked = client.told("elicitation/create");
    let question = text(&asked[0]["params"]["message"]);
    assert_eq!(
        question,
        "Run old/ask(word=\"rain\")? Reason: it has no schema; a person must approve it."
    );
    client.leave();
    let mut modes = Vec::new();
    for file in files(&place.path("audit")) {
        for line in fs::read_to_string(file).expect("a file").lines() {
            let record: Value = serde_json::from_str(line).unwrap_or_default();
            if record["kind"] == "call" {
                modes.push(text(&record["no_schema_mode"]));
            }
        }
    }
    assert_eq!(modes, ["human-approval", "human-approval"]);
}

#[test]
fn tools_without_schema_are_served_over_http() {
    for is_option in [true, false] {
        let place = place();
        let mut settings = json!({"http": {"calls": true}});
        let mut options = Vec::new();
        match is_option {
            true => options.extend(["--allow-no-schema", "read-only"]),
            false => settings["allow_no_schema"] = json!("read-only"),
        }
        place.write("settings.json", &settings);
        let serving = Serving::start(place, &options);
        let session = serving.session("2025-11-25", &[]);
        let call = |name: &str| json!({"name": name, "arguments": {"word": "rain"}});
        let result = session.ask("tools/call", &call("old__look"))["result"].clone();
        assert!(said(&result).contains("rain"), "{result}");
        let (status, result) = serving.json("/v1/call", &[], &call("old/look"));
        assert_eq!(status, 200, "{result}");
        let (_, refused) = serving.json("/v1/call", &[], &call("old/ask"));
        assert_eq!(refused["code"], "not_confirmed", "{refused}");
    }
}
