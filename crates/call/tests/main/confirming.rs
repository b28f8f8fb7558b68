//! Confirmations: only a decision about a pending call makes it valid.

use std::time::{Duration, Instant};

use picktools::catalog::{NoSchemaMode, Safety};
use picktools::{Catalog, Tool};
use picktools_call::{
    ApprovalQueue, CallDecider, DeciderFuture, HydratedCall, PendingCall, PendingReason,
};
use picktools_provider::{Arguments, ToolCall};
use serde_json::{Value, json};

use crate::support::{hydrator_of, ready};

/// A policy on the argument `amount`.
struct Limit(f64);

impl CallDecider for Limit {
    type Refusal = String;

    fn decide<'a>(&'a self, call: &'a PendingCall) -> DeciderFuture<'a, String> {
        let amount = call.arguments()["amount"].as_f64().unwrap_or_default();
        let decision = match amount <= self.0 {
            true => Ok("limit"),
            false => Err(format!("{amount} is too much")),
        };
        Box::pin(std::future::ready(decision))
    }
}

fn pay() -> Tool {
    let schema = json!({"type": "object", "properties": {"amount": {"type": "number"}}});
    let mut pay = Tool::with_parameters("pay", "Pays an amount", schema);
    pay.safety = Some(Safety {
        threat_level: None,
        required_approvals: vec!["finance".to_owned()],
    });
    pay
}

fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall {
        id: None,
        name: name.to_owned(),
        arguments: Arguments::Json(arguments),
    }
}

fn pending(tool: Tool, amount: f64) -> PendingCall {
    let name = tool.name.clone();
    let hydrator = hydrator_of(Catalog::from_tools([tool]).expect("it is valid"));
    match hydrator.hydrate(&call(&name, json!({"amount": amount}))) {
        Ok(HydratedCall::NeedsApproval(call)) => call,
        other => panic!("it must wait, but is {other:?}"),
    }
}

#[tokio::test]
async fn decision_makes_its_own_call_valid() {
    let refused = pending(pay(), 9.0).ask(&Limit(5.0)).await;
    assert_eq!(refused, Err("9 is too much".to_owned()));
    let call = pending(pay(), 3.0);
    let confirmation = call.ask(&Limit(5.0)).await.expect("it is allowed");
    let valid = call.confirm(confirmation).expect("it is its own");
    let confirmation = valid.confirmation().expect("it was confirmed");
    let by_finance = PendingReason::Approvals {
        by: vec!["finance".to_owned()],
    };
    assert_eq!(
        (confirmation.by(), confirmation.reason()),
        ("limit", &by_finance)
    );
    let reason = json!({"why": "approvals", "by": ["finance"]});
    assert_eq!(
        json!(valid)["confirmed"],
        json!({"by": "limit", "reason": reason})
    );
}

#[tokio::test]
async fn confirmation_of_another_call_is_refused() {
    let allowed = pending(pay(), 3.0);
    let confirmation = allowed.ask(&Limit(5.0)).await.expect("it is allowed");
    let described = Tool {
        description: "Pays an amount twice".to_owned(),
        ..pay()
    };
    let renamed = Tool {
        name: "transfer".to_owned(),
        id: "transfer".to_owned(),
        ..pay()
    };
    let mut with_schema = pay();
    with_schema.parameters = Some(json!({"type": "object"}));
    let mut by_others = pay();
    by_others.safety = Some(Safety {
        threat_level: None,
        required_approvals: vec!["board".to_owned()],
    });
    let mut without_schema = pay();
    (without_schema.parameters, without_schema.no_schema_mode) = (None, Some(NoSchemaMode::Full));
    for (tool, amount) in [
        (pay(), 300.0),
        (described, 3.0),
        (renamed, 3.0),
        (with_schema, 3.0),
        (by_others, 3.0),
        (without_schema, 3.0),
    ] {
        let id = tool.id.clone();
        let other = pending(tool, amount);
        assert!(!confirmation.is_for(&other), "{other:?}");
        let error = other.confirm(confirmation.clone()).expect_err("it differs");
        assert!(error.to_string().contains(&id), "{error}");
    }
    // Texts for picks only do not matter.
    let mut tagged = pay();
    tagged.tags = vec!["money".to_owned()];
    let valid = pending(tagged, 3.0).confirm(confirmation);
    assert_eq!(valid.expect("it is the same").tool().id, "pay");
}

#[test]
fn approved_call_names_the_approval() {
    let mut queue = ApprovalQueue::new(Duration::from_secs(60));
    let now = Instant::now();
    let ticket = queue.push(pending(pay(), 3.0), now).expect("there is room");
    let valid = queue.approve(ticket, now).expect("it waits");
    let by = valid.confirmation().map(|confirmation| confirmation.by());
    assert_eq!(by, Some("approval"));
}

#[tokio::test]
async fn call_that_waits_again_loses_its_confirmation() {
    let call = pending(pay(), 3.0);
    let confirmation = call.ask(&Limit(5.0)).await.expect("it is allowed");
    let valid = call.confirm(confirmation.clone()).expect("it is its own");
    let waiting = PendingCall::new(valid, PendingReason::NoSchema);
    assert!(json!(waiting).get("confirmed").is_none());
    waiting
        .confirm(confirmation)
        .expect_err("it was for another reason");
}

#[tokio::test]
async fn call_that_need_not_wait_has_no_confirmation() {
    let tool = Tool::without_arguments("list", "Lists all");
    let hydrator = hydrator_of(Catalog::from_tools([tool]).expect("it is valid"));
    let valid = ready(hydrator.hydrate(&call("list", json!({}))));
    assert_eq!(valid.confirmation(), None);
}
