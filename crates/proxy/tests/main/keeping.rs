//! Tools that stay whatever the conversation.

use picktools_proxy::ModelApi;
use serde_json::{Value, json};

use crate::provider::{
    Exchange, Function, ProxyClient, definitions, host_functions, mcp_functions, names, request,
    say, server_functions,
};

/// Requests of a user of a coding agent.
const REQUESTS: [&str; 6] = [
    "fix the failing test in src/parser.rs",
    "add a dark mode toggle to the settings page",
    "why is the build broken?",
    "refactor the auth module to use async",
    "write a README for this project",
    "create a calendar event for the concert",
];

async fn send(client: &ProxyClient, api: ModelApi, text: &str, functions: &[Function]) -> Exchange {
    let tools = definitions(api, functions);
    client
        .send(api, &request(api, &say(text), &tools, &json!({})))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn host_tools_stay_beside_219_mcp_tools() {
    let client = ProxyClient::new(&json!({}));
    let host = names(&host_functions());
    // The client may list its own tools first, last or in between.
    let mut functions = mcp_functions();
    functions.splice(100..100, host_functions());
    for api in ModelApi::ALL {
        for text in REQUESTS {
            let exchange = send(&client, api, text, &functions).await;
            let tools = exchange.tools();
            assert_eq!(tools[..12], host[..], "{api:?} {text}");
            assert!(tools.len() <= 24, "{api:?} {text}: {tools:?}");
            let kept = exchange.header("picktools-kept").expect("a header");
            assert!(kept.starts_with("host=12"), "{kept}");
            assert_eq!(exchange.left_out(), 231 - tools.len());
        }
        let exchange = send(&client, api, REQUESTS[5], &functions).await;
        let wanted = "mcp__calendar__create_event".to_owned();
        assert!(exchange.tools().contains(&wanted), "{:?}", exchange.tools());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn host_tools_stay_with_any_separator() {
    let client = ProxyClient::new(&json!({}));
    let separators = ["__", "/", ".", ":"];
    let host = names(&host_functions());
    let check = async |functions: Vec<Function>| {
        let functions = [functions, host_functions()].concat();
        let exchange = send(&client, ModelApi::Chat, REQUESTS[2], &functions).await;
        let tools = exchange.tools();
        assert_eq!(tools.get(..12), Some(&host[..]), "{}", functions[0].name);
        assert!(tools.len() <= 24, "{tools:?}");
    };
    for separator in separators {
        check(server_functions(|server, tool| {
            format!("{server}{separator}{tool}")
        }))
        .await;
    }
    check(server_functions(|server, tool| {
        format!("mcp_{server}_{tool}")
    }))
    .await;
    check(server_functions(|server, tool| {
        format!("{tool}_mcp_{server}")
    }))
    .await;
    check(server_functions(|server, tool| {
        format!("{server}{}{tool}", separators[server.len() % 4])
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn list_without_host_tools_is_narrowed() {
    let client = ProxyClient::new(&json!({}));
    let plain = server_functions(|server, tool| format!("{tool}_{server}"));
    let only_host = [plain.clone(), host_functions()].concat();
    let mut odd = plain.clone();
    odd[7].name = "users.list".to_owned();
    odd[8].name = "users.get".to_owned();
    odd[9].name = "user__name".to_owned();
    for functions in [
        server_functions(|server, tool| format!("{server}__{tool}")),
        mcp_functions(),
        only_host,
        odd,
    ] {
        for api in ModelApi::ALL {
            let exchange = send(&client, api, "list the invoices", &functions).await;
            let tools = exchange.tools();
            assert!((1..=12).contains(&tools.len()), "{api:?} {tools:?}");
            assert!(
                tools.iter().any(|name| name.contains("list_invoice")),
                "{tools:?}"
            );
            let kept = exchange.header("picktools-kept").expect("a header");
            assert!(kept.starts_with("picked="), "{kept}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn host_tools_are_narrowed_if_the_settings_say_so() {
    let client = ProxyClient::new(&json!({"host_tools": "narrow"}));
    let functions = [mcp_functions(), host_functions()].concat();
    let exchange = send(&client, ModelApi::Chat, "list the invoices", &functions).await;
    let tools = exchange.tools();
    assert!(tools.len() <= 12, "{tools:?}");
    assert!(!tools.contains(&"NotebookEdit".to_owned()), "{tools:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn always_included_names_and_globs_stay() {
    let settings = json!({
        "host_tools": "narrow",
        "always_include": ["Bash", "mcp__garden__{copy,rate}_*", "no_such_tool"],
    });
    let client = ProxyClient::new(&settings);
    let functions = [mcp_functions(), host_functions()].concat();
    for api in ModelApi::ALL {
        let exchange = send(&client, api, "list the invoices", &functions).await;
        let tools = exchange.tools();
        assert_eq!(
            tools[..3],
            ["mcp__garden__copy_plant", "mcp__garden__rate_plant", "Bash"]
        );
        assert!((4..=15).contains(&tools.len()), "{tools:?}");
        let kept = exchange.header("picktools-kept").expect("a header");
        assert!(kept.starts_with("always=3, picked="), "{kept}");
    }
    // Together with the client's own tools, each has one reason.
    let client = ProxyClient::new(&json!({"always_include": ["Bash", "*_plant"]}));
    let exchange = send(&client, ModelApi::Chat, "list the invoices", &functions).await;
    let kept = exchange.header("picktools-kept").expect("a header");
    assert!(kept.starts_with("host=11, always=12, picked="), "{kept}");
    let client = ProxyClient::new(&json!({"always_include": ["*"]}));
    let exchange = send(&client, ModelApi::Chat, "list the invoices", &functions).await;
    assert_eq!(exchange.tools(), names(&functions), "all, in their order");
    assert_eq!(exchange.left_out(), 0);
    assert_eq!(exchange.header("picktools-left-out-names"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn provider_tools_stay_in_each_api() {
    let client = ProxyClient::new(&json!({}));
    let chat = json!([
        {"type": "custom", "custom": {"name": "code_exec", "description": "Runs code"}},
        {"type": "web_search_preview"},
    ]);
    let responses = json!([
        {"type": "web_search"}, {"type": "file_search", "vector_store_ids": ["v1"]},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "computer_use_preview", "display_width": 9, "display_height": 9,
            "environment": "linux"},
        {"type": "mcp", "server_label": "s", "server_url": "https://mcp.example"},
        {"type": "image_generation"}, {"type": "local_shell"},
        {"type": "custom", "name": "code_exec"},
    ]);
    let messages = json!([
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
        {"type": "computer_20250124", "name": "computer", "display_width_px": 9,
            "display_height_px": 9},
        {"type": "code_execution_20250825", "name": "code_execution"},
        {"type": "mcp_toolset", "mcp_server_name": "s"},
    ]);
    for (api, own) in [
        (ModelApi::Chat, chat),
        (ModelApi::Responses, responses),
        (ModelApi::Messages, messages.clone()),
        (ModelApi::CountTokens, messages),
    ] {
        let own = own.as_array().expect("a list");
        let tools = [definitions(api, &mcp_functions()), own.clone()].concat();
        for text in ["list the invoices", "thanks!"] {
            let body = request(api, &say(text), &tools, &json!({"tool_choice": null}));
            let exchange = client.send(api, &body).await;
            let sent = exchange.body()["tools"].as_array().expect("a list").clone();
            assert_eq!(sent[..own.len()], own[..], "{api:?} {text}");
            let kept = exchange.header("picktools-kept").expect("a header");
            let provider = format!("provider={}", own.len());
            assert!(kept.starts_with(&provider), "{kept}");
        }
    }
}

/// Returns the `tool_choice` that names a tool.
fn choice(api: ModelApi, name: &str) -> Value {
    match api {
        ModelApi::Chat => json!({"type": "function", "function": {"name": name}}),
        ModelApi::Responses => json!({"type": "function", "name": name}),
        ModelApi::Messages | ModelApi::CountTokens => json!({"type": "tool", "name": name}),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_that_tool_choice_names_stays() {
    let client = ProxyClient::new(&json!({}));
    for api in ModelApi::ALL {
        let tools = definitions(api, &mcp_functions());
        let wanted = "mcp__garden__copy_plant";
        for text in ["list the invoices", "thanks!"] {
            let choice = choice(api, wanted);
            let body = request(api, &say(text), &tools, &json!({"tool_choice": choice}));
            let exchange = client.send(api, &body).await;
            assert_eq!(exchange.tools().last().map(String::as_str), Some(wanted));
            assert_eq!(exchange.body()["tool_choice"], choice);
            let kept = exchange.header("picktools-kept").expect("a header");
            assert!(kept.ends_with("chosen=1"), "{kept}");
        }
        let unknown = json!({"tool_choice": choice(api, "no_such_tool")});
        let body = request(api, &say("list the invoices"), &tools, &unknown);
        let exchange = client.send(api, &body).await;
        assert_eq!(exchange.header("picktools-unchanged"), Some("tools"));
    }
    // The name of a tool that the provider defines is known, too.
    let api = ModelApi::Messages;
    let mut tools = definitions(api, &mcp_functions());
    tools.push(json!({"type": "bash_20250124", "name": "bash"}));
    let choice = json!({"tool_choice": choice(api, "bash")});
    let body = request(api, &say("list the invoices"), &tools, &choice);
    let exchange = client.send(api, &body).await;
    assert_eq!(exchange.tools()[0], "bash");
    assert!(exchange.header("picktools-tools").is_some());
}
