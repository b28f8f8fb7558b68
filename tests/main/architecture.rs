//! A `lib.rs` that says so declares its modules in reading order, and a module uses only those
//! above it; no library prints or reads the environment. Checked line by line, as `rustfmt` writes
//! them, without comments and what only tests see.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{files, root};

#[test]
fn imports_go_one_way() {
    let mut checked = 0;
    for library in libraries() {
        let lib = fs::read_to_string(library.join("lib.rs")).expect("it is there");
        if !lib.contains("reading order") {
            continue;
        }
        checked += modules(&lib).len();
        let found = sources(&library)
            .into_iter()
            .flat_map(|(path, text)| wrong_imports(&lib, &path, &text));
        let found: Vec<String> = found.collect();
        assert!(
            found.is_empty(),
            "{}: {}",
            library.display(),
            found.join("\n")
        );
    }
    assert!(checked > 40, "{checked} modules");
}

#[test]
fn the_libraries_neither_print_nor_read_the_environment() {
    assert!(libraries().len() > 10, "{:?}", libraries());
    for (path, text) in libraries().iter().flat_map(|library| sources(library)) {
        let found = wrong_effects(&text);
        assert!(found.is_empty(), "{path}: {}", found.join("\n"));
    }
}

#[test]
fn a_wrong_import_is_caught_wherever_it_stands() {
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
fn a_wrong_effect_is_caught_wherever_it_stands() {
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

/// The folders of the libraries' sources.
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

/// The source files of a library but its root, by their paths below it.
fn sources(library: &Path) -> Vec<(String, String)> {
    let paths = files(library).into_iter().filter(|path| {
        let is_left_out = path.ends_with("tests.rs") || *path == library.join("lib.rs");
        path.extension().is_some_and(|extension| extension == "rs") && !is_left_out
    });
    let read = |path: PathBuf| {
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
    paths.map(read).collect()
}

/// The modules that the root declares, in order.
fn modules(lib: &str) -> Vec<&str> {
    let declared = lib.lines().filter_map(|line| {
        line.strip_prefix("pub mod ")
            .or_else(|| line.strip_prefix("mod "))
    });
    declared
        .filter_map(|line| line.split_once(';').map(|(name, _)| name))
        .collect()
}

/// The lines of code that not only tests see.
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
            // An item ends at its semicolon, or at the brace below its beginning.
            let ends = |other: &&str| indent(other) == indent(line) && other.ends_with(['}', ';']);
            lines.find(ends)?;
            line = lines.next()?;
        }
        Some(line)
    })
}

fn wrong_imports(lib: &str, path: &str, text: &str) -> Vec<String> {
    let modules = modules(lib);
    let place = |name: &str| modules.iter().position(|module| *module == name);
    let file = path
        .strip_suffix("/mod.rs")
        .or(path.strip_suffix(".rs"))
        .unwrap_or(path);
    let own = file.split('/').next().unwrap_or(file);
    let Some(own_place) = place(own) else {
        return vec![format!("{path} belongs to no module that lib.rs declares")];
    };
    let up = "super::".repeat(file.split('/').count());
    let used = code(text).flat_map(|line| [after(line, "crate::"), after(line, &up)].concat());
    // A group stands on one line.
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
        match place(name) {
            Some(place) => (place > own_place)
                .then(|| format!("{path} uses {name}, which is declared below {own}")),
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

/// What comes after each place where a word begins.
fn after<'a>(line: &'a str, word: &str) -> Vec<&'a str> {
    let starts =
        |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
    let places = line
        .match_indices(word)
        .filter(|(at, _)| starts(*at) || word == "env" && line[..*at].ends_with("std::"));
    places.map(|(at, _)| &line[at + word.len()..]).collect()
}
