//! Hidden tools: a role gets the answers of a gateway that never had them.

use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;
use crate::front;

/// The words of names and descriptions. They are few, so that tools compete for them.
const WORDS: [&str; 8] = [
    "mail", "send", "room", "book", "invoice", "refund", "weather", "report",
];
const SOURCES: [&str; 3] = ["office", "shop", "vault"];

/// A generated tool.
#[derive(Debug, Clone)]
struct Draft {
    source: usize,
    words: (usize, usize),
    text: Vec<usize>,
    has_role: bool,
    is_unsafe: bool,
    is_quarantined: bool,
    required: Option<(usize, usize)>,
}

impl Draft {
    fn name(words: (usize, usize)) -> String {
        format!("{}_{}", WORDS[words.0], WORDS[words.1])
    }

    fn id(&self) -> String {
        format!("{}/{}", SOURCES[self.source], Self::name(self.words))
    }

    /// Returns `true` if the role `guest` may not know the tool.
    fn is_hidden(&self) -> bool {
        SOURCES[self.source] == "vault" || self.words.0 == 0 || self.has_role || self.is_unsafe
    }

    fn tool(&self) -> Tool {
        let text: Vec<&str> = self.text.iter().map(|&word| WORDS[word]).collect();
        let mut tool = Tool::without_arguments(Self::name(self.words), text.join(" "));
        tool.source = Some(SOURCES[self.source].to_owned());
        tool.id = tool.qualified_name();
        tool.safe = self.is_unsafe.then_some(false);
        tool.allowed_roles
            .extend(self.has_role.then(|| "ops".to_owned()));
        tool.requires.extend(self.required.map(Self::name));
        tool
    }
}

fn drafts() -> impl Strategy<Value = Vec<Draft>> {
    let word = || 0..WORDS.len();
    let draft = (
        0..SOURCES.len(),
        (word(), word()),
        proptest::collection::vec(word(), 1..6),
        proptest::bool::weighted(0.2),
        proptest::bool::weighted(0.2),
        proptest::bool::weighted(0.2),
        proptest::option::weighted(0.2, (word(), word())),
    );
    let draft = draft.prop_map(|values| {
        let (source, words, text, has_role, is_unsafe, is_quarantined, required) = values;
        Draft {
            source,
            words,
            text,
            has_role,
            is_unsafe,
            is_quarantined,
            required,
        }
    });
    proptest::collection::vec(draft, 1..24).prop_map(|mut drafts| {
        let mut ids = BTreeSet::new();
        drafts.retain(|draft| ids.insert(draft.id()));
        drafts
    })
}

fn settings() -> Settings {
    let settings = json!({"roles": {"guest": {
        "access": {"deny_sources": ["vault"]}, "deny": ["*/mail_*"], "unsafe": "deny"
    }}});
    Settings::parse(&settings.to_string()).expect("settings")
}

fn snapshot<'d>(drafts: impl Iterator<Item = &'d Draft>) -> Snapshot {
    let drafts: Vec<&Draft> = drafts.collect();
    let tools = drafts.iter().map(|draft| draft.tool());
    let catalog = Catalog::from_tools(tools).expect("a catalog");
    let snapshot = Snapshot::build(Arc::new(settings()), Some(&catalog), &[], None, None);
    let quarantined = drafts.iter().filter(|draft| draft.is_quarantined);
    Snapshot {
        quarantined: quarantined.map(|draft| draft.id()).collect(),
        ..snapshot.expect("a snapshot")
    }
}

/// Returns a pick of the role as JSON, without its times.
fn pick(snapshot: &Snapshot, request: &str, change: impl FnOnce(&mut PickOptions)) -> String {
    let view = snapshot.view("guest").expect("a view");
    let mut options = view.options.clone();
    change(&mut options);
    let selection = view
        .pick(&Query::new(request), &options)
        .map_err(|error| error.to_string());
    let mut selection = json!(selection);
    if let Some(selection) = selection.pointer_mut("/Ok").and_then(Value::as_object_mut) {
        selection.shift_remove("timings");
    }
    selection.to_string()
}

/// Returns the text of a search of the role.
fn search(snapshot: &Snapshot, arguments: Value) -> String {
    let view = snapshot.view("guest").expect("a view");
    let arguments: Map<String, Value> = arguments.as_object().cloned().expect("an object");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let on_selection = |_: &Query, _: &PickOptions, _: &Selection, _: std::time::Duration| {};
    let answer = front::search(snapshot, &view, &arguments, &[], &on_selection);
    let answer = runtime.expect("a runtime").block_on(answer);
    answer.map_or_else(|refusal| refusal.message, |(answer, _)| answer.to_string())
}

/// Returns the tool that a name means for the role, or the error.
fn resolve(snapshot: &Snapshot, name: &str) -> Result<String, String> {
    let view = snapshot.view("guest").expect("a view");
    let tool = view.find_tool(name).map(|tool| tool.id.clone());
    tool.map_err(|error| error.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn role_gets_the_answers_of_a_catalog_without_hidden_tools(
        drafts in drafts(),
        words in proptest::collection::vec(0..WORDS.len(), 1..5),
    ) {
        let complete = snapshot(drafts.iter());
        let visible = snapshot(drafts.iter().filter(|draft| !draft.is_hidden()));
        let words: Vec<&str> = words.iter().map(|&word| WORDS[word]).collect();
        let hidden: Vec<String> =
            drafts.iter().filter(|draft| draft.is_hidden()).map(Draft::id).collect();
        let request = format!("{} {}", words.join(" "), hidden.join(" "));
        for request in [words.join(" "), request] {
            prop_assert_eq!(pick(&complete, &request, |_| ()), pick(&visible, &request, |_| ()));
            let limited = |options: &mut PickOptions| {
                options.min_score = 0.0;
                options.debug = true;
                options.tell_blocked = picktools::options::BlockedReporting::Always;
                options.in_use = hidden.clone();
                options.access.allow_sources = ["shop".to_owned(), "vault".to_owned()].into();
                options.access.deny_sources = ["vault".to_owned(), "attic".to_owned()].into();
            };
            prop_assert_eq!(pick(&complete, &request, limited), pick(&visible, &request, limited));
            for server in [json!(null), json!("shop"), json!("vault")] {
                let arguments = json!({"query": request, "server": server});
                prop_assert_eq!(
                    search(&complete, arguments.clone()), search(&visible, arguments)
                );
            }
        }
        for draft in &drafts {
            let name = Draft::name(draft.words);
            for name in [&draft.id(), &name, &draft.id().replace('/', "__"), &name.replace('_', "-")] {
                prop_assert_eq!(resolve(&complete, name), resolve(&visible, name));
            }
            let excluded = |options: &mut PickOptions| {
                options.access.exclude.insert(draft.id());
            };
            prop_assert_eq!(pick(&complete, "report", excluded), pick(&visible, "report", excluded));
        }
    }
}
