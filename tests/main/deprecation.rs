//! Deprecated aliases are reported wherever they are used, and the log names the registered
//! aliases.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::Once;

use picktools::catalog::OperatorAliases;
use picktools::selection::NameOrigin;
use picktools::skills::{AllowedTool, Skill};
use picktools::{Access, Catalog, CatalogOptions, Engine, PickOptions, Selection};
use serde_json::json;

use crate::support::{engine, pick};

/// A terminal with an alias of each kind, and a tool that requires it by the deprecated one.
fn terminal() -> Catalog {
    let entries = json!([
        {"name": "terminalRun", "source": "host", "description": "Runs a command", "parameters": {},
            "aliases": ["bash", {"name": "old_shell", "deprecated": true}]},
        {"name": "deployService", "source": "host", "description": "Rolls a service out", "parameters": {},
            "requires": ["old_shell"]},
    ]);
    Catalog::from_slice(entries.to_string().as_bytes(), "here", None).expect("it is valid")
}

fn reported_aliases(selection: &Selection) -> Vec<(&str, &str, NameOrigin)> {
    selection
        .deprecated_aliases
        .iter()
        .map(|alias| (alias.alias.as_str(), alias.tool_id.as_str(), alias.used_by))
        .collect()
}

#[test]
fn deprecated_alias_in_any_use_is_reported() {
    let plain = engine(terminal());
    let names = |name: &str| vec![name.to_owned()];
    let access = |access: Access| PickOptions {
        access,
        ..PickOptions::default()
    };
    for (query, options, used_by) in [
        ("use old_shell", PickOptions::default(), NameOrigin::Request),
        ("use OldShell", PickOptions::default(), NameOrigin::Request),
        (
            "x",
            PickOptions {
                always_include: names("old_shell"),
                ..PickOptions::default()
            },
            NameOrigin::Caller,
        ),
        (
            "x",
            access(Access {
                exclude: ["old_shell".to_owned()].into(),
                ..Access::default()
            }),
            NameOrigin::Caller,
        ),
        (
            "x",
            access(Access {
                quotas: [("old_shell".to_owned(), 3)].into(),
                ..Access::default()
            }),
            NameOrigin::Caller,
        ),
        (
            "x",
            PickOptions {
                in_use: names("old_shell"),
                ..PickOptions::default()
            },
            NameOrigin::Task,
        ),
        (
            "roll the service out",
            PickOptions::default(),
            NameOrigin::Tool,
        ),
    ] {
        let selection = pick(&plain, query, &options);
        let alias = if query.contains("OldShell") {
            "OldShell"
        } else {
            "old_shell"
        };
        let reported_aliases = reported_aliases(&selection);
        assert!(
            reported_aliases.contains(&(alias, "host/terminalRun", used_by)),
            "{query:?}, {options:?}: {reported_aliases:?}"
        );
    }
    let skill = Skill {
        name: "shell".to_owned(),
        description: "Runs a command.".to_owned(),
        path: "shell/SKILL.md".to_owned(),
        allowed_tools: vec![AllowedTool {
            name: "old_shell".to_owned(),
            scope: None,
        }],
        body: "Do.".to_owned(),
    };
    let with_skill = Engine::builder(terminal())
        .skills(vec![skill])
        .build()
        .expect("it can be built");
    let selection = pick(&with_skill, "run a command", &PickOptions::default());
    assert_eq!(
        reported_aliases(&selection),
        [("old_shell", "host/terminalRun", NameOrigin::Skill)]
    );
    assert_eq!(
        selection.deprecated_aliases[0].to_string(),
        "\"old_shell\" is a deprecated alias of host/terminalRun, used by a picked skill; use the tool's name"
    );
    let in_order = PickOptions {
        always_include: names("bash"),
        max_candidates: 1,
        ..PickOptions::default()
    };
    assert!(
        reported_aliases(&pick(&plain, "use bash and `terminalRun`", &in_order)).is_empty(),
        "these are in order"
    );
}

thread_local! {
    /// The log of this thread.
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
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

/// Returns the log of this thread while `run` ran. The subscriber is global, because the decision
/// whether a call site logs is made once for all threads.
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
fn alias_at_registration_is_logged() {
    let aliases =
        OperatorAliases::from_slice(br#"{"shell": "terminalRun"}"#, "ours").expect("it is valid");
    let options = CatalogOptions {
        aliases: Some(aliases),
        ..CatalogOptions::default()
    };
    let catalog = options
        .collect(
            terminal()
                .tools()
                .expect("readable")
                .iter()
                .map(|tool| tool.as_ref().clone()),
        )
        .expect("it is valid");
    let lines = logged(|| drop(engine(catalog)));
    let registered = |alias: &str, deprecated: bool| {
        format!(
            "registered alias alias={alias} canonical=terminalRun tool=host/terminalRun deprecated={deprecated}"
        )
    };
    let expected = [
        registered("bash", false),
        registered("old_shell", true),
        registered("shell", false),
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:?}");
    for (line, expected) in lines.iter().zip(&expected) {
        assert!(line.contains("DEBUG") && line.ends_with(expected), "{line}");
    }
}
