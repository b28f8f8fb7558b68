//! Hidden tools over HTTP: a hidden name and a missing name get the same answers.

use std::net::SocketAddr;

use picktools::{Catalog, Tool};
use picktools_gateway::{Gateway, GatewayOptions, Settings};
use picktools_http::{HttpServer, HttpServerOptions, serve};
use serde_json::{Value, json};

fn catalog() -> Catalog {
    let tool = |source: &str, name: &str, text: &str| {
        let mut tool = Tool::without_arguments(name, text);
        tool.source = Some(source.to_owned());
        tool.id = tool.qualified_name();
        tool
    };
    let mut wipe = tool("shop", "wipe_orders", "Deletes all orders of a customer");
    wipe.safe = Some(false);
    let mut refund = tool("shop", "refund_order", "Sends a customer their money back");
    refund.allowed_roles = ["finance".to_owned()].into();
    Catalog::from_tools([
        tool("shop", "list_orders", "Lists the orders of a customer"),
        tool("shop", "audit_orders", "Shows who changed orders"),
        tool("vault", "open_vault", "Opens the vault of orders"),
        wipe,
        refund,
    ])
    .expect("a catalog")
}

/// A served gateway without servers, and its client.
struct Served {
    _gateway: Gateway,
    server: HttpServer,
    client: reqwest::Client,
}

impl Served {
    /// Serves a catalog to a role.
    async fn start(role: &Value, catalog: Catalog) -> Self {
        let settings = json!({"roles": {"default": role}}).to_string();
        let gateway = Gateway::open(GatewayOptions {
            catalog: Some(catalog),
            ..GatewayOptions::new(Settings::parse(&settings).expect("settings"))
        });
        let gateway = gateway.expect("a gateway");
        let options = HttpServerOptions {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            tls: None,
            plain: false,
            console: None,
        };
        let server = serve(&gateway, &options).await.expect("it listens");
        let client = picktools_net::client_builder().expect("a client");
        let client = client.build().expect("a client");
        Self {
            _gateway: gateway,
            server,
            client,
        }
    }

    /// Returns the status and the body of an answer, without times.
    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let url = format!("http://{}{path}", self.server.address());
        let request = self
            .client
            .post(url)
            .header("content-type", "application/json");
        let answer = request
            .body(body.to_string())
            .send()
            .await
            .expect("an answer");
        let status = answer.status().as_u16();
        let text = answer.text().await.expect("a body");
        let mut body: Value = serde_json::from_str(&text).expect("JSON");
        if let Some(selection) = body.as_object_mut() {
            selection.shift_remove("timings");
        }
        (status, body)
    }
}

/// Returns the body of a request with a name.
type RequestBody<'a> = &'a dyn Fn(&str) -> Value;

#[tokio::test(flavor = "multi_thread")]
async fn hidden_and_missing_names_get_equal_answers() {
    let role = json!({
        "access": {"deny_sources": ["vault"]}, "deny": ["shop/audit_*"], "unsafe": "deny"
    });
    let served = Served::start(&role, catalog()).await;
    let visible = catalog()
        .filtered(|tool| tool.id == "shop/list_orders")
        .expect("readable");
    let without_hidden = Served::start(&role, visible).await;
    let pick = |options: Value| json!({"query": "orders of a customer", "options": options});
    let requests: [(&str, RequestBody<'_>); 8] = [
        ("/v1/resolve", &|name| json!({"names": [name]})),
        ("/v1/validate", &|name| json!({"calls": [{"name": name}]})),
        (
            "/v1/validate",
            &|name| json!({"provider": "openai", "calls": [{"name": name}]}),
        ),
        (
            "/v1/translate",
            &|name| json!({"provider": "openai", "tools": [name]}),
        ),
        ("/v1/pick", &|name| {
            pick(json!({"in_use": [name], "debug": true}))
        }),
        ("/v1/pick", &|name| {
            pick(json!({"access": {"exclude": [name]}}))
        }),
        ("/v1/pick", &|name| pick(json!({"always_include": [name]}))),
        ("/v1/pick", &|name| {
            pick(json!({"access": {"quotas": {name: 1}}}))
        }),
    ];
    for (hidden, missing) in [
        ("shop/wipe_orders", "shop/xxxx_orders"),
        ("shop/refund_order", "shop/xxxxxx_order"),
        ("shop/audit_orders", "shop/xxxxx_orders"),
        ("vault/open_vault", "vault/open_xxxxx"),
        ("open_vault", "open_xxxxx"),
    ] {
        let named = json!({"query": format!("use {hidden}")});
        let answer = served.post("/v1/pick", &named).await;
        assert_eq!(answer, without_hidden.post("/v1/pick", &named).await);
        for (path, request) in requests {
            let answer = served.post(path, &request(hidden)).await;
            let expected = without_hidden.post(path, &request(hidden)).await;
            assert_eq!(answer, expected, "{path} {}", request(hidden));
            let expected = served.post(path, &request(missing)).await;
            let text = answer.1.to_string().replace(hidden, "NAME");
            let expected_text = expected.1.to_string().replace(missing, "NAME");
            assert_eq!((answer.0, text), (expected.0, expected_text), "{path}");
        }
    }
    for field in ["allow_sources", "deny_sources"] {
        let about =
            |source: &str| pick(json!({"tell_blocked": "always", "access": {field: [source]}}));
        let (status, answer) = served.post("/v1/pick", &about("vault")).await;
        let (_, expected) = served.post("/v1/pick", &about("attic")).await;
        assert_eq!(status, 200);
        assert_eq!(
            answer["unknown_values"][0]["value"], "vault",
            "{field}: {answer}"
        );
        assert_eq!(
            answer.to_string().replace("vault", "attic"),
            expected.to_string()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_unsafe_tools_are_hidden_and_confirmed_ones_named() {
    let request = json!({
        "query": "delete all orders of a customer", "options": {"tell_blocked": "always"}
    });
    let resolve = json!({"names": ["shop/wipe_orders"]});
    let deny = Served::start(&json!({"unsafe": "deny"}), catalog()).await;
    let (_, selection) = deny.post("/v1/pick", &request).await;
    assert_eq!(selection["ineligible"]["total"], 0, "{selection}");
    assert!(!selection.to_string().contains("wipe"), "{selection}");
    let (_, resolved) = deny.post("/v1/resolve", &resolve).await;
    assert_eq!(resolved["names"][0]["error"]["code"], "unknown_tool");

    let confirm = Served::start(&json!({}), catalog()).await;
    let (_, selection) = confirm.post("/v1/pick", &request).await;
    assert_eq!(
        selection["blocked"]["tool_id"], "shop/wipe_orders",
        "{selection}"
    );
    assert_eq!(selection["ineligible"]["counts"], json!({"unsafe": 1}));
    let (_, resolved) = confirm.post("/v1/resolve", &resolve).await;
    assert_eq!(
        resolved["names"][0]["tool"], "shop/wipe_orders",
        "{resolved}"
    );
    let mut allowed = request.clone();
    allowed["options"]["access"] = json!({"allow_unsafe": true});
    let (_, selection) = confirm.post("/v1/pick", &allowed).await;
    assert_eq!(
        selection["picks"][0]["tool"]["id"], "shop/wipe_orders",
        "{selection}"
    );
}
