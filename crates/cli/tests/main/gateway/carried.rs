//! Everything that a server carries is governed by the access rules for its tools.

use serde_json::{Value, json};

use super::Place;
use crate::support::root;

/// Returns a tool definition.
pub(crate) fn tool(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "inputSchema": {"type": "object"}})
}

impl Place {
    /// Creates a folder with hostile servers, each with its configuration.
    pub(crate) fn hostile(servers: &[(&str, Value)]) -> Self {
        let place = Self::with(&json!({}));
        let mut entries = json!({});
        for (number, (name, configuration)) in servers.iter().enumerate() {
            let (file, log) = (format!("{number}.json"), format!("{number}.log"));
            place.write(&file, configuration);
            let program = root("crates/cli/tests/servers/hostile.py");
            entries[*name] = json!({"command": "python3",
                "args": [program, place.path(&file), place.path(&log)]});
        }
        place.write("mcp.json", &json!({"mcpServers": entries}));
        place
    }
}

/// A server with one unsafe tool, and with a prompt, a resource, a template and instructions.
fn mail() -> Value {
    let mut send = tool("send_mail", "Sends a mail");
    send["annotations"] = json!({"destructiveHint": true});
    json!({"tools": [send], "instructions": "secret instructions",
        "prompts": [{"name": "p", "description": "secret prompt"}],
        "resources": [{"uri": "mail://secret", "name": "secret"}],
        "resourceTemplates": [{"uriTemplate": "mail://{secret}", "name": "secret"}]})
}

fn requests() -> [(&'static str, Value); 7] {
    let uri = "picktools://mail/mail://a";
    let complete =
        |reference: Value| json!({"ref": reference, "argument": {"name": "a", "value": ""}});
    [
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("prompts/get", json!({"name": "mail__p"})),
        ("resources/read", json!({"uri": uri})),
        (
            "completion/complete",
            complete(json!({"type": "ref/prompt", "name": "mail__p"})),
        ),
        (
            "completion/complete",
            complete(json!({"type": "ref/resource", "uri": uri})),
        ),
    ]
}

#[test]
fn server_without_visible_tools_carries_nothing() {
    let settings = [
        json!({"roles": {"default": {"deny": ["mail/*"]}}}),
        json!({"roles": {"default": {"deny": ["mail/send_mail"]}}}),
        json!({"roles": {"default": {"unsafe": "deny"}}}),
        json!({"roles": {"default": {"access": {"execution_mode": "read-only"}}}}),
        json!({"roles": {"default": {"access": {"max_threat_level": "low"}}}}),
        json!({"roles": {"default": {"access": {"capabilities": ["x"]}}}}),
        json!({"roles": {"default": {"access": {"deny_sources": ["mail"]}}}}),
        json!({"upstreams": {"mail": {"tools": {"send_mail": {"hide": true}}}}}),
        json!({"trust": "approve"}),
    ];
    for settings in settings {
        let mut post = tool("post", "Posts a message");
        post["annotations"] = json!({"readOnlyHint": true});
        let place = Place::hostile(&[("mail", mail()), ("chat", json!({"tools": [post]}))]);
        place.write("settings.json", &settings);
        let (mut client, instructions) = place.client_with_instructions();
        assert!(
            !instructions.contains("secret"),
            "{settings}: {instructions}"
        );
        for (method, params) in requests() {
            let answer = client.ask(method, &params).to_string();
            assert!(!answer.contains("secret"), "{settings}: {method}: {answer}");
        }
        let uri = json!({"uri": "picktools://mail/mail://a"});
        let subscription = client.ask("resources/subscribe", &uri);
        assert!(
            subscription.get("error").is_some(),
            "{settings}: {subscription}"
        );
    }
}

#[test]
fn server_without_tools_is_decided_like_an_unsafe_tool() {
    let mut configuration = mail();
    configuration["tools"] = json!([]);
    for (role, is_carried) in [
        (json!({}), true),
        (json!({"deny": ["chat/*"]}), true),
        (json!({"deny": ["mail/*"]}), false),
        (json!({"unsafe": "deny"}), false),
        (json!({"access": {"allow_sources": ["mail"]}}), true),
        (json!({"access": {"allow_sources": ["chat"]}}), false),
    ] {
        let chat = json!({"tools": [tool("post", "Posts a message")]});
        let place = Place::hostile(&[("mail", configuration.clone()), ("chat", chat)]);
        place.write("settings.json", &json!({"roles": {"default": role}}));
        let (mut client, _) = place.client_with_instructions();
        for (method, params) in requests() {
            let answer = client.ask(method, &params).to_string();
            assert_eq!(
                answer.contains("secret"),
                is_carried,
                "{role}: {method}: {answer}"
            );
        }
    }
}
