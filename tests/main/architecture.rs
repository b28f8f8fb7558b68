//! The architecture: modules in reading order use only the modules above them, and no library
//! prints or reads the environment. The check works line by line on `rustfmt` output, without
//! comments and test code.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{files, root};

#[test]
fn imports_of_modules_go_one_way() {
    let mut checked = 0;
    for library in libraries() {
        let lib = fs::read_to_string(library.join("lib.rs")).expect("it is there");
        if !lib.contains("reading order") {
            continue;
        }
        checked += modules(&lib).len();
        let violations = sources(&library)
            .into_iter()
            .flat_map(|(path, text)| wrong_imports(&lib, &path, &text));
        let violations: Vec<String> = violations.collect();
        assert!(
            violations.is_empty(),
            "{}: {}",
            library.display(),
            violations.join("\n")
        );
    }
    assert!(checked > 40, "{checked} modules");
}

#[test]
fn imports_within_ordered_folders_go_one_way() {
    let mut checked = 0;
    for library in libraries() {
        for (path, declared) in sources(&library) {
            let Some(folder) = path.strip_suffix("/mod.rs") else {
                continue;
            };
            if !declared.contains("reading order") {
                continue;
            }
            checked += modules(&declared).len();
            let prefix = format!("crate::{}::", folder.replace('/', "::"));
            let mut files = sources(&library.join(folder));
            files.retain(|(path, _)| path != "mod.rs");
            let violations = files.into_iter().flat_map(|(path, text)| {
                wrong_uses(&declared, &path, &without_inline_modules(&text), &prefix)
            });
            let violations: Vec<String> = violations.collect();
            assert!(violations.is_empty(), "{path}: {}", violations.join("\n"));
        }
    }
    assert!(checked > 20, "{checked} modules");
}

#[test]
fn check_of_folder_with_wrong_import_reports_it() {
    let declared = "mod low;\nmod high;";
    let wrong = |path: &str, text: &str| wrong_uses(declared, path, text, "crate::folder::");
    for text in [
        "use super::high::X;",
        "use crate::folder::high::X;",
        "use super::{low, high};",
    ] {
        let expected = "low.rs uses high, which is declared below low";
        assert_eq!(wrong("low.rs", text), [expected], "{text}");
    }
    assert_eq!(
        wrong("high.rs", "use super::Item;"),
        ["high.rs uses Item through the root"]
    );
    for text in [
        "use super::low::X;",
        "use crate::high::X;",
        "use crate::folder::low;",
        &without_inline_modules("mod inner {\n    use super::Item;\n}\nuse super::low::X;"),
    ] {
        assert!(wrong("high.rs", text).is_empty(), "{text}");
    }
}

#[test]
fn imports_of_engine_stages_go_one_way() {
    let stages = fs::read_to_string(root("src/engine.rs")).expect("it is there");
    assert!(modules(&stages).len() > 15, "{:?}", modules(&stages));
    for (path, text) in sources(&root("src/engine")) {
        // Imports from other modules of the crate are checked above.
        let text = text.replace("crate::", "other::");
        let mut violations = wrong_imports(&stages, &path, &text);
        violations.retain(|violation| !violation.ends_with("through the root"));
        assert!(violations.is_empty(), "{}", violations.join("\n"));
    }
}

#[test]
fn table_of_modules_names_each_module_of_a_listed_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = fs::read_to_string(root.join("docs/architecture.md")).expect("the document");
    let mut listed: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for row in document.lines() {
        let cells: Vec<&str> = row.split('`').collect();
        if let ["| ", library, " | ", module, ..] = cells.as_slice()
            && root.join("crates").join(library).exists()
        {
            listed
                .entry(library)
                .or_default()
                .insert((*module).to_owned());
        }
    }
    assert!(listed.len() >= 5, "{listed:?}");
    for (library, rows) in listed {
        let path = root.join("crates").join(library).join("src/lib.rs");
        let lib = fs::read_to_string(path).expect("a library");
        let modules: BTreeSet<String> = modules(&lib).into_iter().map(str::to_owned).collect();
        assert_eq!(rows, modules, "{library}");
    }
}

#[test]
fn libraries_do_not_print_or_read_environment() {
    assert!(libraries().len() > 10, "{:?}", libraries());
    for (path, text) in libraries().iter().flat_map(|library| sources(library)) {
        let violations = wrong_effects(&text);
        assert!(violations.is_empty(), "{path}: {}", violations.join("\n"));
    }
}

#[test]
fn check_with_wrong_import_reports_it() {
    let lib = "mod low; // mod comment;\n// mod comment;\npub mod mid;\n#[cfg(feature = \"x\")]\npub mod outer;\nmod high;";
    assert_eq!(modules(lib), ["low", "mid", "outer", "high"]);
    for (path, text, expected) in [
        (
            "mid.rs",
            "use crate::high::X;",
            "mid.rs uses high, which is declared below mid",
        ),
        (
            "mid/deep/er.rs",
            "fn f() { crate::high::go(); }",
            "mid/deep/er.rs uses high, which is declared below mid",
        ),
        (
            "mid.rs",
            "use crate::Engine;",
            "mid.rs uses Engine through the root",
        ),
        (
            "mid.rs",
            "use crate::{low, high};",
            "mid.rs uses high, which is declared below mid",
        ),
        (
            "mid/mod.rs",
            "use super::high;",
            "mid/mod.rs uses high, which is declared below mid",
        ),
        (
            "mid/deep.rs",
            "use super::super::high;",
            "mid/deep.rs uses high, which is declared below mid",
        ),
        (
            "other.rs",
            "",
            "other.rs belongs to no module that lib.rs declares",
        ),
    ] {
        assert_eq!(wrong_imports(lib, path, text), [expected], "{path}: {text}");
    }
    for (path, text) in [
        (
            "high.rs",
            "use crate::low;\nuse super::mid;\nuse crate::high::B;",
        ),
        (
            "mid.rs",
            "// use crate::high;\n    /// [`crate::high`]\nuse crate::low;",
        ),
        (
            "mid.rs",
            "#[cfg(test)]\nmod tests {\n    use crate::high;\n    fn f() {\n    }\n}\nuse crate::low;",
        ),
        ("mid.rs", "#[cfg(test)]\nuse crate::high;\nuse crate::low;"),
        ("mid/deep.rs", "use super::sibling;\nuse super::high;"),
    ] {
        assert!(wrong_imports(lib, path, text).is_empty(), "{path}: {text}");
    }
}

#[test]
fn check_with_wrong_effect_reports_it() {
    for text in [
        "println!(\"x\")",
        "eprint!(\"x\")",
        "dbg!(1)",
        "use std::env;",
        "std::env::var(\"X\")",
        "env::args()",
    ] {
        assert_eq!(wrong_effects(text).len(), 1, "{text}");
    }
    for text in [
        "// println!()",
        "std::env::consts::OS",
        "env!(\"CARGO_PKG_NAME\")",
        "my_env::x()",
        "writeln!(f)",
    ] {
        assert!(wrong_effects(text).is_empty(), "{text}");
    }
}

/// Returns the source folders of the libraries.
fn libraries() -> Vec<PathBuf> {
    let crates = fs::read_dir(root("crates")).expect("it can be read");
    let crates = crates
        .map(|entry| entry.expect("it can be read").path())
        .chain([root("")]);
    let crates = crates
        .filter(|folder| !folder.ends_with("testing"))
        .map(|folder| folder.join("src"));
    crates
        .filter(|folder| folder.join("lib.rs").is_file())
        .collect()
}

/// Returns the source files of a library except its root, by their paths below it.
fn sources(library: &Path) -> Vec<(String, String)> {
    let paths = files(library).into_iter().filter(|path| {
        let is_left_out = path.ends_with("tests.rs") || *path == library.join("lib.rs");
        path.extension().is_some_and(|extension| extension == "rs") && !is_left_out
    });
    let read_file = |path: PathBuf| {
        let below = path
            .strip_prefix(library)
            .expect("it lies below")
            .to_string_lossy()
            .replace('\\', "/");
        (
            below,
            fs::read_to_string(path).expect("a source file can be read"),
        )
    };
    paths.map(read_file).collect()
}

/// Returns the modules that the root declares, in order.
fn modules(lib: &str) -> Vec<&str> {
    let declared = lib.lines().filter_map(|line| {
        line.strip_prefix("pub mod ")
            .or_else(|| line.strip_prefix("mod "))
    });
    declared
        .filter_map(|line| line.split_once(';').map(|(name, _)| name))
        .collect()
}

/// Returns the lines of code that are not test code.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    std::iter::from_fn(move || {
        let mut line = lines.next()?;
        while ["#[cfg(test)]", "#[cfg(all(test,"]
            .iter()
            .any(|start| line.trim_start().starts_with(start))
        {
            // An item ends at its semicolon, or at the closing brace with its indentation.
            let ends = |other: &&str| indent(other) == indent(line) && other.ends_with(['}', ';']);
            lines.find(ends)?;
            line = lines.next()?;
        }
        Some(line)
    })
}

/// Returns a text without the modules in it, in which `super` has another meaning.
fn without_inline_modules(text: &str) -> String {
    let mut kept = String::new();
    let mut is_inside = false;
    for line in text.lines() {
        is_inside |= line.starts_with("mod ") && line.ends_with('{');
        if !is_inside {
            kept.push_str(line);
            kept.push('\n');
        }
        is_inside &= line != "}";
    }
    kept
}

fn wrong_imports(lib: &str, path: &str, text: &str) -> Vec<String> {
    wrong_uses(lib, path, text, "crate::")
}

/// Returns the uses of modules below the own one. `declared` declares the modules of a library or
/// a folder in reading order. `prefix` is the path to them.
fn wrong_uses(declared: &str, path: &str, text: &str, prefix: &str) -> Vec<String> {
    let modules = modules(declared);
    let position = |name: &str| modules.iter().position(|module| *module == name);
    let file = path
        .strip_suffix("/mod.rs")
        .or(path.strip_suffix(".rs"))
        .unwrap_or(path);
    let module = file.split('/').next().unwrap_or(file);
    let Some(own_place) = position(module) else {
        return vec![format!("{path} belongs to no module that lib.rs declares")];
    };
    let up = "super::".repeat(file.split('/').count());
    let used = code(text).flat_map(|line| [after(line, prefix), after(line, &up)].concat());
    // A group of imports is on one line.
    let used = used.flat_map(|rest| {
        rest.strip_prefix('{')
            .map_or(vec![rest], |group| group.split(", ").collect())
    });
    let wrong = used.filter_map(|rest| {
        let end = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len())
            .max(1);
        let name = rest.get(..end)?;
        match position(name) {
            Some(position) => (position > own_place)
                .then(|| format!("{path} uses {name}, which is declared below {module}")),
            None => (name != "super").then(|| format!("{path} uses {name} through the root")),
        }
    });
    wrong.collect()
}

fn wrong_effects(text: &str) -> Vec<&str> {
    let is_wrong = |line: &&str| {
        let prints = ["println!", "eprintln!", "print!", "eprint!", "dbg!"]
            .iter()
            .any(|name| !after(line, name).is_empty());
        let reads = after(line, "env")
            .iter()
            .any(|rest| rest.starts_with("::") && !rest.starts_with("::consts"));
        prints || reads || line.contains("use std::env;")
    };
    code(text).filter(is_wrong).collect()
}

/// Returns the text after each occurrence of a word at a word boundary.
fn after<'a>(line: &'a str, word: &str) -> Vec<&'a str> {
    let starts =
        |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
    let places = line
        .match_indices(word)
        .filter(|(at, _)| starts(*at) || word == "env" && line[..*at].ends_with("std::"));
    places.map(|(at, _)| &line[at + word.len()..]).collect()
}
