//! Tests of reading and checking settings.

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
