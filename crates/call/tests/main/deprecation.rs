//! Logging of called aliases.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::Once;

use picktools::names::Advertising;
use picktools::{Access, Catalog, PickOptions};
use picktools_call::{HydratedCall, Hydrator};
use picktools_provider::{Arguments, Provider, ToolCall, TranslateOptions, translate};
use picktools_testing::{engine, pick};
use serde_json::json;

/// A terminal catalog with an alias of each kind, and a tool that requires another by its old name.
fn terminal() -> Catalog {
    let entries = json!([
        {"name": "terminalRun", "source": "host", "description": "Runs a command", "parameters": {},
            "aliases": ["bash", {"name": "old_shell", "deprecated": true}]},
        {"name": "deployService", "source": "host", "description": "Rolls a service out", "parameters": {},
            "requires": ["old_shell"]},
    ]);
    Catalog::from_slice(entries.to_string().as_bytes(), "here", None).expect("it is valid")
}

/// A writer to the log of the current thread.
struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.with_borrow_mut(|log| log.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

thread_local! {
    /// The log of this thread.
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Returns the log lines of a function on this thread.
///
/// The subscriber is global, because the decision to log is cached for all threads at once.
fn logged(run: impl FnOnce()) -> Vec<String> {
    static SUBSCRIBED: Once = Once::new();
    SUBSCRIBED.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false);
        subscriber.with_writer(|| Log).without_time().init();
    });
    LOG.take();
    run();
    let text = String::from_utf8(LOG.take()).expect("it is text");
    text.lines()
        .filter(|line| line.contains("picktools::names"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn alias_use_is_logged_with_all_three_names() {
    let catalog = terminal();
    let view = TranslateOptions {
        advertising: Advertising::PrimaryAlias,
        ..TranslateOptions::default()
    };
    let translation = translate(
        catalog.tools().expect("readable"),
        Provider::OpenAiChat,
        &view,
    )
    .expect("it can be shown");
    let plain = Hydrator::new(catalog.clone(), &Access::default()).expect("it can be decided on");
    let translated = Hydrator::new(catalog.clone(), &Access::default())
        .expect("it can be decided on")
        .translated(&translation);
    let call = |hydrator: &Hydrator, name: &str| {
        let call = ToolCall {
            id: None,
            name: name.to_owned(),
            arguments: Arguments::Json(json!({})),
        };
        let lines = logged(|| {
            assert!(matches!(
                hydrator.hydrate(&call),
                Ok(HydratedCall::Ready(_))
            ));
        });
        lines
            .into_iter()
            .map(|line| {
                line.split_once("tool alias used ")
                    .map(|(_, fields)| fields.to_owned())
            })
            .collect()
    };
    let tool = "canonical=terminalRun tool=host/terminalRun";
    let expected: Vec<(Vec<Option<String>>, String)> = vec![
        (
            call(&translated, "bash"),
            format!("requested=bash advertised=bash {tool} deprecated=false"),
        ),
        (
            call(&translated, "old_shell"),
            format!("requested=old_shell advertised=bash {tool} deprecated=true"),
        ),
        (
            call(&plain, "bash"),
            format!("requested=bash {tool} deprecated=false"),
        ),
    ];
    for (found, expected) in expected {
        assert_eq!(found, [Some(expected)]);
    }
    assert!(
        call(&plain, "terminalRun").is_empty(),
        "that is its own name"
    );
    let engine = engine(catalog);
    let lines = logged(|| drop(pick(&engine, "use `bash`", &PickOptions::default())));
    assert!(
        lines
            .iter()
            .any(|line| line.contains("requested=bash canonical=terminalRun")),
        "{lines:?}"
    );
}
