//! Skills in `picktools pick`.

use crate::cli::{WORKPLACE, answer, json, picktools, refusal, stderr, stdout};

const TERMINAL: [&str; 4] = [
    "--catalog",
    "fixtures/catalogs/terminal",
    "--skills",
    "fixtures/skills-terminal",
];

fn arguments<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["pick"], more, &TERMINAL].concat()
}

#[test]
fn pick_prints_skills_after_the_picks() {
    let text = answer(&arguments(&[
        "try my branch out on staging",
        "-k",
        "1",
        "--exclude",
        "write_file",
    ]));
    for part in [
        "needed by the skill \"deploy-staging\"",
        "\nSkills:\n 1. deploy-staging  0.",
        "  deploy-staging/SKILL.md\n",
        "    Its tools: terminal/terminalRun, terminal/terminalReadFile\n",
        "    terminal/terminalWriteFile (needed by the skill) is not eligible: excluded by the caller\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    let none = answer(&arguments(&["Change directory"]));
    assert!(none.contains("\nNo skill fits.\n"), "{none}");
}

#[test]
fn pick_json_contains_the_skills() {
    let json = json(&arguments(&["deploy-staging", "--json"]));
    let skill = &json["skills"][0];
    assert_eq!(
        (&skill["name"], &skill["path"]),
        (&"deploy-staging".into(), &"deploy-staging/SKILL.md".into())
    );
    assert_eq!(skill["allowed_tools"][0]["name"], "bash");
    assert_eq!(skill["tool_ids"][0], "terminal/terminalRun");
    assert!(
        skill["score"].is_number() && skill["reason"].is_string() && skill.get("body").is_none(),
        "{skill}"
    );
}

#[test]
fn pick_prompt_section_replaces_the_list() {
    let text = answer(&arguments(&[
        "deploy-staging",
        "-k",
        "1",
        "--prompt-section",
    ]));
    assert!(
        text.starts_with("You have access to these tools:\n- terminalRun (aliases: bash, "),
        "{text}"
    );
    assert!(
        text.contains("\n\nYou have access to these skills:\n- deploy-staging: Deploys "),
        "{text}"
    );
    let output = picktools(&arguments(&["x", "--prompt-section", "--json"]))
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let tools = answer(&[
        "pick",
        "book a meeting room",
        "--catalog",
        WORKPLACE,
        "--prompt-section",
    ]);
    assert!(
        tools.contains("- book_meeting_room: ") && !tools.contains("skill"),
        "{tools}"
    );
}

#[test]
fn prompt_section_uses_the_names_of_definitions() {
    for names in ["canonical", "primary-alias", "expanded", "described"] {
        for provider in [
            "openai",
            "openai-responses",
            "anthropic",
            "gemini",
            "ollama",
            "mcp",
        ] {
            let pick = arguments(&[
                "run a command",
                "-k",
                "2",
                "--provider",
                provider,
                "--names",
                names,
            ]);
            let sent = json(&[&pick[..], &["--json"]].concat());
            let sent = sent["definitions"]["names"]
                .as_object()
                .expect("there are names");
            let section = answer(&[&pick[..], &["--prompt-section"]].concat());
            let names_told = section
                .lines()
                .filter_map(|line| line.strip_prefix("- ")?.split([' ', ':']).next());
            let told: Vec<&str> = names_told
                .take_while(|name| *name != "deploy-staging")
                .collect();
            assert!(
                !told.is_empty() && told.iter().all(|name| sent.contains_key(*name)),
                "{provider} {names}: {section}"
            );
            assert!(
                sent.keys().all(|name| section.contains(name.as_str())),
                "{provider} {names}: {section}"
            );
        }
    }
    let section = answer(&arguments(&[
        "run a command",
        "-k",
        "1",
        "--names",
        "primary-alias",
        "--prompt-section",
    ]));
    assert!(
        section.contains("- bash (aliases: terminalRun, shell, run, exec): Run a command\n"),
        "{section}"
    );
}

#[test]
fn prompt_section_all_lists_eligible_tools() {
    let all = answer(&arguments(&[
        "run a command",
        "-k",
        "1",
        "--prompt-section=all",
        "--exclude",
        "write_file",
    ]));
    let names: Vec<&str> = all
        .lines()
        .filter_map(|line| line.strip_prefix("- ")?.split(' ').next())
        .collect();
    assert_eq!(
        names[..3],
        ["terminalRun", "terminalCd", "terminalReadFile"],
        "{all}"
    );
    assert!(!all.contains("terminalWriteFile"), "{all}");
    let picks = answer(&arguments(&[
        "run a command",
        "-k",
        "1",
        "--prompt-section",
    ]));
    assert!(
        picks.contains("- terminalRun") && !picks.contains("- terminalCd"),
        "{picks}"
    );
    let unsafe_too = ["pick", "x", "--catalog", WORKPLACE, "--prompt-section=all"];
    let count = |more: &[&str]| {
        answer(&[&unsafe_too[..], more].concat())
            .lines()
            .filter(|line| line.starts_with("- "))
            .count()
    };
    assert!(
        count(&["--allow-unsafe"]) > count(&[]),
        "what is unsafe is not available"
    );
}

#[test]
fn prompt_section_omits_skills_with_ineligible_tools() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, description, tools) in [
        (
            "deploy-branch",
            "Deploys the branch to the staging system.",
            "bash read_file",
        ),
        (
            "sort-notes",
            "Sorts a folder of loose notes into one file.",
            "read_file",
        ),
    ] {
        let skill = folder.path().join(name);
        std::fs::create_dir(&skill).expect("it is new");
        let text = format!(
            "---\nname: {name}\ndescription: {description}\nallowed-tools: {tools}\n---\nDo it.\n"
        );
        std::fs::write(skill.join("SKILL.md"), text).expect("the folder is there");
    }
    let skills = folder.path().to_str().expect("the path is UTF-8");
    let section = |more: &[&str]| {
        let request = "use deploy-branch and sort-notes";
        let pick = [
            "pick",
            request,
            "--prompt-section",
            "--catalog",
            TERMINAL[1],
            "--skills",
            skills,
        ];
        let output = picktools(&[&pick[..], more].concat())
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        (stdout(&output), stderr(&output))
    };
    let (all, warnings) = section(&[]);
    assert!(
        all.contains("- deploy-branch: ") && all.contains("- sort-notes: "),
        "{all}"
    );
    assert_eq!(warnings, "");
    let (some, warnings) = section(&["--exclude", "terminalRun"]);
    assert!(
        !some.contains("deploy-branch") && some.contains("- sort-notes: "),
        "{some}"
    );
    let told = "the skill deploy-branch is not in the section: terminal/terminalRun is not eligible (excluded by the caller)";
    assert_eq!(warnings, format!("warning: {told}\n"));
    let (none, _) = section(&["--exclude", "terminalRun", "--exclude", "terminalReadFile"]);
    assert!(!none.contains("skill"), "{none}");
    // All tools that the caller may use, needed or not.
    let all = |more: &[&str]| {
        let pick = [
            "pick",
            "what is the time?",
            "--prompt-section=all",
            "--catalog",
            TERMINAL[1],
            "--skills",
            skills,
        ];
        answer(&[&pick[..], more].concat())
    };
    assert!(
        all(&[]).contains("- deploy-branch: ") && all(&[]).contains("- sort-notes: "),
        "{}",
        all(&[])
    );
    let some = all(&["--exclude", "terminalRun"]);
    assert!(
        !some.contains("deploy-branch") && some.contains("- sort-notes: "),
        "{some}"
    );
}

#[test]
fn unusable_skills_cause_one_warning_each() {
    let warnings = |skills: &str| {
        let arguments = [
            "pick",
            "resize a picture",
            "--catalog",
            WORKPLACE,
            "--skills",
            skills,
        ];
        let output = picktools(&arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).starts_with(" 1. media/resize-image"));
        stderr(&output)
    };
    let incompatible = warnings("fixtures/skills");
    assert_eq!(incompatible.lines().count(), 1, "{incompatible}");
    assert!(incompatible.starts_with(
        "warning: the skill \"export-icons\" (design/export-icons/SKILL.md) cannot be"
    ));
    assert!(
        incompatible.contains("did you mean create_pull_request"),
        "{incompatible}"
    );
    let bad = warnings("fixtures/broken/skills");
    assert_eq!(bad.lines().count(), 7, "{bad}");
    assert!(
        bad.lines()
            .all(|line| line.starts_with("warning: fixtures/broken/skills/")),
        "{bad}"
    );
}

#[test]
fn skill_with_invalid_yaml_is_used_with_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, description) in [
        ("story", "Simple story writer. Trigger words: scene, prose."),
        (
            "grill",
            "\n  Use when asked \"review my plan\". Pairs with design: always.",
        ),
        ("quoted", "'It's a user's tool: yes'"),
    ] {
        let skill = folder.path().join(name);
        std::fs::create_dir(&skill).expect("it is new");
        let text =
            format!("---\r\nname: {name}\r\ndescription: {description}\r\n---\r\nDo it.\r\n");
        std::fs::write(skill.join("SKILL.md"), text).expect("the folder is there");
    }
    let skills = folder.path().to_str().expect("the path is UTF-8");
    let catalog = ["--catalog", TERMINAL[1], "--skills", skills];
    let output = picktools(&[&["pick", "use story and grill", "--json"][..], &catalog].concat())
        .output()
        .expect("it runs");
    let picked: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let names: Vec<&str> = picked["skills"]
        .as_array()
        .expect("there are skills")
        .iter()
        .filter_map(|skill| skill["name"].as_str())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let warnings = stderr(&output);
    assert_eq!(warnings.lines().count(), 3, "{warnings}");
    assert!(
        warnings.contains("story/SKILL.md: line 3: the value of `description` is not valid YAML and is read as plain text"),
        "{warnings}"
    );
    assert!(warnings.contains("quoted/SKILL.md: line 3: "), "{warnings}");
    let output = picktools(&[&["check"][..], &catalog].concat())
        .output()
        .expect("it runs");
    let findings = stdout(&output);
    assert_eq!(
        findings.matches("warning non-yaml-skill").count(),
        2,
        "{findings}"
    );
    assert_eq!(
        findings.matches("error invalid-skill").count(),
        1,
        "{findings}"
    );
}

#[test]
fn folder_without_skills_is_refused() {
    for (folder, part) in [
        ("fixtures/formats", "has no SKILL.md"),
        ("no/such", "cannot read no/such"),
    ] {
        let error = refusal(&["pick", "x", "--catalog", WORKPLACE, "--skills", folder]);
        assert!(error.contains(part) && error.contains(folder), "{error}");
    }
}
