//! The examples of the original product documents, with their names: aliases of the terminal tools,
//! shown names, skills, and the contract of a tool call.

use std::sync::Arc;

use picktools::catalog::{Conflicts, NoSchemaMode};
use picktools::names::{Advertising, NameTable, Resolution, ResolvedVia, tools_section};
use picktools::skills::{Skill, SkillReport, skills_section};
use picktools::{Catalog, CatalogOptions, PickOptions, Tool, pick_tools};
use picktools_call::HydratedCall;
use picktools_provider::{Arguments, Provider, ToolCall, TranslateOptions, Translation, translate};
use picktools_testing::fixture;
use serde_json::{Value, json};

use crate::support::{hydrator_of, ready};

fn terminal() -> Catalog {
    Catalog::open(fixture("catalogs/terminal")).expect("the fixture is valid")
}

fn without_aliases() -> Catalog {
    let tools = terminal()
        .tools()
        .expect("readable")
        .iter()
        .map(|tool| Tool {
            aliases: Vec::new(),
            ..tool.as_ref().clone()
        })
        .collect::<Vec<_>>();
    Catalog::from_tools(tools).expect("it is valid")
}

fn parse_catalog(entries: &Value, options: &CatalogOptions) -> Result<Catalog, String> {
    options
        .read(entries.to_string().as_bytes(), "here")
        .map_err(|error| error.to_string())
}

fn called(name: &str, arguments: &Value) -> ToolCall {
    ToolCall {
        id: Some("1".to_owned()),
        name: name.to_owned(),
        arguments: Arguments::Text(arguments.to_string()),
    }
}

fn translate_for(catalog: &Catalog, provider: Provider, advertising: Advertising) -> Translation {
    let options = TranslateOptions {
        advertising,
        ..TranslateOptions::default()
    };
    translate(catalog.tools().expect("readable"), provider, &options)
        .expect("the tools can be shown")
}

/// Returns the names and descriptions of OpenAI definitions.
fn functions(translation: &Translation) -> Vec<(&str, &str)> {
    let tools = translation
        .tools
        .as_array()
        .expect("tools are a list")
        .iter();
    tools
        .map(|tool| {
            let function = &tool["function"];
            (
                function["name"].as_str().unwrap_or(""),
                function["description"].as_str().unwrap_or(""),
            )
        })
        .collect()
}

// Aliases

#[test]
fn registry_has_primary_names_and_aliases_resolve_to_them() {
    let catalog = terminal();
    assert!(catalog.find("terminal/terminalRun").is_some());
    assert!(
        catalog.find("bash").is_none(),
        "an alias is no entry of the registry"
    );
    let table = NameTable::new(&catalog).expect("readable");
    for (name, canonical) in [
        ("terminalRun", "terminalRun"),
        ("bash", "terminalRun"),
        ("shell", "terminalRun"),
        ("run", "terminalRun"),
        ("exec", "terminalRun"),
        ("cd", "terminalCd"),
        ("chdir", "terminalCd"),
        ("change_directory", "terminalCd"),
        ("read_file", "terminalReadFile"),
        ("readFile", "terminalReadFile"),
        ("cat", "terminalReadFile"),
        ("read", "terminalReadFile"),
    ] {
        let Resolution::Tool(found) = table.resolve(name, &catalog).expect("readable") else {
            panic!("{name} means a tool")
        };
        assert_eq!(
            catalog.tool(found.tool).expect("readable").name,
            canonical,
            "{name}"
        );
    }
}

#[test]
fn duplicate_alias_is_refused_or_reported() {
    let entries = json!([
        {"name": "tool1", "aliases": ["bash"], "parameters": {}},
        {"name": "tool2", "aliases": ["bash"], "parameters": {}},
    ]);
    let error = parse_catalog(&entries, &CatalogOptions::default()).expect_err("strict refuses");
    assert!(error.contains("Duplicate tool alias 'bash'"), "{error}");
    let warn = CatalogOptions {
        conflicts: Conflicts::Warn,
        ..CatalogOptions::default()
    };
    let catalog = parse_catalog(&entries, &warn).expect("warn goes on");
    assert!(
        catalog.notices()[0]
            .to_string()
            .contains("Duplicate tool alias 'bash'")
    );
    assert!(
        matches!(NameTable::new(&catalog).expect("readable").resolve("bash", &catalog).expect("readable"), Resolution::Tool(found) if found.tool.index() == 0)
    );
}

#[test]
fn call_of_an_alias_reaches_the_tool() {
    let hydrator = hydrator_of(terminal());
    let call = ready(hydrator.hydrate(&called("bash", &json!({"command": "ls -la"}))));
    assert_eq!(
        (call.tool().name.as_str(), call.resolved_via()),
        ("terminalRun", ResolvedVia::Alias)
    );
    let call = ready(hydrator.hydrate(&called("terminalRun", &json!({"command": "echo test"}))));
    assert_eq!(
        (call.tool().name.as_str(), call.resolved_via()),
        ("terminalRun", ResolvedVia::Name)
    );
}

#[test]
fn unknown_tool_fails_with_a_helpful_message() {
    let error = hydrator_of(terminal())
        .hydrate(&called("terminalRnu", &json!({})))
        .expect_err("nobody has the name");
    assert!(
        error
            .to_string()
            .starts_with("Unknown tool: terminalRnu; did you mean terminalRun"),
        "{error}"
    );
}

#[test]
fn old_tool_name_remains_a_deprecated_alias() {
    let entries = json!([{"name": "execute_command", "aliases": [{"name": "terminalRun", "deprecated": true}],
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}]);
    let catalog = parse_catalog(&entries, &CatalogOptions::default()).expect("it is valid");
    let translation = translate_for(&catalog, Provider::OpenAiChat, Advertising::PrimaryAlias);
    assert_eq!(
        functions(&translation)[0].0,
        "execute_command",
        "what is deprecated is not shown"
    );
    let call =
        ready(hydrator_of(catalog).hydrate(&called("terminalRun", &json!({"command": "ls"}))));
    assert!(call.deprecated() && call.tool().name == "execute_command");
}

// Shown definitions

#[test]
fn default_advertising_shows_primary_names_only() {
    let translation = translate_for(&terminal(), Provider::OpenAiChat, Advertising::Canonical);
    let names: Vec<&str> = functions(&translation)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        names,
        [
            "terminalRun",
            "terminalCd",
            "terminalReadFile",
            "terminalWriteFile"
        ]
    );
    assert!(
        !translation.tools.to_string().contains("bash"),
        "aliases are not sent"
    );
}

#[test]
fn primary_alias_can_be_shown_and_resolves_back() {
    let catalog = terminal();
    for provider in Provider::ALL {
        let translation = translate_for(&catalog, provider, Advertising::PrimaryAlias);
        let names: Vec<(&str, &str)> = translation
            .names
            .iter()
            .map(|(name, id)| (name.as_str(), id.as_str()))
            .collect();
        let expected = [
            ("bash", "terminal/terminalRun"),
            ("cd", "terminal/terminalCd"),
            ("read_file", "terminal/terminalReadFile"),
            ("write_file", "terminal/terminalWriteFile"),
        ];
        assert_eq!(names, expected, "{provider}");
        let hydrator = hydrator_of(catalog.clone()).translated(&translation);
        let call = ready(hydrator.hydrate(&called("bash", &json!({"command": "ls"}))));
        assert_eq!(
            (call.tool().name.as_str(), call.resolved_via()),
            ("terminalRun", ResolvedVia::Advertised)
        );
    }
}

#[test]
fn expanded_advertising_defines_every_alias() {
    let catalog = terminal();
    let expanded = translate_for(&catalog, Provider::OpenAiChat, Advertising::Expanded);
    let functions = functions(&expanded);
    assert_eq!(
        functions.len(),
        4 + catalog
            .tools()
            .expect("readable")
            .iter()
            .map(|tool| tool.aliases.len())
            .sum::<usize>()
    );
    let bash = functions
        .iter()
        .find(|(name, _)| *name == "bash")
        .expect("it is shown");
    assert!(
        bash.1.contains("terminalRun") && bash.1.contains("Run a command"),
        "{}",
        bash.1
    );
    assert_eq!(expanded.names["bash"], expanded.names["terminalRun"]);
    for tokenizer in [
        picktools_provider::Tokenizer::O200k,
        picktools_provider::Tokenizer::Cl100k,
    ] {
        let canonical =
            translate_for(&catalog, Provider::OpenAiChat, Advertising::Canonical).tokens(tokenizer);
        assert!(expanded.tokens(tokenizer) > 3 * canonical, "{canonical}");
    }
}

#[test]
fn descriptions_can_list_the_aliases() {
    let described = translate_for(&terminal(), Provider::OpenAiChat, Advertising::Described);
    let (name, description) = functions(&described)[0];
    assert_eq!(name, "terminalRun");
    assert!(
        description.contains("Also known as: bash, shell, run, exec"),
        "{description}"
    );
}

#[test]
fn name_map_sets_the_names_for_one_provider() {
    let catalog = terminal();
    let map = [
        ("terminalRun", "execute_command"),
        ("terminalReadFile", "read_file"),
        ("terminalCd", "cd"),
    ];
    let map = map
        .map(|(tool, name)| (tool.to_owned(), name.to_owned()))
        .into();
    let translation = translate_for(
        &catalog,
        Provider::OpenAiChat,
        Advertising::ProviderMap(map),
    );
    let names: Vec<&str> = functions(&translation)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        names,
        ["execute_command", "cd", "read_file", "terminalWriteFile"]
    );
    let hydrator = hydrator_of(catalog).translated(&translation);
    let call = ready(hydrator.hydrate(&called("execute_command", &json!({"command": "ls"}))));
    assert_eq!(call.names().canonical, "terminalRun");
    assert_eq!(call.names().advertised.as_deref(), Some("execute_command"));
}

#[test]
fn prompt_section_lists_tools_aliases_and_skills() {
    let section = tools_section(terminal().tools().expect("readable"));
    assert!(
        section.contains("- terminalRun (aliases: bash, shell, run, exec): Run a command\n"),
        "{section}"
    );
    assert!(
        section.contains("- terminalCd (aliases: cd, chdir, change_directory): Change directory\n"),
        "{section}"
    );
    let section = skills_section([&deploy_staging()]);
    assert!(section.contains("- deploy-staging: "), "{section}");
}

// Skills

fn deploy_staging() -> Skill {
    let path = fixture("skills-terminal/deploy-staging/SKILL.md");
    let text = std::fs::read_to_string(&path).expect("the fixture is there");
    picktools_skills::parse(&text, "deploy-staging/SKILL.md")
        .expect("it is valid")
        .skill
}

fn compatibility(catalog: &Catalog) -> SkillReport {
    deploy_staging()
        .compatibility(catalog, &NameTable::new(catalog).expect("readable"))
        .expect("readable")
}

#[test]
fn skill_tool_names_resolve_to_terminal_tools() {
    let names: Vec<String> = deploy_staging()
        .allowed_tools
        .into_iter()
        .map(|tool| tool.name)
        .collect();
    assert_eq!(names, ["bash", "read_file", "write_file"]);
    assert!(compatibility(&terminal()).is_compatible());
    let report = compatibility(&without_aliases());
    assert!(!report.is_compatible());
    for missing in ["\"bash\"", "\"read_file\"", "\"write_file\""] {
        assert!(report.to_string().contains(missing), "{report}");
    }
}

// The contract

fn temperature() -> Tool {
    let mut tool =
        Tool::without_arguments("get_temperature", "Get the current temperature for a city");
    tool.parameters = Some(json!({"type": "object", "required": ["city"],
        "properties": {"city": {"type": "string", "description": "The name of the city"}}}));
    tool
}

#[test]
fn definition_is_translated_for_each_provider() {
    let catalog = Catalog::from_tools([temperature()]).expect("it is valid");
    let tool =
        |provider| translate_for(&catalog, provider, Advertising::Canonical).tools[0].clone();
    let parameters = temperature().parameters.expect("it has a schema");
    let (name, description) = (
        json!("get_temperature"),
        json!("Get the current temperature for a city"),
    );
    let openai = tool(Provider::OpenAiChat);
    assert_eq!(openai["type"], "function");
    assert_eq!(
        (
            &openai["function"]["name"],
            &openai["function"]["description"]
        ),
        (&name, &description)
    );
    assert_eq!(
        openai["function"]["parameters"], parameters,
        "the canonical properties pass unchanged"
    );
    let responses = tool(Provider::OpenAiResponses);
    assert_eq!(
        (&responses["type"], &responses["name"]),
        (&json!("function"), &name)
    );
    let anthropic = tool(Provider::Anthropic);
    assert_eq!(
        (&anthropic["name"], &anthropic["input_schema"]),
        (&name, &parameters)
    );
    let ollama = tool(Provider::Ollama);
    assert_eq!(
        (&ollama["type"], &ollama["function"]["parameters"]["type"]),
        (&json!("function"), &json!("object"))
    );
    assert_eq!(
        ollama["function"]["parameters"]["properties"],
        parameters["properties"]
    );
    assert_eq!(
        catalog.tools().expect("readable")[0].parameters.as_ref(),
        Some(&parameters),
        "the canonical schema is as it was"
    );
}

#[test]
fn complex_schemas_survive_verbatim() {
    let schema = json!({"type": "object", "$defs": {"place": {"type": "object", "required": ["city"],
        "properties": {"city": {"type": "string"}}}}, "required": ["at"],
        "properties": {"at": {"$ref": "#/$defs/place"}, "units": {"type": "array", "items": {"enum": ["C", "F"]}}}});
    let tool = Tool {
        parameters: Some(schema.clone()),
        ..temperature()
    };
    let catalog = Catalog::from_tools([tool]).expect("it is valid");
    for provider in Provider::ALL {
        translate_for(&catalog, provider, Advertising::Canonical);
    }
    assert_eq!(
        catalog.tools().expect("readable")[0].parameters,
        Some(schema)
    );
    let hydrator = hydrator_of(catalog);
    ready(hydrator.hydrate(&called(
        "get_temperature",
        &json!({"at": {"city": "Bern"}, "units": ["C"]}),
    )));
    hydrator
        .hydrate(&called(
            "get_temperature",
            &json!({"at": {}, "units": ["K"]}),
        ))
        .expect_err("neither fits");
}

#[test]
fn strict_is_set_only_for_providers_that_support_it() {
    let tool = Tool {
        strict: Some(true),
        ..temperature()
    };
    let catalog = Catalog::from_tools([tool]).expect("it is valid");
    let strict = |provider| {
        translate_for(&catalog, provider, Advertising::Canonical).tools[0]
            .to_string()
            .contains("\"strict\":true")
    };
    assert!(
        strict(Provider::OpenAiChat)
            && strict(Provider::OpenAiResponses)
            && strict(Provider::Anthropic)
    );
    assert!(!strict(Provider::Ollama) && !strict(Provider::Gemini) && !strict(Provider::Mcp));
}

#[test]
fn tool_without_schema_needs_an_opt_in_and_is_flagged() {
    let legacy = |more: Value| {
        let mut entry = json!({"name": "legacy", "description": "Calls the old system"});
        entry
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        parse_catalog(&json!([entry]), &CatalogOptions::default())
    };
    let error = legacy(json!({})).expect_err("registration fails");
    assert!(
        error.contains("give the JSON Schema of the arguments"),
        "{error}"
    );
    for (written, mode) in [
        ("read-only", NoSchemaMode::ReadOnly),
        ("human-approval", NoSchemaMode::HumanApproval),
        ("full", NoSchemaMode::Full),
    ] {
        let catalog = legacy(json!({"allowNoSchema": true, "noSchemaMode": written}))
            .expect("it is opted in");
        match hydrator_of(catalog)
            .hydrate(&called("legacy", &json!({"any": 1})))
            .expect("it may be called")
        {
            HydratedCall::Ready(call) => {
                assert!(
                    !call.validated()
                        && call.no_schema_mode() == Some(mode)
                        && mode == NoSchemaMode::Full
                );
            }
            // A tool is not read-only unless its annotations say so.
            HydratedCall::NeedsApproval(call) => {
                assert!(mode != NoSchemaMode::Full && call.arguments()["any"] == 1);
            }
        }
    }
}

#[tokio::test]
async fn picked_tools_are_shown_to_the_model() {
    let mut tools: Vec<Tool> = terminal()
        .tools()
        .expect("readable")
        .iter()
        .map(|tool| tool.as_ref().clone())
        .collect();
    tools.push(temperature());
    let selection = pick_tools(
        "how warm is it in the city of Lugano?",
        tools,
        PickOptions::default(),
    )
    .await
    .expect("it picks");
    let picked: Vec<Arc<Tool>> = selection
        .picks
        .iter()
        .map(|pick| Arc::clone(&pick.tool))
        .collect();
    assert_eq!(picked[0].name, "get_temperature");
    let translation = translate(&picked, Provider::Ollama, &TranslateOptions::default())
        .expect("they can be shown");
    let catalog = Catalog::from_tools(picked.iter().map(|tool| tool.as_ref().clone()))
        .expect("they are valid");
    let hydrator = hydrator_of(catalog).translated(&translation);
    ready(hydrator.hydrate(&called("get_temperature", &json!({"city": "Lugano"}))));
}
