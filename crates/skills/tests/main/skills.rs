//! Skills: reading `SKILL.md` folders, compatibility with a catalog, and picks with their tools.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use picktools::embed::{EmbedError, Embedder, StaticEmbedder, TextRole};
use picktools::engine::IndexError;
use picktools::names::{NameTable, ResolvedVia, tools_section};
use picktools::options::Fusion;
use picktools::scorer::{Score, per_tool};
use picktools::selection::{Stage, StageStatus};
use picktools::skills::{Skill, SkillReport, ToolMeaning, skills_section};
use picktools::{Access, Catalog, Engine, Mode, PickOptions, Selection};
use picktools_skills::{SkillError, SkillFolder};
use picktools_testing::{WORKPLACE, fixture, ids, in_mode, pick, workplace};
use tempfile::tempdir;

fn terminal() -> Catalog {
    Catalog::open(fixture("catalogs/terminal")).expect("the fixture catalog is valid")
}

/// Reads the skills of a fixture folder, all of which are valid.
fn skills(folder: &str) -> Vec<Skill> {
    let folder = SkillFolder::open(fixture(folder)).expect("the folder has skills");
    assert!(folder.errors.is_empty(), "{:?}", folder.errors);
    folder.skills
}

fn with_skills(catalog: Catalog, folder: &str) -> Engine {
    Engine::builder(catalog)
        .skills(skills(folder))
        .build()
        .expect("the static model is built in")
}

fn deploy_staging(catalog: &Catalog) -> SkillReport {
    let skills = skills("skills-terminal");
    let skill = skills
        .iter()
        .find(|skill| skill.name == "deploy-staging")
        .expect("the fixture has the skill");
    skill
        .compatibility(catalog, &NameTable::new(catalog).expect("readable"))
        .expect("readable")
}

/// Returns the names of the picked skills, best first.
fn picked(selection: &Selection) -> Vec<&str> {
    selection
        .skills
        .iter()
        .flatten()
        .map(|skill| skill.skill.name.as_str())
        .collect()
}

fn write(folder: &Path, name: &str, allowed: &str) {
    let folder = folder.join(name);
    fs::create_dir_all(&folder).expect("the folder can be created");
    let text = format!(
        "---\nname: {name}\ndescription: Does {name}.\nallowed-tools: {allowed}\n---\n\nDo it.\n"
    );
    fs::write(folder.join("SKILL.md"), text).expect("the folder exists");
}

// Compatibility with a catalog

#[test]
fn skill_is_compatible_through_aliases() {
    let report = deploy_staging(&terminal());
    assert!(report.is_compatible(), "{report}");
    let meanings = report.tools.iter().map(|tool| match &tool.meaning {
        ToolMeaning::Tool { tool: id, via, .. } => (tool.allowed.name.as_str(), id.as_str(), *via),
        other => panic!("{other:?}"),
    });
    let expected = [
        ("bash", "terminal/terminalRun", ResolvedVia::Alias),
        ("read_file", "terminal/terminalReadFile", ResolvedVia::Alias),
        (
            "write_file",
            "terminal/terminalWriteFile",
            ResolvedVia::Alias,
        ),
    ];
    assert_eq!(meanings.collect::<Vec<_>>(), expected);
}

#[test]
fn skill_without_matching_aliases_gets_suggestions() {
    let bare = Catalog::from_tools(terminal().tools().expect("readable").iter().map(|tool| {
        let mut tool = tool.as_ref().clone();
        tool.aliases.clear();
        tool
    }));
    let bare = bare.expect("the tools are valid");
    let report = deploy_staging(&bare);
    assert!(!report.is_compatible());
    let nearest = report.tools.iter().map(|tool| match &tool.meaning {
        ToolMeaning::Unknown { suggestions } => (
            tool.allowed.name.as_str(),
            suggestions.first().map(String::as_str),
        ),
        other => panic!("{other:?}"),
    });
    let expected = [
        ("bash", None),
        ("read_file", Some("terminalReadFile")),
        ("write_file", Some("terminalWriteFile")),
    ];
    assert_eq!(nearest.collect::<Vec<_>>(), expected);

    let engine = with_skills(bare, "skills-terminal");
    let selection = pick(&engine, "deploy-staging", &PickOptions::default());
    assert!(
        picked(&selection).is_empty(),
        "an incompatible skill is not picked, even by name"
    );
    let skipped = selection
        .stages
        .iter()
        .find(|report| report.stage == Stage::Skills)
        .expect("every stage reports");
    assert!(
        matches!(skipped.status, StageStatus::Skipped { .. }),
        "{skipped:?}"
    );
}

#[test]
fn capitalised_names_and_scopes_are_resolved() {
    let catalog = terminal();
    let engine = with_skills(catalog, "skills-terminal");
    assert_eq!(engine.skill_reports().len(), 2);
    assert!(
        engine
            .skill_reports()
            .iter()
            .all(SkillReport::is_compatible)
    );
    let tidy = &engine.skill_reports()[1];
    assert_eq!(tidy.tools[1].allowed.to_string(), "Write(notes/*.md)");
}

#[test]
fn workplace_skills_are_compatible_except_one() {
    let skills = skills("skills");
    let paths: Vec<&str> = skills.iter().map(|skill| skill.path.as_str()).collect();
    assert_eq!(paths.len(), 9);
    assert!(
        paths.is_sorted() && paths.contains(&"engineering/release/write-release-notes/SKILL.md"),
        "{paths:?}"
    );
    let catalog = workplace();
    let names = NameTable::new(&catalog).expect("readable");
    let reports: Vec<SkillReport> = skills
        .iter()
        .map(|skill| skill.compatibility(&catalog, &names).expect("readable"))
        .collect();
    let incompatible: Vec<&SkillReport> = reports
        .iter()
        .filter(|report| !report.is_compatible())
        .collect();
    assert_eq!(incompatible.len(), 1);
    let message = incompatible[0].to_string();
    for part in [
        "\"export-icons\"",
        "there is no tool \"export_frame\"",
        "did you mean create_pull_request",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert!(
        message.contains(
            "\"get_file_contents\" is ambiguous, write one of forge/get_file_contents, files/"
        ),
        "{message}"
    );
    assert_eq!(message.lines().count(), 1);
}

// Reading

#[test]
fn invalid_files_are_reported_and_do_not_affect_others() {
    let folder = SkillFolder::open(fixture("broken/skills")).expect("one of them is valid");
    assert_eq!(
        folder
            .skills
            .iter()
            .map(|skill| skill.path.as_str())
            .collect::<Vec<_>>(),
        ["good-one/SKILL.md"]
    );
    let messages: Vec<String> = folder.errors.iter().map(ToString::to_string).collect();
    for (file, part) in [
        ("alias-bomb", "alias"),
        (
            "never-closed",
            "line 1: the front matter has no end; close it",
        ),
        (
            "no-front-matter",
            "line 1: the file does not begin with front matter",
        ),
        ("not-utf8", "not valid UTF-8"),
        ("second/good-one", "the name \"good-one\" is taken by"),
        ("unescaped-quotes", "line 3: "),
        ("wrong-name", "line 2: the name \"Wrong Name\" contains 'W'"),
        ("wrong-name", "line 3: the description is empty"),
        (
            "wrong-name",
            "line 4: allowed-tools has \"Bash(git:* Read\"",
        ),
    ] {
        let path = format!("{file}/SKILL.md");
        assert!(
            messages
                .iter()
                .any(|error| error.contains(&path) && error.contains(part)),
            "{path} {part}: {messages:#?}"
        );
    }
    assert_eq!(messages.len(), 7);
    assert!(messages.iter().all(|error| error.lines().count() == 1));
}

#[test]
fn folder_without_skills_is_an_error() {
    let empty = tempdir().expect("the disk has space");
    assert!(matches!(
        SkillFolder::open(empty.path()),
        Err(SkillError::NoSkills { .. })
    ));
    assert!(matches!(
        SkillFolder::open(empty.path().join("none")),
        Err(SkillError::Read { .. })
    ));
    assert!(matches!(
        SkillFolder::open(fixture("README.md")),
        Err(SkillError::Read { .. })
    ));
}

#[test]
fn large_and_deep_files_are_reported_and_git_is_skipped() {
    let root = tempdir().expect("the disk has space");
    write(root.path(), "fine", "[]");
    write(&root.path().join(".git"), "hidden", "[]");
    write(&root.path().join("1/2/3/4/5/6/7/8"), "deep", "[]");
    let large = root.path().join("large");
    fs::create_dir(&large).expect("the folder can be created");
    fs::write(large.join("SKILL.md"), "x".repeat(300_000)).expect("the disk has space");
    let folder = SkillFolder::open(root.path()).expect("one is valid");
    assert_eq!(
        folder
            .skills
            .iter()
            .map(|skill| skill.name.as_str())
            .collect::<Vec<_>>(),
        ["fine"]
    );
    assert!(
        matches!(
            folder.errors[..],
            [SkillError::TooDeep { .. }, SkillError::TooLarge { .. }]
        ),
        "{:?}",
        folder.errors
    );
}

#[test]
fn folder_itself_may_be_a_skill() {
    let folder = SkillFolder::open(fixture("skills-terminal/deploy-staging"))
        .expect("the folder is a skill");
    assert_eq!(
        (folder.skills[0].path.as_str(), folder.errors.len()),
        ("SKILL.md", 0)
    );
    assert!(folder.skills[0].body.contains("./deploy/staging.sh"));
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_cycles_are_reported() {
    use std::os::unix::fs::symlink;

    let root = tempdir().expect("the disk has space");
    let elsewhere = tempdir().expect("the disk has space");
    write(elsewhere.path(), "linked", "[]");
    write(root.path(), "own", "[]");
    symlink(elsewhere.path(), root.path().join("more")).expect("the link can be created");
    symlink(root.path(), root.path().join("own/back")).expect("the link can be created");
    symlink("itself", root.path().join("itself")).expect("the link can be created");
    let folder = SkillFolder::open(root.path()).expect("the search ends");
    assert_eq!(
        folder
            .skills
            .iter()
            .map(|skill| skill.path.as_str())
            .collect::<Vec<_>>(),
        ["more/linked/SKILL.md", "own/SKILL.md"]
    );
    assert!(
        folder
            .errors
            .iter()
            .any(|error| matches!(error, SkillError::Loop { .. })),
        "{:?}",
        folder.errors
    );
}

#[test]
fn duplicate_skill_name_is_refused() {
    let skill = picktools_skills::parse("---\nname: a\ndescription: b\n---\nc", "a/SKILL.md")
        .expect("it is valid")
        .skill;
    let built = Engine::builder(terminal())
        .skills(vec![skill.clone(), skill])
        .build();
    assert!(matches!(built, Err(IndexError::Skills(_))), "{built:?}");
}

// Prompts

#[test]
fn prompt_sections_list_tools_with_aliases_and_skills() {
    let catalog = terminal();
    assert_eq!(
        tools_section(catalog.tools().expect("readable")),
        "You have access to these tools:\n\
         - terminalRun (aliases: bash, shell, run, exec): Run a command\n\
         - terminalCd (aliases: cd, chdir, change_directory): Change directory\n\
         - terminalReadFile (aliases: read_file, readFile, cat, read): Read a file\n\
         - terminalWriteFile (aliases: write_file, writeFile, write): Write a file\n\n\
         A tool may be called by its name or by any of its aliases.\n"
    );
    let skills = skills("skills-terminal");
    assert_eq!(
        skills_section(&skills),
        "You have access to these skills:\n\
         - deploy-staging: Deploys the current branch to the staging system. Use when a change is to be tried out \
         before it goes live.\n\
         - tidy-notes: Sorts a folder of loose notes into one file for each subject.\n\n\
         Where a skill names a tool by an alias, the tool may be called by that alias or by its name.\n"
    );
    assert_eq!(skills_section(&[]), "");
}

// Picks

#[test]
fn picked_skill_adds_its_tools_beyond_the_limit() {
    let engine = with_skills(terminal(), "skills-terminal");
    let options = PickOptions {
        max_candidates: 1,
        ..PickOptions::default()
    };
    let selection = pick(&engine, "try my branch out on staging", &options);
    assert_eq!(picked(&selection), ["deploy-staging"]);
    let skill = &selection.skills.as_ref().expect("the engine has skills")[0];
    let tools = [
        "terminal/terminalRun",
        "terminal/terminalReadFile",
        "terminal/terminalWriteFile",
    ];
    assert_eq!(
        (skill.tool_ids.as_slice(), skill.ineligible.len()),
        (tools.map(String::from).as_slice(), 0)
    );
    assert!(
        skill.score > 0.5 && skill.reason.contains("\"staging\""),
        "{skill:?}"
    );
    let mut picked_ids = ids(&selection);
    picked_ids.sort_unstable();
    let mut expected = tools;
    expected.sort_unstable();
    assert_eq!(picked_ids, expected);
    for pick in &selection.picks {
        assert_eq!(pick.provenance.needed_by, ["deploy-staging"]);
        assert!(
            pick.reason
                .contains("needed by the skill \"deploy-staging\""),
            "{}",
            pick.reason
        );
    }
    assert!(
        selection
            .stages
            .iter()
            .any(|report| report.stage == Stage::Skills && report.status == StageStatus::Ran)
    );
}

#[test]
fn ineligible_tool_of_a_skill_is_reported_and_not_added() {
    let engine = with_skills(terminal(), "skills-terminal");
    let options = PickOptions {
        access: Access {
            exclude: ["write_file".to_owned()].into(),
            ..Access::default()
        },
        ..PickOptions::default()
    };
    let selection = pick(&engine, "deploy-staging", &options);
    assert!(!ids(&selection).contains(&"terminal/terminalWriteFile"));
    let skill = &selection.skills.as_ref().expect("the engine has skills")[0];
    assert_eq!(
        skill.tool_ids,
        ["terminal/terminalRun", "terminal/terminalReadFile"]
    );
    let [ineligible] = &skill.ineligible[..] else {
        panic!("{:?}", skill.ineligible)
    };
    assert_eq!(
        (ineligible.tool_id.as_str(), ineligible.named.as_deref()),
        ("terminal/terminalWriteFile", Some("write_file"))
    );
    assert_eq!(
        ineligible
            .reasons
            .iter()
            .map(|reason| reason.code())
            .collect::<Vec<_>>(),
        ["excluded"]
    );

    let engine = with_skills(workplace(), "skills");
    let complaint = |options: &PickOptions| pick(&engine, "use settle-complaint", options);
    let customer = complaint(&PickOptions::default());
    assert!(!ids(&customer).contains(&"payments/refund_payment"));
    let lead = complaint(&PickOptions {
        access: Access {
            roles: ["support-lead".to_owned()].into(),
            ..Access::default()
        },
        ..PickOptions::default()
    });
    assert!(ids(&lead).contains(&"payments/refund_payment"));
}

#[test]
fn skill_worse_than_the_tools_is_not_picked() {
    let engine = with_skills(workplace(), "skills");
    for request in [
        "resize a picture",
        "what is the weather like tomorrow",
        "metrics.query",
        "",
        "𝄞",
    ] {
        let with = pick(&engine, request, &PickOptions::default());
        let without = pick(&WORKPLACE, request, &PickOptions::default());
        assert_eq!(picked(&with), [""; 0], "{request}");
        assert_eq!(ids(&with), ids(&without), "{request}");
    }
    let one = picktools_skills::parse(
        "---\nname: a\ndescription: Waters the plants.\n---\nc",
        "a/SKILL.md",
    )
    .expect("it is valid")
    .skill;
    let engine = Engine::builder(workplace())
        .skills(vec![one])
        .build()
        .expect("the engine is valid");
    assert!(
        picked(&pick(&engine, "resize a picture", &PickOptions::default())).is_empty(),
        "a single skill is not picked either"
    );
}

#[test]
fn skills_are_ranked_in_every_mode_and_with_a_scorer() {
    let engine = with_skills(workplace(), "skills");
    let request = "find a time for our retrospective that suits everybody and book a room";
    let scorer = per_tool("flat", |_, _| async { Ok(Score::new(0.5)) });
    let scored = Engine::builder(workplace())
        .skills(skills("skills"))
        .scorer(Arc::new(scorer))
        .build()
        .expect("the engine is valid");
    for (engine, options) in [
        (&engine, in_mode(Mode::Keyword)),
        (&engine, in_mode(Mode::Semantic)),
        (&engine, in_mode(Mode::Hybrid)),
        (&scored, PickOptions::default()),
    ] {
        let selection = pick(engine, request, &options);
        assert_eq!(
            picked(&selection).first(),
            Some(&"plan-team-meeting"),
            "{options:?}"
        );
        assert!(
            ids(&selection).contains(&"calendar/create_event"),
            "{options:?}"
        );
    }
    let ranks = PickOptions {
        fusion: Fusion::Rrf { k: 60 },
        ..PickOptions::default()
    };
    assert_eq!(
        picked(&pick(&engine, request, &ranks)).first(),
        Some(&"plan-team-meeting")
    );
    assert!(picked(&pick(&engine, "resize a picture", &ranks)).is_empty());
    let two_candidates = PickOptions {
        max_candidates: 2,
        min_score: 0.0,
        ..PickOptions::default()
    };
    assert_eq!(
        picked(&pick(&engine, request, &two_candidates)).len(),
        2,
        "no more skills than candidates"
    );
}

/// The static model with a counter of embedded requests.
struct CountingEmbedder(Arc<StaticEmbedder>, AtomicUsize);

impl Embedder for CountingEmbedder {
    fn identity(&self) -> &str {
        "counting"
    }

    fn dimensions(&self) -> usize {
        self.0.dimensions()
    }

    fn embed(
        &self,
        role: TextRole,
        texts: &[&str],
        done: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        if role == TextRole::Query {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
        self.0.embed(role, texts, done)
    }
}

#[test]
fn request_is_embedded_once_for_tools_and_skills() {
    let model = Arc::new(CountingEmbedder(
        StaticEmbedder::shared().expect("the static model is built in"),
        AtomicUsize::new(0),
    ));
    let builder = Engine::builder(workplace()).embedder(Arc::clone(&model) as Arc<dyn Embedder>);
    let engine = builder
        .skills(skills("skills"))
        .build()
        .expect("the model does not fail");
    let selection = pick(&engine, "the build is red", &PickOptions::default());
    assert_eq!(picked(&selection).first(), Some(&"fix-failing-build"));
    assert_eq!(model.1.load(Ordering::Relaxed), 1);
}

#[test]
fn engine_without_skills_does_not_mention_them() {
    let json = serde_json::to_value(pick(
        &WORKPLACE,
        "book a meeting room",
        &PickOptions::default(),
    ));
    let json = json.expect("a selection serialises");
    assert!(json.get("skills").is_none() && !json.to_string().contains("needed_by"));
    assert!(
        json["stages"]
            .as_array()
            .is_some_and(|stages| stages.iter().all(|stage| stage["stage"] != "skills"))
    );
}

#[test]
fn same_inputs_give_the_same_bytes() {
    let bytes = || {
        let selection = pick(
            &with_skills(workplace(), "skills"),
            "the build is red",
            &PickOptions::default(),
        );
        assert!(!picked(&selection).is_empty());
        serde_json::to_string(&selection).expect("a selection serialises")
    };
    assert_eq!(bytes(), bytes());
}
