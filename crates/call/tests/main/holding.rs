//! Validation of calls against the catalog's definition, threat level and approvals, also with a
//! custom validator.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use picktools::access::IneligibleReason;
use picktools::catalog::{Safety, ThreatLevel};
use picktools::{Access, Catalog, CatalogOptions, Engine, PickOptions, Query, Tool};
use picktools_call::client::{ClientFuture, ToolClient};
use picktools_call::{
    ApprovalQueue, ArgumentFault, ArgumentValidator, CallError, HydratedCall, Hydrator, JsonSchema,
    PendingReason, SchemaCompiler, ToolCallError, ToolCallOptions, tool_call,
};
use picktools_provider::{Arguments, Definitions, Provider, ToolCall};
use picktools_testing::tool;
use serde_json::{Value, json};

fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall {
        id: None,
        name: name.to_owned(),
        arguments: Arguments::Json(arguments),
    }
}

fn hydrate(tool: Tool, arguments: Value) -> Result<HydratedCall, CallError> {
    let name = tool.name.clone();
    let catalog = Catalog::from_tools([tool]).expect("it is valid");
    let access = Access {
        allow_unsafe: true,
        ..Access::default()
    };
    Hydrator::new(catalog, &access)
        .expect("it names no tool")
        .hydrate(&call(&name, arguments))
}

fn pending_reason(hydrated: Result<HydratedCall, CallError>) -> PendingReason {
    match hydrated {
        Ok(HydratedCall::NeedsApproval(call)) => call.awaits().clone(),
        other => panic!("it waits for a person, and not: {other:?}"),
    }
}

fn tool_with_threat_level(name: &str, level: Option<ThreatLevel>) -> Tool {
    let mut tool = tool("ops", name, "Restarts the machine");
    tool.safety = level.map(|level| Safety {
        threat_level: Some(level),
        required_approvals: Vec::new(),
    });
    tool
}

#[test]
fn tools_above_the_threat_level_are_not_picked_or_called() {
    let mut wipe = tool_with_threat_level("restart_and_wipe", None);
    wipe.safe = Some(false);
    let levels = [
        ("restart_low", ThreatLevel::Low),
        ("restart_medium", ThreatLevel::Medium),
    ];
    let tools = levels.map(|(name, level)| tool_with_threat_level(name, Some(level)));
    let critical = tool_with_threat_level("restart_critical", Some(ThreatLevel::Critical));
    let catalog = Catalog::from_tools(tools.into_iter().chain([
        critical,
        tool_with_threat_level("restart", None),
        wipe,
    ]));
    let engine = Engine::new(catalog.expect("it is valid")).expect("it can be indexed");
    for (most, eligible) in [
        ("low", vec!["restart", "restart_low"]),
        ("medium", vec!["restart", "restart_low", "restart_medium"]),
        (
            "high",
            vec![
                "restart",
                "restart_and_wipe",
                "restart_low",
                "restart_medium",
            ],
        ),
        (
            "critical",
            vec![
                "restart",
                "restart_and_wipe",
                "restart_critical",
                "restart_low",
                "restart_medium",
            ],
        ),
    ] {
        let access: Access =
            serde_json::from_value(json!({"allow_unsafe": true, "max_threat_level": most}))
                .expect("it is known");
        let options = PickOptions {
            access: access.clone(),
            max_candidates: 9,
            min_score: 0.0,
            ..PickOptions::default()
        };
        let selection = engine
            .pick(&Query::new("restart the machine"), &options)
            .expect("it picks");
        let mut picks: Vec<&str> = selection
            .picks
            .iter()
            .map(|pick| pick.tool.name.as_str())
            .collect();
        picks.sort_unstable();
        assert_eq!(picks, eligible, "{most}");
        let hydrator = Hydrator::new(engine.catalog().clone(), &access).expect("it names no tool");
        for tool in engine.catalog().tools().expect("readable") {
            let hydrated = hydrator.hydrate(&call(&tool.name, json!({})));
            assert_eq!(
                hydrated.is_ok(),
                eligible.contains(&tool.name.as_str()),
                "{most}: {}",
                tool.name
            );
        }
    }
    let access = Access {
        max_threat_level: Some(ThreatLevel::Low),
        ..Access::default()
    };
    let hydrator = Hydrator::new(engine.catalog().clone(), &access).expect("it names no tool");
    let Err(CallError::Ineligible { reasons, .. }) =
        hydrator.hydrate(&call("restart_medium", json!({})))
    else {
        panic!("it is above the level");
    };
    assert!(
        matches!(
            reasons[..],
            [IneligibleReason::ThreatLevel {
                level: ThreatLevel::Medium,
                ..
            }]
        ),
        "{reasons:?}"
    );
    assert_eq!(
        reasons[0].describe(),
        "threat level medium: the highest allowed level is low"
    );
    serde_json::from_value::<Access>(json!({"max_threat_level": "hihg"}))
        .expect_err("what is misspelt lets nothing through");
}

#[test]
fn call_with_required_approvals_waits_despite_a_schema() {
    let mut refund = tool("shop", "refund", "Sends the money of an order back");
    refund.parameters = Some(
        json!({"type": "object", "required": ["order"], "properties": {"order": {"type": "integer"}}}),
    );
    refund.safety = Some(Safety {
        threat_level: None,
        required_approvals: vec!["owner".to_owned(), "finance".to_owned()],
    });
    let engine = Engine::new(Catalog::from_tools([refund.clone()]).expect("it is valid"))
        .expect("it can be indexed");
    let picks = engine
        .pick(&Query::new("send the money back"), &PickOptions::default())
        .expect("it picks")
        .picks;
    assert!(
        picks[0]
            .reason
            .contains("calls need approval by owner, finance"),
        "{}",
        picks[0].reason
    );

    assert!(matches!(
        hydrate(refund.clone(), json!({"order": "seven"})),
        Err(CallError::Invalid { .. })
    ));
    let hydrated = hydrate(refund, json!({"order": 7}));
    assert_eq!(
        pending_reason(hydrated.clone()),
        PendingReason::Approvals {
            by: vec!["owner".to_owned(), "finance".to_owned()]
        }
    );
    let json = json!(hydrated.as_ref().expect("it waits"));
    assert_eq!(
        (&json["status"], &json["awaits"]["by"][0]),
        (&json!("needs_approval"), &json!("owner"))
    );
    let Ok(HydratedCall::NeedsApproval(pending)) = hydrated else {
        panic!("it waits")
    };
    let mut queue = ApprovalQueue::new(Duration::from_secs(60));
    let ticket = queue.push(pending, Instant::now()).expect("there is room");
    let valid = queue.approve(ticket, Instant::now()).expect("it waits");
    assert!(valid.validated() && valid.arguments()["order"] == 7);
}

#[test]
fn tool_without_schema_must_be_known_to_be_read_only() {
    let legacy = |hint: Option<bool>, untrusted: bool| {
        let entry = json!([{"name": "legacy", "allow_no_schema": true, "no_schema_mode": "read-only",
            "annotations": {"readOnlyHint": hint}, "untrusted": untrusted}]);
        let catalog =
            Catalog::from_slice(entry.to_string().as_bytes(), "here", None).expect("it is valid");
        hydrate(
            catalog.tools().expect("readable")[0].as_ref().clone(),
            json!({}),
        )
    };
    assert!(matches!(
        legacy(Some(true), false),
        Ok(HydratedCall::Ready(_))
    ));
    assert_eq!(
        pending_reason(legacy(None, false)),
        PendingReason::NotKnownToRead
    );
    assert_eq!(
        pending_reason(legacy(Some(true), true)),
        PendingReason::NotKnownToRead,
        "a stranger's hint loosens nothing"
    );
    assert!(matches!(
        legacy(Some(false), false),
        Err(CallError::NotReadOnly { .. })
    ));
}

/// Returns the outcome of a call, and `true` if the same caller gets the tool picked.
fn call_outcome(engine: &Engine, access: &Access, name: &str) -> (String, bool) {
    let options = PickOptions {
        access: access.clone(),
        max_candidates: 99,
        min_score: 0.0,
        ..PickOptions::default()
    };
    let selection = engine
        .pick(&Query::new("look after the archive"), &options)
        .expect("it picks");
    let is_picked = selection.picks.iter().any(|pick| pick.tool.name == name);
    let hydrator = Hydrator::new(engine.catalog().clone(), access).expect("it names no tool");
    let outcome = match hydrator.hydrate(&call(name, json!({}))) {
        Ok(HydratedCall::Ready(_)) => "ready".to_owned(),
        Ok(HydratedCall::NeedsApproval(call)) => json!(call.awaits())["why"]
            .as_str()
            .expect("it is a text")
            .to_owned(),
        Err(CallError::Ineligible { reasons, .. }) => reasons
            .iter()
            .map(IneligibleReason::code)
            .collect::<Vec<_>>()
            .join(" "),
        Err(other) => panic!("{name}: {other}"),
    };
    (outcome, is_picked)
}

#[test]
fn read_only_mode_runs_only_read_only_tools_unapproved() {
    let cases = [
        (
            "reads",
            json!({"annotations": {"readOnlyHint": true}}),
            "ready",
        ),
        ("listed", json!({"modes": ["batch", "read-only"]}), "ready"),
        ("silent", json!({}), "read_only_mode"),
        (
            "safe",
            json!({"safe": true, "annotations": {"destructiveHint": false}}),
            "read_only_mode",
        ),
        (
            "unchecked",
            json!({"allow_no_schema": true, "no_schema_mode": "full"}),
            "read_only_mode",
        ),
        (
            "stranger_reads",
            json!({"untrusted": true, "annotations": {"readOnlyHint": true}}),
            "read_only_mode",
        ),
        (
            "stranger_listed",
            json!({"untrusted": true, "modes": ["read-only"]}),
            "read_only_mode",
        ),
        (
            "writes",
            json!({"annotations": {"readOnlyHint": false}}),
            "not_read_only",
        ),
        (
            "destroys",
            json!({"annotations": {"destructiveHint": true}}),
            "not_read_only",
        ),
        ("is_unsafe", json!({"safe": false}), "not_read_only"),
        (
            "reads_and_destroys",
            json!({"annotations": {"readOnlyHint": true, "destructiveHint": true}}),
            "not_read_only",
        ),
        (
            "listed_writes",
            json!({"modes": ["read-only"], "annotations": {"readOnlyHint": false}}),
            "not_read_only",
        ),
        (
            "stranger_writes",
            json!({"untrusted": true, "annotations": {"readOnlyHint": false}}),
            "not_read_only",
        ),
        (
            "batch_reads",
            json!({"modes": ["batch"], "annotations": {"readOnlyHint": true}}),
            "execution_mode",
        ),
        (
            "batch_writes",
            json!({"modes": ["batch"], "safe": false}),
            "execution_mode not_read_only",
        ),
    ];
    let entries = cases.iter().map(|(name, policy, _)| {
        let mut entry =
            json!({"name": name, "description": "Looks after the archive", "source": "office"});
        if policy.get("allow_no_schema").is_none() {
            entry["parameters"] = json!({});
        }
        entry
            .as_object_mut()
            .expect("an object")
            .extend(policy.as_object().expect("an object").clone());
        entry
    });
    let entries = Value::from_iter(entries).to_string();
    let catalog = Catalog::from_slice(entries.as_bytes(), "here", None).expect("it is valid");
    let engine = Engine::new(catalog).expect("it can be indexed");
    let access = |mode: Option<&str>| Access {
        execution_mode: mode.map(str::to_owned),
        allow_unsafe: true,
        ..Access::default()
    };
    for mode in ["read-only", "read_only", "readOnly", "Read only"] {
        for (name, _, expected) in &cases {
            let is_visible = ["ready", "read_only_mode"].contains(expected);
            assert_eq!(
                call_outcome(&engine, &access(Some(mode)), name),
                ((*expected).to_owned(), is_visible),
                "{mode}: {name}"
            );
        }
        assert_eq!(
            access(Some(mode))
                .unknown_values(engine.catalog())
                .expect("readable"),
            [],
            "every catalog knows it"
        );
    }
    for name in ["silent", "writes", "stranger_writes", "destroys"] {
        assert_eq!(
            call_outcome(&engine, &access(None), name),
            ("ready".to_owned(), true),
            "{name}"
        );
        assert_eq!(
            call_outcome(&engine, &access(Some("batch")), name),
            ("ready".to_owned(), true),
            "{name}"
        );
    }
    let unknown = access(Some("reed-only"))
        .unknown_values(
            &engine
                .catalog()
                .filtered(|tool| tool.modes.is_empty())
                .expect("readable"),
        )
        .expect("readable");
    assert_eq!(
        unknown[0].nearest.as_deref(),
        Some("read-only"),
        "what is misspelt is told"
    );
    let pick = |mode| {
        let options = PickOptions {
            access: access(mode),
            max_candidates: 99,
            ..PickOptions::default()
        };
        let picks = engine
            .pick(&Query::new("`silent` and `reads`"), &options)
            .expect("it picks")
            .picks;
        ["silent", "reads"].map(|name| {
            let pick = picks
                .iter()
                .find(|pick| pick.tool.name == name)
                .expect("it is named");
            pick.reason
                .contains("calls need approval: not known to be read-only")
        })
    };
    assert_eq!(
        (pick(Some("read-only")), pick(None)),
        ([true, false], [false, false])
    );
}

/// A model that makes fixed calls.
struct Model(Vec<Value>);

impl ToolClient for Model {
    fn provider(&self) -> Provider {
        Provider::Ollama
    }

    fn send(&self, _: Value) -> ClientFuture<'_> {
        let calls: Vec<Value> = self
            .0
            .iter()
            .map(|call| json!({"function": call}))
            .collect();
        Box::pin(async move { Ok(json!({"message": {"role": "assistant", "tool_calls": calls}})) })
    }
}

async fn ask(
    hydrator: &Hydrator,
    shown: &[Arc<Tool>],
    calls: &[Value],
) -> Vec<Result<HydratedCall, CallError>> {
    let model = Model(calls.to_vec());
    let answer = tool_call(
        &model,
        json!({"model": "m"}),
        hydrator,
        shown,
        &ToolCallOptions::default(),
    )
    .await;
    answer.expect("the model answers").calls
}

#[tokio::test]
async fn only_shown_tools_of_the_catalog_can_be_called() {
    let tools = [
        tool("sky", "get_forecast", "Weather"),
        tool("sky", "get_warnings", "Storms"),
    ];
    let catalog = Catalog::from_tools(tools).expect("it is valid");
    let hydrator = Hydrator::new(catalog.clone(), &Access::default()).expect("it names no tool");
    let calls = ["get_forecast", "get_warnings", "sky/get_warnings"]
        .map(|name| json!({"name": name, "arguments": {}}));
    let calls = ask(&hydrator, &catalog.tools().expect("readable")[..1], &calls).await;
    assert!(calls[0].is_ok());
    for call in &calls[1..] {
        assert!(
            matches!(call, Err(CallError::UnknownTool { .. })),
            "{call:?}"
        );
    }
    let stranger = [Arc::new(tool("other", "x", ""))];
    let options = ToolCallOptions::default();
    let error = tool_call(
        &Model(Vec::new()),
        json!({}),
        &hydrator,
        &stranger,
        &options,
    )
    .await
    .expect_err("it is unknown");
    assert!(
        matches!(error, ToolCallError::NotInCatalog { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn calls_are_validated_against_the_catalog_definition() {
    let mut pay = tool("bank", "pay_bill", "Pays a bill from an account");
    pay.safe = Some(false);
    pay.parameters = Some(
        json!({"type": "object", "required": ["bill", "amount"], "additionalProperties": false,
        "properties": {"bill": {"type": "string", "description": "The number that stands on the bill, with its dashes"},
            "amount": {"type": "integer", "minimum": 1, "description": "In cents of the account's currency"}}}),
    );
    let catalog = Catalog::from_tools([pay, tool("bank", "close_account", "Closes an account")])
        .expect("it is valid");
    let engine = Engine::builder(catalog.clone())
        .token_counter(Arc::new(Definitions))
        .build();
    let engine = engine.expect("it can be indexed");
    let access = Access {
        allow_unsafe: true,
        ..Access::default()
    };
    let hydrator = Hydrator::new(catalog, &access).expect("it names no tool");
    let mut details = Vec::new();
    for budget in [12, 40, 400] {
        let options = PickOptions {
            access: access.clone(),
            token_budget: Some(picktools::options::TokenBudget::new(budget)),
            max_candidates: 1,
            ..PickOptions::default()
        };
        let selection = engine
            .pick(&Query::new("pay the bill"), &options)
            .expect("it picks");
        let Some(pick) = selection.picks.first() else {
            continue;
        };
        details.push(pick.definition.expect("there is a budget").detail);
        let good = json!({"name": "pay_bill", "arguments": {"bill": "1-2", "amount": 5}});
        let calls = ask(
            &hydrator,
            &[pick.shown_tool()],
            &[
                good,
                json!({"name": "pay_bill", "arguments": {"bill": "1-2", "amount": 0}}),
                json!({"name": "pay_bill", "arguments": "{bill: '1-2', amount: 5}"}),
                json!({"name": "close_account", "arguments": {}}),
            ],
        )
        .await;
        assert!(calls[0].is_ok(), "{:?}", calls[0]);
        assert!(
            matches!(calls[1], Err(CallError::Invalid { .. })),
            "the minimum counts: {:?}",
            calls[1]
        );
        assert!(
            matches!(calls[2], Err(CallError::Malformed { .. })),
            "no repair of what is unsafe: {:?}",
            calls[2]
        );
        assert!(
            matches!(calls[3], Err(CallError::UnknownTool { .. })),
            "it was not shown: {:?}",
            calls[3]
        );
    }
    details.dedup();
    assert!(
        details.len() > 1,
        "it is shown in more than one way: {details:?}"
    );
}

#[test]
fn tool_constructors_state_if_arguments_are_accepted() {
    let schema = json!({"type": "object", "required": ["a"]});
    assert!(hydrate(Tool::with_parameters("one", "", schema), json!({})).is_err());
    assert!(hydrate(Tool::without_arguments("none", ""), json!({})).is_ok());
    assert!(hydrate(Tool::without_arguments("none", ""), json!({"a": 1})).is_err());
}

/// A validator that accepts as many members as the schema's `count`, and counts compilations.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

#[derive(Debug)]
struct Count(u64);

impl SchemaCompiler for Counting {
    fn compile(&self, schema: &Value) -> Result<Arc<dyn ArgumentValidator>, String> {
        self.0.fetch_add(1, Ordering::Relaxed);
        match schema["count"].as_u64() {
            Some(count) => Ok(Arc::new(Count(count))),
            None if schema["type"] == "object" => JsonSchema.compile(schema),
            None => Err("the schema has no count".to_owned()),
        }
    }
}

impl ArgumentValidator for Count {
    fn accepts(&self, arguments: &Value) -> bool {
        arguments
            .as_object()
            .is_some_and(|members| members.len() as u64 == self.0)
    }

    fn faults(&self, arguments: &Value) -> Vec<ArgumentFault> {
        vec![ArgumentFault::new(
            "",
            "count",
            format!("{} members", self.0),
            arguments,
        )]
    }
}

#[test]
fn custom_validator_compiles_each_schema_once() {
    let counting = Arc::new(Counting::default());
    let options = CatalogOptions {
        schema_compiler: Some(counting.clone()),
        ..CatalogOptions::default()
    };
    let with = |name: &str, schema: Value| {
        let mut tool = tool("own", name, "");
        tool.parameters = Some(schema);
        tool
    };
    let tools = [
        with("counted", json!({"count": 2})),
        with("plain", json!({"type": "object", "required": ["a"]})),
        with("unknown", json!({"minProperties": 1})),
        with("none", json!({})),
    ];
    let catalog = options.collect(tools).expect("it is valid");
    for _ in 0..3 {
        // Each caller and request has its own hydrator.
        let hydrator =
            Hydrator::new(catalog.clone(), &Access::default()).expect("it names no tool");
        let hydrate = |name: &str, arguments: Value| hydrator.hydrate(&call(name, arguments));
        assert!(hydrate("counted", json!({"a": 1, "b": 2})).is_ok());
        let Err(CallError::Invalid { faults, .. }) = hydrate("counted", json!({"a": 1})) else {
            panic!("it has one")
        };
        assert_eq!(
            faults[0].to_string(),
            "the arguments: expected 2 members, received {\"a\":1}"
        );
        assert!(hydrate("plain", json!({"a": 1})).is_ok() && hydrate("plain", json!({})).is_err());
        assert!(
            hydrate("unknown", json!({"a": 1}))
                .expect_err("it cannot be used")
                .to_string()
                .contains("has no count")
        );
        assert!(hydrate("none", json!({})).is_ok());
        assert!(
            hydrate("none", json!({"a": 1})).is_err(),
            "no validator is asked what takes nothing"
        );
        assert!(
            hydrate("counted", json!([1, 2])).is_err(),
            "nor of what is no object"
        );
    }
    assert_eq!(counting.0.load(Ordering::Relaxed), 3);
    let more = catalog
        .with_tools([with("another", json!({"count": 0}))])
        .expect("it is valid");
    let hydrator = Hydrator::new(
        more.filtered(|tool| tool.name != "plain")
            .expect("readable"),
        &Access::default(),
    )
    .expect("it names none");
    assert!(hydrator.hydrate(&call("another", json!({}))).is_ok());
    assert!(
        hydrator
            .hydrate(&call("counted", json!({"a": 1, "b": 2})))
            .is_ok()
    );
    assert_eq!(
        counting.0.load(Ordering::Relaxed),
        4,
        "what is shared is not compiled again"
    );
}
