//! No import cycles: the files of a crate can be read in an order in which each file uses only
//! earlier ones. A name counts for the file that defines it, so a module that only passes names on
//! (`pub use`) connects nothing. Test code does not count, and methods are not followed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::thread;

use syn::visit::{self, Visit};
use syn::{Attribute, Ident, ImplItem, Item, ItemMod, ItemUse, Macro, UseTree, Visibility};

use crate::support::root;

/// The fewest modules that the check must read, so that it cannot pass without reading any.
const MIN_MODULES: usize = 300;

#[test]
fn files_of_a_crate_import_each_other_in_no_cycle() {
    let folders = crate_folders();
    let mut modules = 0;
    let mut wrong = Vec::new();
    for (name, read) in read_crates(&folders) {
        modules += read.0.len();
        for cycle in read.cycles() {
            let imports = cycle.imports.join("\n");
            wrong.push(format!("crate \"{name}\": imports in a cycle:\n{imports}"));
        }
    }
    assert!(modules > MIN_MODULES, "{modules} modules");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn cycle_through_passed_on_names_is_found() {
    let straight = [
        ("", "mod a; mod b; mod c; pub use a::A;"),
        (
            "a",
            "mod inner; pub use inner::A; use super::b::B; use super::c;",
        ),
        ("a::inner", "pub struct A; pub fn same() -> crate::c::C {}"),
        ("b", "use crate::A; pub struct B;"),
        ("c", "pub struct C; pub use crate::a;"),
    ];
    assert_eq!(Crate::parse(&straight).cycles(), []);
    let circular = [
        ("", "mod a; mod b; pub use a::A;"),
        ("a", "mod inner; pub use inner::A;"),
        (
            "a::inner",
            "pub struct A; fn f() { super::super::b::go(); }",
        ),
        ("b", "use crate::A as Other; pub fn go() {}"),
    ];
    let cycles = Crate::parse(&circular).cycles();
    assert_eq!(cycles[0].imports, ["a::inner -> b: go", "b -> a::inner: A"]);
}

#[test]
fn cycle_in_each_kind_of_code_is_found() {
    for code in [
        "use crate::b::B;",
        "use crate::{b::{B, C}};",
        "use super::*; fn f() -> b::B {}",
        "fn f() { use crate::b; b::go() }",
        "fn f() { super::b::go(); }",
        "fn f() { assert!(crate::b::go(), \"{}\", 1); }",
        "macro_rules! m { () => { crate::b::go() } }",
        "mod inline { use super::super::b::B; }",
        "mod inline { pub use crate::b; } fn f() { inline::b::go(); }",
        "mod go { pub use crate::b::go; } pub use go::go; fn f() { self::go(); }",
        "impl crate::b::Trait for A {}",
        "#[cfg(not(test))] use crate::b::B;",
        "#[cfg(any(test, unix))] use crate::b::B;",
    ] {
        assert_eq!(cycles_with(code).len(), 1, "{code}");
    }
}

#[test]
fn test_code_and_other_crates_make_no_cycle() {
    for code in [
        "#[cfg(test)] mod tests { use crate::b::B; }",
        "#[cfg(all(test, unix))] use crate::b::B;",
        "#[cfg(test)] impl A { fn f() { crate::b::go() } }",
        "impl A { #[cfg(test)] fn f() { crate::b::go() } }",
        "fn f() { #[cfg(test)] use crate::b::B; }",
        "#[test] fn f() { crate::b::go() }",
        "use b::B; use ::other::b::C;",
        "use b::c::b; fn f() { b::go() }",
        "fn f() { let b = \"crate::b::go\"; }",
        "/// See [`crate::b::go`].\nfn f() {}",
    ] {
        assert_eq!(cycles_with(code), [], "{code}");
    }
}

/// Returns the cycles of a crate whose module `b` uses `a`, which contains some code.
fn cycles_with(code: &str) -> Vec<Cycle> {
    let a = format!("pub struct A; {code}");
    let b = "use crate::a::A; pub struct B; pub struct C; pub trait Trait {} pub fn go() {}";
    Crate::parse(&[("", "mod a; mod b;"), ("a", &a), ("b", b)]).cycles()
}

/// Reads crates at the same time, and returns them with their paths in the workspace.
fn read_crates(folders: &[PathBuf]) -> Vec<(String, Crate)> {
    thread::scope(|scope| {
        let mut readers = Vec::new();
        for folder in folders {
            let name = folder.strip_prefix(root("")).expect("it lies below");
            let name = name.to_string_lossy().replace('\\', "/");
            readers.push((name, scope.spawn(|| Crate::read(folder))));
        }
        let mut crates = Vec::new();
        for (name, reader) in readers {
            crates.push((name, reader.join().expect("the crate can be read")));
        }
        crates
    })
}

/// Returns the folder of each library and program.
fn crate_folders() -> Vec<PathBuf> {
    let mut folders = vec![root("")];
    for group in ["crates", "bindings"] {
        for entry in fs::read_dir(root(group)).expect("it can be read") {
            folders.push(entry.expect("it can be read").path());
        }
    }
    folders.retain(|folder| root_file(folder).is_some() && !folder.ends_with("testing"));
    folders.sort();
    folders
}

/// Returns the file with the root module of a crate.
fn root_file(folder: &Path) -> Option<PathBuf> {
    let files = ["lib.rs", "main.rs"].map(|file| folder.join("src").join(file));
    files.into_iter().find(|file| file.is_file())
}

/// The names on the way to a module or an item.
type Names = Vec<String>;

/// A module, in a file of its own or inside a file.
#[derive(Default)]
struct Module {
    /// The path of the module that is the file.
    file: Names,
    /// The modules that it declares.
    children: BTreeSet<String>,
    /// The children that are in files of their own.
    files: BTreeSet<String>,
    /// The names that it defines.
    defined: BTreeSet<String>,
    /// The imports in it.
    imports: Vec<Import>,
    /// The paths that its code uses.
    used: BTreeSet<Names>,
}

impl Module {
    /// Returns `true` if a path in this module leads to a module of the crate without imports.
    fn can_begin(&self, path: &[String]) -> bool {
        path.first().is_some_and(|first| {
            ["crate", "super", "self"].contains(&first.as_str()) || self.children.contains(first)
        })
    }
}

/// A path with the name that it gets in the importing module.
struct Import {
    /// The name, or `*` for all names of a module.
    name: String,
    path: Names,
}

/// A reader of the modules of a file.
#[derive(Default)]
struct FileReader {
    /// The path of the module that is being read.
    path: Names,
    module: Module,
    /// The modules inside the file that have been read.
    inner: Vec<(Names, Module)>,
}

impl FileReader {
    /// Reads the modules of a file, its own module last.
    fn read(text: &str, path: &[String]) -> Vec<(Names, Module)> {
        let file = syn::parse_file(text).expect("the code can be parsed");
        let mut reader = Self {
            path: path.to_vec(),
            ..Self::default()
        };
        reader.module.file = path.to_vec();
        reader.read_items(&file.items);
        reader.inner.push((reader.path, reader.module));
        reader.inner
    }

    fn read_items(&mut self, items: &[Item]) {
        for item in items {
            if !is_test(item_attributes(item)) {
                self.define(item);
                self.visit_item(item);
            }
        }
    }

    fn define(&mut self, item: &Item) {
        let name = match item {
            Item::Const(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Static(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Union(item) => &item.ident,
            Item::Mod(item) => {
                self.module.children.insert(item.ident.to_string());
                if item.content.is_none() {
                    self.module.files.insert(item.ident.to_string());
                }
                return;
            }
            _ => return,
        };
        self.module.defined.insert(name.to_string());
    }

    /// Adds the imports of a `use` item. An import that others see passes a name on; only the
    /// code that uses the name counts then.
    fn import(&mut self, tree: &UseTree, mut path: Names, is_passed_on: bool) {
        let (name, last) = match tree {
            UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                return self.import(&tree.tree, path, is_passed_on);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, path.clone(), is_passed_on);
                }
                return;
            }
            UseTree::Glob(_) => {
                let name = "*".to_owned();
                return self.module.imports.push(Import { name, path });
            }
            UseTree::Name(tree) => (&tree.ident, &tree.ident),
            UseTree::Rename(tree) => (&tree.rename, &tree.ident),
        };
        let mut name = name.to_string();
        if last != "self" {
            path.push(last.to_string());
        } else if name == "self" {
            name = path.last().cloned().unwrap_or_default();
        }
        if !is_passed_on {
            self.module.used.insert(path.clone());
        }
        self.module.imports.push(Import { name, path });
    }

    fn use_path<'a>(&mut self, names: impl Iterator<Item = &'a Ident>) {
        let names: Names = names.map(Ident::to_string).collect();
        self.module.used.insert(names);
    }
}

impl<'ast> Visit<'ast> for FileReader {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(item_attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        match item {
            ImplItem::Fn(function) if is_test(&function.attrs) => {}
            _ => visit::visit_impl_item(self, item),
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let Some((_, items)) = &item.content else {
            return;
        };
        let inner = Module {
            file: self.module.file.clone(),
            ..Module::default()
        };
        let outer = mem::replace(&mut self.module, inner);
        self.path.push(item.ident.to_string());
        self.read_items(items);
        let inner = mem::replace(&mut self.module, outer);
        self.inner.push((self.path.clone(), inner));
        self.path.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_passed_on = !matches!(item.vis, Visibility::Inherited);
        if item.leading_colon.is_none() {
            self.import(&item.tree, Vec::new(), is_passed_on);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.use_path(path.segments.iter().map(|segment| &segment.ident));
        visit::visit_path(self, path);
    }

    /// Reads the paths in the tokens of a macro, which have no structure.
    fn visit_macro(&mut self, code: &'ast Macro) {
        let text = code.tokens.to_string().replace(" :: ", "::");
        for (index, part) in text.split('"').enumerate() {
            let is_string = index % 2 == 1;
            for path in part.split(|c: char| !c.is_alphanumeric() && !"_:".contains(c)) {
                if path.contains("::") && !is_string {
                    let names = path.split("::").map(str::to_owned);
                    self.module.used.insert(names.collect());
                }
            }
        }
    }
}

fn item_attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns `true` for code that is compiled for tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let condition = match attribute.meta.require_list() {
            Ok(list) if list.path.is_ident("cfg") => list.tokens.to_string(),
            _ => return attribute.path().is_ident("test"),
        };
        condition == "test" || condition.starts_with("all (test")
    })
}

/// The definition of an item.
struct Definition {
    /// The path of the module that contains it.
    module: Names,
    name: String,
}

/// The modules of a crate by their paths from its root.
struct Crate(BTreeMap<Names, Module>);

impl Crate {
    fn read(folder: &Path) -> Self {
        let file = root_file(folder).expect("a crate");
        let mut modules = BTreeMap::new();
        read_file(&file, &folder.join("src"), &[], &mut modules);
        Self(modules)
    }

    /// Reads modules from their paths and texts.
    fn parse(texts: &[(&str, &str)]) -> Self {
        let mut modules = BTreeMap::new();
        for (path, text) in texts {
            let names = path.split("::").filter(|name| !name.is_empty());
            let path: Names = names.map(str::to_owned).collect();
            modules.extend(FileReader::read(text, &path));
        }
        Self(modules)
    }

    /// Returns the item that a path in a module names; `None` for a module, or an item of another
    /// crate. `visited` contains the paths that were looked up on
    /// the way, because imports of all names can lead back.
    fn definition(
        &self,
        from: &[String],
        path: &[String],
        visited: &mut BTreeSet<(Names, Names)>,
    ) -> Option<Definition> {
        let (first, rest) = path.split_first()?;
        let module = self.0.get(from)?;
        match first.as_str() {
            "crate" => return self.definition(&[], rest, visited),
            "super" => return self.definition(from.split_last()?.1, rest, visited),
            "self" => return self.definition(from, rest, visited),
            // A function can have the name of a module: a path that ends here means the function.
            _ if module.children.contains(first) && !rest.is_empty() => {
                return self.definition(&below(from, first), rest, visited);
            }
            _ if module.defined.contains(first) => {
                return Some(Definition {
                    module: from.to_vec(),
                    name: first.clone(),
                });
            }
            _ => {}
        }
        if !visited.insert((from.to_vec(), path.to_vec())) {
            return None;
        }
        for import in &module.imports {
            let path = match import.name.as_str() {
                "*" if module.can_begin(&import.path) => [&import.path, path].concat(),
                // A path that begins with the imported name leads to another crate.
                name if name == first
                    && (import.path.first() != Some(first) || module.children.contains(first)) =>
                {
                    [&import.path, rest].concat()
                }
                _ => continue,
            };
            let definition = self.definition(from, &path, visited);
            if definition.is_some() {
                return definition;
            }
        }
        None
    }

    /// Returns the names that each file uses from each other file.
    fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (path, module) in &self.0 {
            let targets = arrows.entry(module.file.clone()).or_default();
            for used in &module.used {
                let Some(definition) = self.definition(path, used, &mut BTreeSet::new()) else {
                    continue;
                };
                let target = &self.0[&definition.module].file;
                if *target != module.file {
                    targets
                        .entry(target.clone())
                        .or_default()
                        .insert(definition.name);
                }
            }
        }
        arrows
    }

    /// Returns each largest group of files that use each other.
    fn cycles(&self) -> Vec<Cycle> {
        let arrows = self.arrows();
        let reached: BTreeMap<&Names, BTreeSet<&Names>> = arrows
            .keys()
            .map(|start| (start, reachable(&arrows, start)))
            .collect();
        let mut cycles = Vec::new();
        let mut seen: BTreeSet<&Names> = BTreeSet::new();
        for (start, targets) in &reached {
            if !targets.contains(start) || seen.contains(start) {
                continue;
            }
            let mut files = targets.clone();
            files.retain(|file| reached[file].contains(start));
            cycles.push(Cycle::new(&files, &arrows));
            seen.extend(files);
        }
        cycles
    }
}

/// A group of files that use each other.
#[derive(Debug, PartialEq)]
struct Cycle {
    /// The imports among them, as lines.
    imports: Vec<String>,
}

impl Cycle {
    fn new(files: &BTreeSet<&Names>, arrows: &Arrows) -> Self {
        let mut imports = Vec::new();
        for from in files {
            for (to, names) in &arrows[*from] {
                if files.contains(to) {
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    let (from, to) = (module_name(from), module_name(to));
                    imports.push(format!("{from} -> {to}: {}", names.join(", ")));
                }
            }
        }
        Self { imports }
    }
}

/// Returns the name of a module in messages.
fn module_name(path: &[String]) -> String {
    match path {
        [] => "crate".to_owned(),
        _ => path.join("::"),
    }
}

/// The names that each file uses from each other file.
type Arrows = BTreeMap<Names, BTreeMap<Names, BTreeSet<String>>>;

/// Returns the files that a file uses, directly or through others.
fn reachable<'a>(arrows: &'a Arrows, start: &Names) -> BTreeSet<&'a Names> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&Names> = arrows[start].keys().collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(arrows[next].keys());
        }
    }
    reached
}

/// Reads the modules of a file. Those that it declares are in a folder.
fn read_file(file: &Path, folder: &Path, path: &[String], modules: &mut BTreeMap<Names, Module>) {
    let text = fs::read_to_string(file).expect("it can be read");
    for (path, module) in FileReader::read(&text, path) {
        for child in &module.files {
            let inner_folder = folder.join(child);
            let files = [
                inner_folder.with_extension("rs"),
                inner_folder.join("mod.rs"),
            ];
            let inner_file = files.iter().find(|file| file.is_file());
            let inner_file = inner_file.unwrap_or_else(|| panic!("{}", inner_folder.display()));
            read_file(inner_file, &inner_folder, &below(&path, child), modules);
        }
        modules.insert(path, module);
    }
}

/// Returns the path of a name in a module.
fn below(module: &[String], name: &str) -> Names {
    [module, &[name.to_owned()]].concat()
}
