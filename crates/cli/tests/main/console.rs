//! The console of the gateway: its access control, and its use in a real browser.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::cli::{stderr, stdout};
use crate::gateway::{Place, eventually, gateway_program};
use crate::gateway_http::{Answer, Serving, digest};
use crate::support::root;

/// The requests of an operator.
const DATA: [(&str, &str, &str); 12] = [
    ("GET", "/console/parts", ""),
    (
        "POST",
        "/console/try",
        r#"{"request": "add", "picks": 3, "role": "default"}"#,
    ),
    ("GET", "/console/catalog?text=add", ""),
    ("GET", "/console/tool?id=up/add", ""),
    ("GET", "/console/waiting", ""),
    ("GET", "/console/waiting/count", ""),
    (
        "POST",
        "/console/definitions",
        r#"{"id": "up/grown", "version": "1", "approve": true}"#,
    ),
    ("POST", "/console/calls", r#"{"id": "1", "run": true}"#),
    ("POST", "/console/revoke", r#"{"id": "1"}"#),
    ("GET", "/console/live", ""),
    ("GET", "/console/servers", ""),
    ("GET", "/console/status", ""),
];

/// Starts a gateway with the keys `first` of an operator and `second` of another caller.
fn with_operator() -> Serving {
    let place = Place::faulty();
    let keys = json!([
        {"name": "ops", "sha256": digest("first"), "role": "operator"},
        {"name": "dev", "sha256": digest("second")},
    ]);
    let roles = json!({"operator": {"operator": true}, "reader": {"deny": ["up/e*"]}});
    place.write("settings.json", &json!({"keys": keys, "roles": roles}));
    Serving::start(place, &[])
}

fn ask(
    serving: &Serving,
    (method, path, body): (&str, &str, &str),
    headers: &[(&str, &str)],
) -> Answer {
    let json = [("Content-Type", "application/json")];
    serving.raw(method, path, &[&json, headers].concat(), body)
}

const OPERATOR: (&str, &str) = ("Authorization", "Bearer first");

#[test]
fn console_data_needs_an_operator_and_its_own_page() {
    let serving = with_operator();
    let own = format!("http://{}", serving.address);
    for request in DATA {
        for (headers, status) in [
            (vec![], 401),
            (vec![("Authorization", "Bearer wrong")], 401),
            (vec![("Authorization", "Basic first")], 401),
            (vec![("Cookie", "key=first")], 401),
            (vec![OPERATOR, OPERATOR], 401),
            (vec![("Authorization", "Bearer second")], 403),
            (vec![OPERATOR, ("Origin", "http://evil.example")], 403),
            (vec![OPERATOR, ("Origin", "null")], 403),
            (vec![OPERATOR, ("Origin", "http://127.0.0.1:1")], 403),
            (vec![OPERATOR, ("Host", "evil.example")], 403),
        ] {
            let refused = ask(&serving, request, &headers);
            assert_eq!(
                refused.status, status,
                "{request:?} {headers:?}: {}",
                refused.body
            );
            assert!(
                !refused.body.contains("up/") && !refused.body.contains("echo"),
                "{}",
                refused.body
            );
        }
    }
    let by_address = ("GET", "/console/catalog?key=first", "");
    assert_eq!(
        ask(&serving, by_address, &[]).status,
        401,
        "no key is read from an address"
    );
    let listed = ask(&serving, DATA[2], &[OPERATOR, ("Origin", &own)]);
    assert_eq!(listed.status, 200, "{}", listed.body);
    let as_form = [
        OPERATOR,
        ("Content-Type", "application/x-www-form-urlencoded"),
    ];
    assert_eq!(
        serving
            .raw("POST", "/console/calls", &as_form, DATA[7].2)
            .status,
        415,
        "JSON alone"
    );
    assert_eq!(
        ask(&serving, ("GET", "/console/calls", ""), &[OPERATOR]).status,
        405,
        "nothing is decided by a link"
    );
}

#[test]
fn console_page_is_public_and_loads_only_its_files() {
    let serving = with_operator();
    for path in [
        "/console",
        "/console/console.js",
        "/console/console.css",
        "/console/parts",
    ] {
        let answer = serving.raw("GET", path, &[], "");
        assert_eq!(
            answer.status,
            if path == "/console/parts" { 401 } else { 200 },
            "{path}"
        );
        let policy = answer.header("Content-Security-Policy").expect("a policy");
        let allowed: Vec<&str> = policy.split("; ").collect();
        let expected = [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "img-src 'self' data:",
            "form-action 'none'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ];
        assert_eq!(allowed, expected, "{path}");
        for (name, value) in [
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path}");
        }
        assert!(
            !answer.body.contains("up/") && !answer.body.contains("ops"),
            "{path}"
        );
        assert_eq!(
            serving
                .raw("GET", path, &[("Host", "evil.example")], "")
                .status,
            403,
            "{path}"
        );
    }
    let page = serving.raw("GET", "/console", &[], "").body;
    assert!(
        !page.contains("style=")
            && !page.contains("onclick")
            && page.matches("<script").count() == 1,
        "{page}"
    );
}

#[test]
fn console_temporary_key_is_for_this_machine_only() {
    let serving = Serving::start(Place::faulty(), &[]);
    for headers in [vec![], vec![OPERATOR]] {
        let refused = ask(&serving, DATA[0], &headers);
        assert_eq!(refused.status, 403);
        assert!(refused.body.contains("serve --console"), "{}", refused.body);
    }
    // A caller without a key is not an operator, even if the anonymous role is an operator's.
    let place = Place::faulty();
    place.write(
        "settings.json",
        &json!({"roles": {"default": {"operator": true}}}),
    );
    assert_eq!(ask(&Serving::start(place, &[]), DATA[0], &[]).status, 403);

    let serving = Serving::start(Place::faulty(), &["--console"]);
    let link = serving.said("console: ");
    let key = link.split_once("#key=").expect("a key").1.to_owned();
    let bearer = format!("Bearer {key}");
    assert_eq!(
        ask(&serving, DATA[0], &[("Authorization", &bearer)]).status,
        200
    );
    assert_eq!(ask(&serving, DATA[0], &[]).status, 401);
    let message = json!({"jsonrpc": "2.0", "id": 0, "method": "ping"}).to_string();
    assert_eq!(
        ask(
            &serving,
            ("POST", "/mcp", &message),
            &[("Authorization", &bearer)]
        )
        .status,
        401,
        "it opens no other door"
    );
    drop(serving);

    let place = Place::faulty();
    place.write(
        "settings.json",
        &json!({"keys": [{"name": "one", "sha256": digest("first")}]}),
    );
    let output = gateway_program()
        .args([
            "serve",
            "--listen",
            "0.0.0.0:0",
            "--plain-http",
            "--console",
        ])
        .args(place.arguments())
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("instead of --console"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn console_decides_only_about_shown_items() {
    let serving = with_operator();
    let get = |path: &str| ask(&serving, ("GET", path, ""), &[OPERATOR]);
    let post =
        |path: &str, body: &Value| ask(&serving, ("POST", path, &body.to_string()), &[OPERATOR]);
    eventually("the server's tools are there", || {
        get("/console/catalog").body.contains("up/echo")
    });
    assert_eq!(get("/console/catalog?kind=none").status, 400);
    assert_eq!(get("/console/tool?id=up/none").status, 404);
    let tried = |role: &str| {
        post(
            "/console/try",
            &json!({"request": "gives a text back", "picks": 3, "role": role}),
        )
    };
    assert!(tried("default").body.contains("up/echo"));
    let reader = tried("reader").body;
    assert!(
        reader.contains("excluded 1") && reader.contains("up/echo"),
        "it is told what is left out: {reader}"
    );
    assert_eq!(tried("boss").status, 400);
    assert_eq!(post("/console/try", &json!({"request": "x"})).status, 422);
    assert_eq!(
        ask(&serving, ("POST", "/console/try", "{"), &[OPERATOR]).status,
        400
    );

    let hostile = json!({"name": "grown", "description": "<img src=x onerror=alert(1)>\u{202e}", "inputSchema": {}});
    serving.place.write(
        "changes",
        &json!({"descriptions": {"echo": "Gives a word back"}, "add": [hostile]}),
    );
    eventually("they wait", || get("/console/waiting/count").body == "2");
    let waiting = get("/console/waiting").body;
    assert!(
        waiting.contains("Gives a <del>text</del> back")
            && waiting.contains("Gives a <ins>word</ins> back"),
        "{waiting}"
    );
    assert!(
        waiting.contains("&#60;img src=x")
            && !waiting.contains("<img")
            && !waiting.contains('\u{202e}'),
        "{waiting}"
    );
    let digest = |id: &str| {
        let after = waiting
            .split(&format!("data-definition=\"{id}\" data-version=\""))
            .nth(1)
            .expect("a button");
        after.split('"').next().expect("a digest").to_owned()
    };
    let decide = |id: &str, digest: &str, approve: bool| {
        post(
            "/console/definitions",
            &json!({"id": id, "version": digest, "approve": approve}),
        )
    };
    for approve in [true, false] {
        let other = decide("up/echo", &digest("up/grown"), approve);
        assert_eq!(
            other.status, 409,
            "only what was shown is decided: {}",
            other.body
        );
    }
    assert_eq!(decide("up/none", "1", false).status, 409);
    assert_eq!(
        decide("up/echo", &digest("up/echo"), true).body,
        "approved: up/echo"
    );
    assert_eq!(
        decide("up/grown", &digest("up/grown"), false).body,
        "refused: up/grown"
    );
    assert_eq!(get("/console/waiting/count").body, "0");
    assert!(get("/console/waiting").body.contains("1 refused"));
    eventually("it is in force", || {
        get("/console/tool?id=up/echo")
            .body
            .contains("Gives a word back")
    });
    assert_eq!(
        post("/console/calls", &json!({"id": "none", "run": true})).status,
        409
    );
    assert!(get("/console/servers").body.contains("up"));
}

/// Returns the installed browser.
fn browser() -> Option<String> {
    let folders: Vec<_> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    found
        .into_iter()
        .find(|path| path.is_file())
        .map(|path| path.display().to_string())
}

#[test]
fn console_works_in_a_browser() {
    let modules = root("target/browser/node_modules");
    let Some(browser) = browser().filter(|_| Path::new(&modules).exists()) else {
        // Written directly, because the test harness captures the normal output.
        writeln!(
            std::io::stderr(),
            "NOT TESTED: no browser, so the console is not tested in one; see scripts/fetch-browser.sh"
        )
        .expect("it is written");
        return;
    };
    let serving = Serving::start(Place::faulty(), &["--console"]);
    let link = serving.said("console: ");
    let output = Command::new("node")
        .arg(root("crates/cli/tests/clients/console.mjs"))
        .arg(link)
        .arg(serving.place.path("changes"))
        .env("MODULES", &modules)
        .env("BROWSER", browser)
        .output()
        .expect("node runs");
    assert!(
        output.status.success(),
        "{}\n{}",
        stdout(&output),
        stderr(&output)
    );
    assert!(
        stdout(&output).contains("nothing ran, and nothing was asked for elsewhere"),
        "{}",
        stdout(&output)
    );
}
