//! A library's `lib.rs` declares its modules in order, and a module uses only those above it; the libraries print nothing
//! and read no environment. Checked on the text of the sources, without comments, strings and tests.

use std::fs;
use std::path::Path;

use crate::support::root;

/// A source file: its path below `src`, with `/`, and its text.
type Source = (String, String);

/// Where the sources of the libraries are.
const LIBRARIES: [&str; 2] = ["src", "crates/server/src"];

#[test]
fn imports_go_one_way() {
    for library in LIBRARIES {
        let (lib, files) = (read(library, "lib.rs"), sources(library));
        for module in &modules(&lib) {
            let is_there = files.iter().any(|(path, _)| module_of(path) == module);
            assert!(is_there, "no file was found for the module {module} of {library}");
        }
        let found = wrong_imports(&lib, &files);
        assert!(found.is_empty(), "{library}: {}", found.join("\n"));
    }
}

#[test]
fn the_libraries_neither_print_nor_read_the_environment() {
    for library in LIBRARIES {
        let found = wrong_effects(&sources(library));
        assert!(found.is_empty(), "{library}: {}", found.join("\n"));
    }
}

#[test]
fn a_wrong_import_is_caught_wherever_it_stands() {
    let lib =
        "mod low; // mod comment;\n/* mod block; */ pub mod mid;\n#[cfg(feature = \"x\")]\npub mod outer;\nmod high;";
    assert_eq!(modules(lib), ["low", "mid", "outer", "high"]);
    let check = |path: &str, text: &str| wrong_imports(lib, &[(path.to_owned(), text.to_owned())]);
    for (path, text, expected) in [
        ("mid.rs", "use crate::high::X;", "src/mid.rs uses high, which is declared below mid"),
        (
            "mid/deep/er.rs",
            "fn f() { crate::high::go(); }",
            "src/mid/deep/er.rs uses high, which is declared below mid",
        ),
        ("mid.rs", "use crate::{low, high::{A, B}};", "src/mid.rs uses high, which is declared below mid"),
        ("mid/mod.rs", "use super::high;", "src/mid/mod.rs uses high, which is declared below mid"),
        ("mid/deep.rs", "use super::super::high;", "src/mid/deep.rs uses high, which is declared below mid"),
        ("mid.rs", "use crate::Engine;", "src/mid.rs uses Engine through the root"),
        ("low.rs", "let quote = '\"'; use crate::mid;", "src/low.rs uses mid, which is declared below low"),
        ("other.rs", "", "src/other.rs belongs to no module that lib.rs declares"),
    ] {
        assert_eq!(check(path, text), [expected], "{path}: {text}");
    }
    for (path, text) in [
        ("high.rs", "use crate::low; use crate::{mid::A, high::B}; use super::mid;"),
        ("mid.rs", "// use crate::high;\n//! [`crate::high`]\n/* crate::high */ const S: &str = \"crate::high\";"),
        ("mid.rs", "#[cfg(test)]\nmod tests { use crate::high; fn f() { if true {} } }\nuse crate::low;"),
        ("mid.rs", "#[cfg(test)]\nuse crate::high;\nuse crate::low;"),
        ("mid/deep.rs", "use super::sibling; use super::high;"),
        ("mid.rs", "const R: &str = r#\"crate::high \" \"#; use crate::low;"),
        ("mid.rs", "fn f<'a>(x: &'a str) { g(crate::low::y, '\\'') }"),
    ] {
        assert!(check(path, text).is_empty(), "{path}: {text}: {:?}", check(path, text));
    }
}

#[test]
fn a_wrong_effect_is_caught_wherever_it_stands() {
    let check = |path: &str, text: &str| wrong_effects(&[(path.to_owned(), text.to_owned())]).len();
    for text in ["println!(\"x\")", "eprint!(\"x\")", "dbg!(1)", "use std::env;", "std::env::var(\"X\")", "env::args()"]
    {
        assert_eq!(check("mid/deep.rs", text), 1, "{text}");
    }
    for text in ["// println!()", "std::env::consts::OS", "env!(\"CARGO_PKG_NAME\")", "my_env::x()", "writeln!(f)"] {
        assert_eq!(check("mid.rs", text), 0, "{text}");
    }
}

fn read(library: &str, path: &str) -> String {
    fs::read_to_string(root(library).join(path)).expect("a source file can be read")
}

/// Every source file of a library but the root.
fn sources(library: &str) -> Vec<Source> {
    fn walk(library: &str, folder: &Path, below: &str, found: &mut Vec<Source>) {
        for entry in fs::read_dir(folder).expect("the folder can be read") {
            let entry = entry.expect("the folder can be read");
            let path = format!("{below}{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                walk(library, &entry.path(), &format!("{path}/"), found);
            } else if path.ends_with(".rs") {
                found.push((path.clone(), read(library, &path)));
            }
        }
    }
    let mut found = Vec::new();
    walk(library, &root(library), "", &mut found);
    found.retain(|(path, _)| path != "lib.rs");
    found.sort();
    // `#[cfg(test)] mod tests;` stands in another file than the tests it declares.
    let tests: Vec<String> = found.iter().flat_map(|(path, text)| test_files(path, &code(text))).collect();
    found.retain(|(path, _)| !tests.contains(path));
    found
}

fn module_of(path: &str) -> &str {
    path.split('/').next().unwrap_or(path).trim_end_matches(".rs")
}

/// The modules that the root declares, in order.
fn modules(lib: &str) -> Vec<String> {
    let code = code(lib);
    let declared = code.split(';').filter_map(|item| {
        let (before, name) = item.rsplit_once("mod ")?;
        let visible = before.trim_end().rsplit([']', '\n']).next().unwrap_or("").trim();
        let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        (plain && (visible.is_empty() || visible.starts_with("pub"))).then(|| name.to_owned())
    });
    declared.collect()
}

fn wrong_imports(lib: &str, files: &[Source]) -> Vec<String> {
    let modules = modules(lib);
    let place = |name: &str| modules.iter().position(|module| module == name);
    let mut found = Vec::new();
    for (path, text) in files {
        let own = module_of(path);
        let Some(own_place) = place(own) else {
            found.push(format!("src/{path} belongs to no module that lib.rs declares"));
            continue;
        };
        let mut used = uses_of_root(path, &without_tests(&code(text)));
        used.sort();
        used.dedup();
        for name in used {
            match place(&name) {
                Some(place) if place > own_place => {
                    found.push(format!("src/{path} uses {name}, which is declared below {own}"));
                }
                None => found.push(format!("src/{path} uses {name} through the root")),
                _ => {}
            }
        }
    }
    found
}

fn wrong_effects(files: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in files {
        let code = without_tests(&code(text));
        for name in ["println!", "eprintln!", "print!", "eprint!", "dbg!"] {
            found.extend(words(&code, name).map(|_| format!("src/{path} uses {name}")));
        }
        let reads = words(&code, "env").filter(|&at| {
            let after = &code[at + "env".len()..];
            let is_path = after.starts_with("::") || code[..at].ends_with("std::");
            is_path && !after.starts_with("::consts")
        });
        found.extend(reads.map(|_| format!("src/{path} reads the environment")));
    }
    found
}

/// The names directly below the crate's root that the code of a file uses.
fn uses_of_root(path: &str, code: &str) -> Vec<String> {
    let file = path.strip_suffix("/mod.rs").or(path.strip_suffix(".rs")).unwrap_or(path);
    let up = "super::".repeat(file.split('/').count());
    let mut names = Vec::new();
    for prefix in ["crate::", up.as_str()] {
        for at in words(code, prefix).filter(|&at| !code[..at].ends_with("super::")) {
            let rest = &code[at + prefix.len()..];
            match rest.strip_prefix('{') {
                Some(group) => names.extend(group_names(group)),
                None => names.extend(identifier(rest)),
            }
        }
    }
    names.retain(|name| name != "super");
    names
}

/// The first names of `a, b::{c, d}, e}`.
fn group_names(group: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0;
    let mut start = 0;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.extend(identifier(group[start..at].trim_start()));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

fn identifier(text: &str) -> Option<String> {
    let name: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

/// The places where `word` stands and no longer word ends with it.
fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(|&at| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next().filter(|_| !word.ends_with([':', '!']));
        ![before, after].into_iter().flatten().any(|c| c.is_alphanumeric() || c == '_')
    })
}

/// The text without comments, and with empty strings.
fn code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    let starts = |at: usize, what: &str| what.chars().enumerate().all(|(i, c)| chars.get(at + i) == Some(&c));
    while at < chars.len() {
        let word_before = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
        if starts(at, "//") {
            while at < chars.len() && chars[at] != '\n' {
                at += 1;
            }
        } else if starts(at, "/*") {
            while at < chars.len() && !starts(at, "*/") {
                at += 1;
            }
            at += 2;
        } else if chars[at] == 'r' && !word_before && (starts(at, "r\"") || starts(at, "r#")) {
            let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
            if chars.get(at + 1 + hashes) != Some(&'"') {
                code.push(chars[at]);
                at += 1;
                continue;
            }
            let end = format!("\"{}", "#".repeat(hashes));
            at += 2 + hashes;
            while at < chars.len() && !starts(at, &end) {
                at += 1;
            }
            at += end.len();
            code.push_str("\"\"");
        } else if chars[at] == '"' {
            at += 1;
            while at < chars.len() && chars[at] != '"' {
                at += if chars[at] == '\\' { 2 } else { 1 };
            }
            at += 1;
            code.push_str("\"\"");
        } else if starts(at, "'\\") {
            at += 3;
            while at < chars.len() && chars[at] != '\'' {
                at += 1;
            }
            at += 1;
        } else if chars[at] == '\'' && chars.get(at + 2) == Some(&'\'') {
            at += 3;
        } else {
            code.push(chars[at]);
            at += 1;
        }
    }
    code
}

const TEST: &str = "#[cfg(test)]";

/// The code without the items that only tests see.
fn without_tests(code: &str) -> String {
    let mut kept = String::new();
    let mut rest = code;
    while let Some(at) = rest.find(TEST) {
        kept.push_str(&rest[..at]);
        rest = &rest[at + TEST.len()..];
        rest = &rest[item_end(rest)..];
    }
    kept + rest
}

/// Where the item at the start of `code` ends: at its semicolon, or at the brace that closes its first one.
fn item_end(code: &str) -> usize {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            ';' if depth == 0 => return at + 1,
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// The files that `#[cfg(test)] mod name;` declares.
fn test_files(path: &str, code: &str) -> Vec<String> {
    let folder =
        path.strip_suffix("mod.rs").map_or_else(|| format!("{}/", path.trim_end_matches(".rs")), str::to_owned);
    let declared = code.match_indices(TEST).filter_map(|(at, _)| {
        let name = code[at + TEST.len()..].trim_start().strip_prefix("mod ")?;
        name.split_once(';').filter(|(name, _)| identifier(name).as_deref() == Some(*name)).map(|(name, _)| name)
    });
    declared.map(|name| format!("{folder}{name}.rs")).collect()
}
