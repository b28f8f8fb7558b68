//! Deprecated aliases are told wherever they are used, and the log says which names are registered.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::Once;

use picktools::catalog::OperatorAliases;
use picktools::selection::AskedBy;
use picktools::skills::{AllowedTool, Skill};
use picktools::{Access, Catalog, CatalogOptions, Engine, PickOptions, Selection};
use serde_json::json;

use crate::support::{engine, pick};

/// A terminal with an alias of each kind, and a tool that requires it by the old one.
fn terminal() -> Catalog {
    let entries = json!([
        {"name": "terminalRun", "source": "host", "description": "Runs a command", "parameters": {},
            "aliases": ["bash", {"name": "old_shell", "deprecated": true}]},
        {"name": "deployService", "source": "host", "description": "Rolls a service out", "parameters": {},
            "requires": ["old_shell"]},
    ]);
    Catalog::from_slice(entries.to_string().as_bytes(), "here", None).expect("it is valid")
}

fn told(selection: &Selection) -> Vec<(&str, &str, AskedBy)> {
    let told = selection.deprecated_aliases.iter();
    told.map(|told| (told.alias.as_str(), told.tool_id.as_str(), told.used_by))
        .collect()
}

#[test]
fn a_deprecated_alias_is_told_wherever_a_pick_uses_it() {
    let plain = engine(terminal());
    let named = |name: &str| vec![name.to_owned()];
    let access = |access: Access| PickOptions {
        access,
        ..PickOptions::default()
    };
    for (query, options, used_by) in [
        ("use old_shell", PickOptions::default(), AskedBy::Request),
        ("use OldShell", PickOptions::default(), AskedBy::Request),
        (
            "x",
            PickOptions {
                always_include: named("old_shell"),
                ..PickOptions::default()
            },
            AskedBy::Caller,
        ),
        (
            "x",
            access(Access {
                exclude: ["old_shell".to_owned()].into(),
                ..Access::default()
            }),
            AskedBy::Caller,
        ),
        (
            "x",
            access(Access {
                quotas: [("old_shell".to_owned(), 3)].into(),
                ..Access::default()
            }),
            AskedBy::Caller,
        ),
        (
            "x",
            PickOptions {
                in_use: named("old_shell"),
                ..PickOptions::default()
            },
            AskedBy::Task,
        ),
        (
            "roll the service out",
            PickOptions::default(),
            AskedBy::Tool,
        ),
    ] {
        let selection = pick(&plain, query, &options);
        let alias = if query.contains("OldShell") {
            "OldShell"
        } else {
            "old_shell"
        };
        let told = told(&selection);
        assert!(
            told.contains(&(alias, "host/terminalRun", used_by)),
            "{query:?}, {options:?}: {told:?}"
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
        told(&selection),
        [("old_shell", "host/terminalRun", AskedBy::Skill)]
    );
    assert_eq!(
        selection.deprecated_aliases[0].to_string(),
        "\"old_shell\" is a deprecated alias of host/terminalRun, used by a picked skill; use the tool's name"
    );
    let in_order = PickOptions {
        always_include: named("bash"),
        max_candidates: 1,
        ..PickOptions::default()
    };
    assert!(
        told(&pick(&plain, "use bash and `terminalRun`", &in_order)).is_empty(),
        "these are in order"
    );
}

thread_local! {
    /// What was logged on this thread.
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Writes to the log of the thread that it is used on.
struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.with_borrow_mut(|log| log.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What was logged while something ran on this thread. The subscriber is the process's: whether a
/// place in the code logs at all is decided for all threads at once.
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
fn an_alias_is_logged_when_it_is_registered() {
    let aliases =
        OperatorAliases::from_slice(br#"{"shell": "terminalRun"}"#, "ours").expect("it is valid");
    let options = CatalogOptions {
        aliases: Some(aliases),
        ..CatalogOptions::default()
    };
    let catalog = options
        .collect(terminal().tools().iter().map(|tool| tool.as_ref().clone()))
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
