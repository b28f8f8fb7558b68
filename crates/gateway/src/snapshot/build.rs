//! Building the catalog, the names and the engine of a snapshot. Tools that cannot be used cost only
//! their own server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picktools::catalog::CatalogFile;
use picktools::engine::IndexError;
use picktools::names::Advertising;
use picktools::saved::SavedError;
use picktools::{Catalog, CatalogOptions, Engine, Tool};
use picktools_provider::{Provider, TranslateOptions, Translation, translate};
use serde_json::Value;

use super::catalog::{CatalogParts, Notice, ShownNames};
use super::definition::{AdvertisedDefinition, AdvertisedDefinitions, reuse};
use crate::settings::Settings;

/// The parts of a snapshot that do not come from servers.
pub(super) struct SnapshotParts<'a> {
    pub(super) settings: &'a Settings,
    pub(super) options: &'a CatalogOptions,
    /// The operator's own catalog.
    pub(super) own_catalog: Option<&'a Catalog>,
    /// The engine and the definitions of the previous snapshot, which are reused.
    pub(super) previous: Option<(&'a Engine, &'a AdvertisedDefinitions)>,
}

/// The tools of a snapshot, with their names.
pub(super) struct BuiltTools {
    pub(super) engine: Engine,
    pub(super) names: BTreeMap<String, String>,
    pub(super) renamed: BTreeSet<String>,
    pub(super) hidden: BTreeSet<String>,
    pub(super) translation: Translation,
    pub(super) definitions: AdvertisedDefinitions,
    pub(super) notices: Vec<Notice>,
    /// The servers whose tools could not be used, with the reason.
    pub(super) failed: BTreeMap<String, String>,
}

impl SnapshotParts<'_> {
    /// Builds from the files of servers. If that fails, the servers that cause it are left out.
    pub(super) fn build_each(&self, files: &[CatalogFile]) -> Result<BuiltTools, String> {
        self.isolate(files, &|files| self.build(files))
    }

    fn isolate(
        &self,
        files: &[CatalogFile],
        build: &dyn Fn(&[CatalogFile]) -> Result<BuiltTools, String>,
    ) -> Result<BuiltTools, String> {
        if let Ok(built) = build(files) {
            return Ok(built);
        }
        // Without servers, a failure is that of the operator's own catalog or settings.
        let mut built = build(&[])?;
        let mut used: Vec<CatalogFile> = Vec::with_capacity(files.len());
        let mut failed = BTreeMap::new();
        for file in files {
            used.push(file.clone());
            match build(&used) {
                Ok(with_file) => built = with_file,
                Err(reason) => {
                    used.pop();
                    let server = file.source().unwrap_or(file.origin()).to_owned();
                    failed.insert(server, reason);
                }
            }
        }
        for (server, reason) in &failed {
            built.notices.push(Notice::new(format!(
                "left out the tools of the server {server:?}, because they cannot be used: {reason}"
            )));
        }
        built.failed = failed;
        Ok(built)
    }

    /// Builds from files.
    fn build(&self, files: &[CatalogFile]) -> Result<BuiltTools, String> {
        let parts = CatalogParts {
            settings: self.settings,
            options: self.options,
            own_catalog: self.own_catalog,
            files,
        };
        let (mut catalog, mut notices) = parts.build().map_err(|error| error.to_string())?;
        let unreadable = |error: SavedError| error.to_string();
        let shown_names = ShownNames::new(self.settings, catalog.tools().map_err(unreadable)?);
        notices.extend(shown_names.notices);
        let (names, renamed) = (shown_names.names, shown_names.renamed);
        if names.len() < catalog.len() {
            let is_named = |tool: &Tool| names.contains_key(&tool.id);
            catalog = catalog.filtered(is_named).map_err(unreadable)?;
        }
        let tools = catalog.tools().map_err(unreadable)?;
        let hidden = self.settings.hidden_tools(tools);
        let translate_options = TranslateOptions {
            advertising: Advertising::ProviderMap(names.clone()),
            ..TranslateOptions::default()
        };
        let mut translation = translate(tools, Provider::Mcp, &translate_options)
            .map_err(|error| error.to_string())?;
        let Value::Array(shown_definitions) = translation.tools.take() else {
            return Err("the translation contains no list of tools".to_owned());
        };
        let mut definitions = definitions_by_id(shown_definitions, &translation);
        if let Some((_, previous_definitions)) = self.previous {
            reuse(&mut definitions, previous_definitions);
        }
        Ok(BuiltTools {
            engine: self.engine(catalog).map_err(|error| error.to_string())?,
            names,
            renamed,
            hidden,
            translation,
            definitions,
            notices,
            failed: BTreeMap::new(),
        })
    }

    /// Indexes a catalog. The index of the previous snapshot is reused if the settings name the
    /// same examples as then.
    fn engine(&self, catalog: Catalog) -> Result<Engine, IndexError> {
        if let Some((previous_engine, _)) = self.previous {
            let stats = previous_engine.example_stats();
            let had_pack = stats.is_some_and(|stats| stats.pack_tools.is_some());
            if had_pack == self.settings.examples.is_some() {
                return previous_engine.with_catalog(catalog);
            }
        }
        let mut builder =
            Engine::builder(catalog).token_counter(Arc::new(picktools_provider::Definitions));
        if let Some(examples) = self.settings.examples {
            builder = builder.examples(examples.load());
        }
        builder.build()
    }
}

/// Returns translated definitions by the ids of their tools.
fn definitions_by_id(
    shown_definitions: Vec<Value>,
    translation: &Translation,
) -> AdvertisedDefinitions {
    let mut definitions = AdvertisedDefinitions::with_capacity(shown_definitions.len());
    for definition in shown_definitions {
        let Some(Value::String(name)) = definition.get("name") else {
            continue;
        };
        if let Some(id) = translation.names.get(name) {
            definitions.insert(id.clone(), Arc::new(AdvertisedDefinition::new(&definition)));
        }
    }
    definitions
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Returns the file of a server with tools of these names.
    fn file(server: &str, names: &[String]) -> CatalogFile {
        let tool = |name: &String| json!({"name": name, "inputSchema": {"type": "object"}});
        let tools: Vec<Value> = names.iter().map(tool).collect();
        CatalogFile::from_server(server, &tools)
    }

    fn build(settings: &Settings, files: &[CatalogFile]) -> BuiltTools {
        let options = CatalogOptions {
            conflicts: picktools::catalog::Conflicts::Warn,
            untrusted_sources: ["evil".to_owned()].into(),
            ..CatalogOptions::default()
        };
        let parts = SnapshotParts {
            settings,
            options: &options,
            own_catalog: None,
            previous: None,
        };
        parts.build_each(files).expect("it is built")
    }

    #[test]
    fn server_that_breaks_the_build_costs_only_itself() {
        let settings = Settings::default();
        let options = CatalogOptions::default();
        let parts = SnapshotParts {
            settings: &settings,
            options: &options,
            own_catalog: None,
            previous: None,
        };
        let files = ["a", "evil", "b", "bad"].map(|server| file(server, &["go".to_owned()]));
        // A build that fails with `bad`, and with `a` and `evil` together.
        let fragile = |files: &[CatalogFile]| {
            let has = |name: &str| files.iter().any(|file| file.source() == Some(name));
            if has("bad") || has("a") && has("evil") {
                return Err("two tools clash".to_owned());
            }
            parts.build(files)
        };
        let built = parts
            .isolate(&files, &fragile)
            .expect("the others are used");
        let failed: Vec<&String> = built.failed.keys().collect();
        assert_eq!(failed, ["bad", "evil"]);
        assert_eq!(built.engine.catalog().len(), 2);
        let notices = built.notices.iter();
        let told = notices.filter(|notice| notice.text.contains("two tools clash"));
        assert_eq!(told.count(), 2);
        let broken = |_: &[CatalogFile]| Err("the settings are wrong".to_owned());
        assert!(parts.isolate(&files, &broken).is_err());
    }

    #[test]
    fn imitated_name_stays_with_the_imitated_tool() {
        // "my files" is shown as my_files__go_DIGITS.
        let digits = crate::naming::qualified_name("my files", "go");
        let digits = digits.rsplit('_').next().unwrap_or_default().to_owned();
        let imitation = format!("go_{digits}");
        let settings = Settings::default();
        let files = [
            file("my files", &["go".to_owned()]),
            file("my_files", std::slice::from_ref(&imitation)),
        ];
        let built = build(&settings, &files);
        assert_eq!(built.names["my files/go"], format!("my_files__{imitation}"));
        assert_ne!(
            built.names[&format!("my_files/{imitation}")],
            built.names["my files/go"]
        );
        assert!(built.failed.is_empty());
    }

    #[test]
    fn stored_text_of_a_definition_is_the_text_of_the_protocol() {
        let tool = json!({
            "annotations": {"openWorldHint": true, "title": "T", "readOnlyHint": false,
                "idempotentHint": true, "destructiveHint": false},
            "outputSchema": {"type": "object", "properties": {"b": {}, "a": {}}},
            "inputSchema": {"required": ["x"], "type": "object", "properties": {"x": {}}},
            "description": "", "title": "Go", "name": "go", "_meta": {"x": 1}
        });
        let tools = [
            tool,
            json!({"name": "plain", "inputSchema": {"type": "object"}}),
        ];
        let built = build(
            &Settings::default(),
            &[CatalogFile::from_server("a", &tools)],
        );
        assert_eq!(built.definitions.len(), 2);
        for definition in built.definitions.values() {
            let text = definition.text();
            let tool: rmcp::model::Tool = serde_json::from_str(text).expect("a tool");
            assert_eq!(serde_json::to_string(&tool).expect("text"), text);
        }
    }

    #[test]
    fn setting_adds_and_removes_the_examples_of_a_pack() {
        let with = Settings::parse(r#"{"examples": "popular"}"#).expect("valid");
        let without = Settings::default();
        let options = CatalogOptions::default();
        let files = [file("a", &["go".to_owned()])];
        let mut previous: Option<BuiltTools> = None;
        for settings in [&with, &with, &without, &with] {
            let parts = SnapshotParts {
                settings,
                options: &options,
                own_catalog: None,
                previous: previous
                    .as_ref()
                    .map(|built| (&built.engine, &built.definitions)),
            };
            let built = parts.build_each(&files).expect("it is built");
            let stats = built.engine.example_stats();
            let pack_tools = stats.and_then(|stats| stats.pack_tools);
            assert_eq!(pack_tools, settings.examples.map(|_| 0));
            previous = Some(built);
        }
        let error = Settings::parse(r#"{"examples": "populer"}"#).expect_err("unknown");
        assert!(error.to_string().contains("`popular`"), "{error}");
    }

    proptest! {
        #[test]
        fn shown_names_of_hostile_tools_are_unique(
            names in proptest::collection::vec("[a_. -]{0,3}|[a-z._]{0,60}", 0..12),
            others in proptest::collection::vec("[a_. -]{0,3}", 0..6),
        ) {
            let settings = Settings::default();
            // Names that end with the digits of other names.
            let mut all = names.clone();
            for name in &names {
                let shown = crate::naming::qualified_name("evil", name);
                all.extend(shown.strip_prefix("evil__").map(str::to_owned));
                for longer in crate::naming::longer_names(Some("evil"), name) {
                    all.extend(longer.strip_prefix("evil__").map(str::to_owned));
                }
            }
            let files = [file("evil", &all), file("a", &others), file("a_", &others)];
            let built = build(&settings, &files);
            prop_assert!(built.failed.is_empty(), "{:?}", built.failed);
            let distinct: BTreeSet<&String> = built.names.values().collect();
            prop_assert_eq!(distinct.len(), built.names.len());
            prop_assert_eq!(built.engine.catalog().len(), built.names.len());
            prop_assert!(built.names.values().all(|name| crate::naming::is_accepted(name)));
        }
    }
}
