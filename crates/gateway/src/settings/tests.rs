//! Tests of reading and checking settings.

use picktools_testing::PatternTable;
use serde_json::json;

use super::*;

#[test]
fn inherited_names_are_checked_and_own_names_replace_the_shared_ones() {
    let settings = Settings::parse(
        r#"{"upstreams": {"*": {"inherit": ["AWS_PROFILE"]}, "git": {"inherit": ["GH_TOKEN"]},
            "web": {"call_s": 9}}}"#,
    )
    .expect("valid settings");
    let inherited = |name: &str| {
        let mut server = Server {
            name: name.to_owned(),
            transport: ServerTransport::Stdio {
                command: "run".to_owned(),
                arguments: Vec::new(),
                variables: BTreeMap::new(),
                folder: None,
                inherit: vec!["OWN".to_owned()],
            },
            tools: Default::default(),
            call_timeout: None,
            scope: None,
        };
        settings.add_inherited(&mut server);
        match server.transport {
            ServerTransport::Stdio { inherit, .. } => inherit,
            ServerTransport::Http { .. } => Vec::new(),
        }
    };
    assert_eq!(inherited("git"), ["OWN", "GH_TOKEN"]);
    assert_eq!(inherited("web"), ["OWN", "AWS_PROFILE"]);
    for name in ["", "A=b", "${A}", "AWS_*"] {
        let text = json!({"upstreams": {"git": {"inherit": [name]}}}).to_string();
        let error = Settings::parse(&text).expect_err(name).to_string();
        assert!(error.contains("`inherit`"), "{name}: {error}");
    }
}

#[test]
fn duplicate_keys_are_refused_with_their_pointer() {
    for (text, pointer) in [
        (r#"{"trust": "approve", "trust": "first-use"}"#, "/trust"),
        (
            r#"{"keys": [{"name": "a", "sha256": "0"}], "keys": []}"#,
            "/keys",
        ),
        (
            r#"{"roles": {"default": {"deny": ["x/*"]}, "default": {}}} // the first denies"#,
            "/roles/default",
        ),
        (
            r#"{"roles": {"a/b": {"unsafe": "deny", /* or */ "unsafe": "allow",}},}"#,
            "/roles/a~1b/unsafe",
        ),
        (
            r#"{"roles": {"a": {"access": {"deny_sources": ["x"], "deny_sources": []}}}}"#,
            "/roles/a/access/deny_sources",
        ),
        (
            r#"{"upstreams": {"x": {}, "\u0078": {"trusted": true}}}"#,
            "/upstreams/x",
        ),
        (
            r#"{"keys": [{"name": "a", "sha256": "0", "role": "b", "role": "c"}]}"#,
            "/keys/0/role",
        ),
    ] {
        for text in [text.to_owned(), format!("\u{feff}{text}")] {
            let error = Settings::parse(&text).expect_err(&text).to_string();
            let expected = format!("duplicate key {pointer:?}; remove one of them");
            assert!(error.contains(&expected), "{text}: {error}");
        }
    }
}

#[test]
fn settings_are_read_strictly() {
    for text in [
        "{mode: 'search'}",
        "{\"mode\" \"search\"}",
        "{\"mode\": 'search'}",
        "\u{feff}\u{feff}{}",
        "{\u{feff}}",
        "{\"pass_through_tokens\": 0x10}",
        "{\"pass_through_tokens\": +10}",
    ] {
        assert!(Settings::parse(text).is_err(), "{text:?}");
    }
    let text = "\u{feff}// ours\n{\"mode\": \"search\",}";
    let settings = Settings::parse(text).expect("comments, a mark and a last comma are allowed");
    assert_eq!(settings.mode, Mode::Search);
}

#[test]
fn ambiguous_or_empty_keys_are_refused() {
    let digest = "0A".repeat(32);
    let key = |name: &str, sha256: &str, role: &str| json!({"name": name, "sha256": sha256, "role": role});
    let parse = |keys: &[serde_json::Value]| {
        let roles = json!({"a": {}, "b": {"operator": true}});
        Settings::parse(&json!({"roles": roles, "keys": keys}).to_string())
    };
    let message = |keys: &[serde_json::Value]| parse(keys).expect_err("refused").to_string();
    for other in [
        digest.clone(),
        digest.to_lowercase(),
        format!("sha256:{digest}"),
    ] {
        let error = message(&[key("x", &digest, "a"), key("y", &other, "b")]);
        assert!(
            error.contains("/keys/1/sha256") && error.contains("remove one"),
            "{error}"
        );
    }
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    for empty in [
        empty.to_owned(),
        empty.to_uppercase(),
        format!("sha256:{empty}"),
    ] {
        let error = message(&[key("x", &empty, "a")]);
        assert!(
            error.contains("/keys/0/sha256") && error.contains("--new-key"),
            "{error}"
        );
    }
    parse(&[key("x", &digest, "a"), key("y", &"0b".repeat(32), "b")]).expect("two keys");
}

#[test]
fn names_that_look_alike_are_refused() {
    for (name, other) in [
        ("files", "Files"),
        ("files", " files"),
        ("my server", "myserver"),
        ("files", "f\u{456}les"),
        ("caf\u{e9}", "cafe\u{301}"),
    ] {
        for setting in ["upstreams", "roles"] {
            let text = json!({setting: {name: {}, other: {}}}).to_string();
            let error = Settings::parse(&text).expect_err(&text).to_string();
            assert!(
                error.contains(setting) && error.contains("look alike"),
                "{error}"
            );
        }
    }
    let text = r#"{"upstreams": {"get_1": {}, "get_l": {}, "get_I": {}, "*": {}}}"#;
    let text = text.replace("get_I", "got");
    Settings::parse(&text).expect("other names are allowed");
}

#[test]
fn invalid_settings_are_refused() {
    for text in [
        "",
        " \n",
        "// nothing yet",
        "null",
        "{",
        "[]",
        "{} {}",
        "{\"keys\": null}",
    ] {
        assert!(Settings::parse(text).is_err(), "{text:?}");
    }
    assert!(Settings::parse("{}").is_ok());
}

#[test]
fn provider_url_must_be_safe_for_keys() {
    let openai =
        |provider: &str| Settings::parse(&format!(r#"{{"proxy": {{"openai": {provider}}}}}"#));
    for provider in [
        r#"{"url": "https://api.example/v1", "key_env": "KEY", "mode": "allowed"}"#,
        r#"{"url": "http://127.0.0.1:8000/v1"}"#,
        r#"{"url": "http://[::1]:8000/v1"}"#,
        r#"{"url": "http://localhost/v1"}"#,
        r#"{"url": "http://models.internal/v1", "plain_http": true}"#,
    ] {
        openai(provider).expect(provider);
    }
    for (provider, expected) in [
        (r#"{"url": "http://models.internal/v1"}"#, "https"),
        (r#"{"url": "http://127.0.0.1.evil.example/v1"}"#, "https"),
        (r#"{"url": "https://me:secret@api.example/v1"}"#, "key_env"),
        (r#"{"url": "https://api.example/v1?key=secret"}"#, "key_env"),
        (r#"{"url": "file:///etc/passwd"}"#, "has no host"),
        (r#"{"url": "ftp://api.example/v1"}"#, "not http"),
        (r#"{"url": "api.example/v1"}"#, "not a URL"),
        (
            r#"{"url": "https://api.example/v1", "mode": "defer"}"#,
            "does not support",
        ),
        (
            r#"{"url": "https://api.example/v1", "key": "secret"}"#,
            "unknown field",
        ),
    ] {
        let error = openai(provider).expect_err(provider).to_string();
        assert!(error.contains(expected), "{provider}: {error}");
    }
    Settings::parse(
        r#"{"proxy": {"anthropic": {"url": "https://api.example/v1", "mode": "allowed"}}}"#,
    )
    .expect_err("Anthropic has no such mode");
}

#[test]
fn proxy_patterns_are_checked_and_match_names_and_globs() {
    let proxy = |text: &str| Settings::parse(&format!(r#"{{"proxy": {text}}}"#));
    let settings = proxy(r#"{"always_include": ["Bash", "a[0]", "mcp__github__*"]}"#);
    let settings = settings.expect("valid settings").proxy;
    assert_eq!(settings.host_tools, HostTools::Keep);
    let patterns = settings.always_included().expect("valid patterns");
    for (name, expected) in [
        ("Bash", true),
        ("bash", false),
        ("BashOutput", false),
        ("a[0]", true),
        ("mcp__github__create/issue", true),
        ("mcp__gitlab__list", false),
        ("x_mcp__github__list", false),
        ("", false),
    ] {
        assert_eq!(patterns.matches(name), expected, "{name:?}");
    }
    for (text, expected) in [
        (r#"{"always_include": ["["]}"#, "proxy.always_include"),
        (r#"{"always_include": [" "]}"#, "empty"),
        (r#"{"always_include": "Bash"}"#, "sequence"),
        (r#"{"always_included": ["Bash"]}"#, "unknown field"),
        (r#"{"host_tools": "drop"}"#, "unknown variant"),
    ] {
        let error = proxy(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn mode_of_tools_without_schema_is_one_of_three() {
    let parse = |mode: &str| Settings::parse(&format!(r#"{{"allow_no_schema": {mode}}}"#));
    assert_eq!(Settings::default().allow_no_schema, None);
    for (text, mode) in [
        (r#""read-only""#, Some(NoSchemaMode::ReadOnly)),
        (r#""human-approval""#, Some(NoSchemaMode::HumanApproval)),
        (r#""full""#, Some(NoSchemaMode::Full)),
        ("null", None),
    ] {
        let settings = parse(text).expect(text);
        assert_eq!(settings.allow_no_schema, mode, "{text}");
    }
    for text in ["true", r#""sometimes""#, r#""Full""#] {
        parse(text).expect_err(text);
    }
}

#[test]
fn denied_patterns_hide_the_tools_that_they_match() {
    let table = PatternTable::open();
    let catalog = table.catalog();
    for case in table.patterns {
        let role = Role {
            deny: vec![case.pattern.clone()],
            ..Role::default()
        };
        let access = role
            .access_to(catalog.tools().expect("in memory"))
            .expect("valid patterns");
        let hidden: Vec<String> = access.exclude.into_iter().collect();
        assert_eq!(hidden, case.tools, "{}", case.pattern);
        let unmatched = role.unmatched_denials(&catalog);
        assert_eq!(
            !unmatched.is_empty(),
            case.tools.is_empty(),
            "{unmatched:?}"
        );
    }
}
