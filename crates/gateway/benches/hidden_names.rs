//! Benchmarks of hidden and missing names. The time of an answer must not tell them apart.
//!
//! - Measured: the resolution of one name by a role, for a tool that the role may not know and for a
//!   name of the same length that no tool has.
//! - Data: 1,000 generated tools of two servers, one of which the role may not use.
//! - Not measured: the first view of a role, and the HTTP request.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use picktools::{Catalog, Tool};
use picktools_call::CallError;
use picktools_gateway::{Gateway, GatewayOptions, Settings};

const TOOLS: usize = 1_000;
const ROLE: &str = r#"{"roles": {"default": {"access": {"deny_sources": ["vault"]}}}}"#;

fn catalog() -> Catalog {
    let tool = |number: usize| {
        let name = format!("read_report_{number:03}");
        let mut tool = Tool::without_arguments(name, format!("Reads the report {number}"));
        let source = if number.is_multiple_of(2) {
            "vault"
        } else {
            "office"
        };
        tool.source = Some(source.to_owned());
        tool.id = tool.qualified_name();
        tool
    };
    Catalog::from_tools((0..TOOLS).map(tool)).expect("a catalog")
}

fn resolve(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _context = runtime.enter();
    let gateway = Gateway::open(GatewayOptions {
        catalog: Some(catalog()),
        ..GatewayOptions::new(Settings::parse(ROLE).expect("settings"))
    });
    let gateway = gateway.expect("a gateway");
    let view = gateway
        .hub()
        .registry
        .snapshot()
        .view("default")
        .expect("a view");
    assert_eq!(view.tools.len(), TOOLS / 2);
    let mut group = criterion.benchmark_group("resolve");
    for (case, name) in [
        ("hidden", "vault/read_report_500"),
        ("missing", "vault/read_report_5x0"),
    ] {
        let answer = view.find_tool(name).map(|tool| tool.id.clone());
        let error = answer.expect_err("the role may not know it");
        assert!(matches!(error, CallError::UnknownTool { .. }), "{error}");
        group.bench_function(case, |bencher| {
            bencher.iter(|| view.find_tool(black_box(name)).is_err());
        });
    }
}

criterion_group!(benches, resolve);
criterion_main!(benches);
