//! The instructions of skills in picks, and large folders of skills.

use std::fs;

use picktools::skills::Skill;
use picktools::{Engine, PickOptions, Selection};
use picktools_skills::{SkillError, SkillFolder};
use picktools_testing::{in_mode, pick, workplace};
use tempfile::tempdir;

fn skill(name: &str, description: &str, body: &str) -> Skill {
    let text = format!("---\nname: {name}\ndescription: {description}\n---\n{body}\n");
    picktools_skills::parse(&text, format!("{name}/SKILL.md"))
        .expect("it is valid")
        .skill
}

fn engine(skills: Vec<Skill>) -> Engine {
    let builder = Engine::builder(workplace()).skills(skills);
    builder.build().expect("the static model is built in")
}

/// Returns the names and scores of the picked skills, best first.
fn picked(selection: &Selection) -> Vec<(&str, f32)> {
    let skills = selection.skills.iter().flatten();
    skills
        .map(|pick| (pick.skill.name.as_str(), pick.score))
        .collect()
}

/// A description that fits several tasks.
const VAGUE: &str = "Helps the office with papers from suppliers.";

#[test]
fn skill_whose_body_names_the_task_wins() {
    let request = "reconcile the invoices with the purchase orders";
    for body in [
        "# Reconcile invoices\n\nCompare them with the purchase orders.",
        "Steps:\n\n1. Reconcile each invoice with its purchase order.\n2. File it.",
    ] {
        let skills = vec![
            skill("paper-one", VAGUE, "Sort the post and file it."),
            skill("paper-two", VAGUE, body),
            skill("paper-three", VAGUE, "Shred what is older than ten years."),
        ];
        let engine = engine(skills);
        let options = PickOptions {
            min_score: 0.0,
            ..PickOptions::default()
        };
        let selection = pick(&engine, request, &options);
        assert_eq!(picked(&selection)[0].0, "paper-two", "{body}");
        let reason = &selection.skills.as_ref().expect("there are skills")[0].reason;
        assert!(reason.contains("instructions match"), "{reason}");
        assert!(!reason.contains("tags"), "{reason}");
        let keyword = PickOptions {
            min_score: 0.0,
            ..in_mode(picktools::Mode::Keyword)
        };
        assert_eq!(picked(&pick(&engine, request, &keyword))[0].0, "paper-two");
    }
}

#[test]
fn description_outweighs_the_body() {
    let long = "Reconcile invoices with purchase orders. ".repeat(2_000);
    let skills = vec![
        skill("stuffed", "Waters the plants of the office.", &long),
        skill(
            "reconcile-invoices",
            "Reconciles invoices with purchase orders.",
            "Follow the guide of the finance team.",
        ),
    ];
    let engine = engine(skills);
    let request = "reconcile the invoices with the purchase orders";
    let selection = pick(&engine, request, &PickOptions::default());
    assert_eq!(picked(&selection)[0].0, "reconcile-invoices");
}

#[test]
fn long_body_does_not_hide_its_own_description() {
    let words: Vec<String> = (0..20_000).map(|number| format!("word{number}")).collect();
    let make = |body: &str| {
        let skills = vec![
            skill("water-plants", "Waters the plants of the office.", body),
            skill("sort-post", "Sorts the post.", "Put it into the boxes."),
        ];
        let selection = pick(&engine(skills), "water the plants", &PickOptions::default());
        let first = picked(&selection)[0];
        assert_eq!(first.0, "water-plants");
        first.1
    };
    let (short, long) = (make("Use the can."), make(&words.join(" ")));
    assert!(short - long < 0.1, "{short} {long}");
}

#[test]
fn thousands_of_skills_are_read() {
    let root = tempdir().expect("the disk has space");
    for number in 0..2_000 {
        let folder = root.path().join(format!("s{number:04}"));
        fs::create_dir(&folder).expect("it is new");
        let text = format!(
            "---\nname: s{number:04}\ndescription: Does task {number}: all of it.\n---\nDo it.\n"
        );
        fs::write(folder.join("SKILL.md"), text).expect("the disk has space");
    }
    let folder = SkillFolder::open(root.path()).expect("there are skills");
    assert_eq!(folder.skills.len(), 2_000);
    // Each file is read as plain text.
    assert_eq!(folder.errors.len(), 2_000);
    assert!(folder.errors.iter().all(SkillError::is_warning));
}
