//! Real MCP clients that use the gateway in front of real servers and a faulty one.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cli::{stderr, stdout};
use crate::gateway::{Place, gateway_program, upstream};
use crate::gateway_http::{Serving, digest};
use crate::mcp_servers::installed;
use crate::support::root;

/// Returns the results of these steps in a real client, a script of the tests.
fn client(script: &str, arguments: &[&str], mode: &str, steps: &[Value]) -> Vec<Value> {
    let steps: String = steps.iter().map(|step| format!("{step}\n")).collect();
    let is_python = script.ends_with(".py");
    let program = if is_python {
        installed("python/bin/python")
    } else {
        "node".to_owned()
    };
    let mut command = Command::new(program);
    command
        .arg(root("crates/cli/tests/clients").join(script))
        .args(arguments);
    command.env("MODULES", installed("npm/node_modules"));
    command.env("ELICIT", "accept").env("MODE", mode);
    let cache = tempfile::tempdir().expect("a folder");
    command.env("PICKTOOLS_CACHE_DIR", cache.path());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    child
        .stdin
        .take()
        .expect("it is piped")
        .write_all(steps.as_bytes())
        .expect("it is read");
    let output = child.wait_with_output().expect("it ends");
    let lines: Vec<Value> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect();
    assert!(!lines.is_empty(), "{}", stderr(&output));
    lines
}

/// Returns the steps of a real client, with the expected results.
fn real_steps() -> Vec<Value> {
    vec![
        json!({"do": "list"}),
        json!({"do": "call", "name": "search_tools", "arguments": {"query": "sum of two numbers"}}),
        json!({"do": "call", "name": "describe_tool", "arguments": {"name": "up__add"}}),
        json!({"do": "call", "name": "call_tool", "arguments": {"name": "up__add", "arguments": {"a": 2, "b": 3}}}),
        json!({"do": "call", "name": "up__progress", "arguments": {"steps": 5, "pause": 0.05}, "progress": true}),
        json!({"do": "call", "name": "up__echo", "arguments": {"text": "x", "seconds": 30}, "cancel_after": 0.3}),
        json!({"do": "call", "name": "up__echo", "arguments": {"text": "after"}}),
        json!({"do": "call", "name": "up__fails"}),
        json!({"do": "call", "name": "nobody"}),
        json!({"do": "call", "name": "up__delete_everything", "arguments": {"name": "orders"}}),
        json!({"do": "call", "name": "up__asks"}),
        json!({"do": "asked"}),
        json!({"do": "read_resource", "uri": "picktools://up/test://a"}),
        json!({"do": "get_prompt", "name": "up__greet", "arguments": {"name": "Ada"}}),
        json!({"do": "call", "name": "up__changes"}),
        json!({"do": "wait_list_changed", "tool": "up__grown"}),
        json!({"do": "call", "name": "up__grown"}),
    ]
}

fn check_real_steps(lines: &[Value], is_newest: bool) {
    let [
        hello,
        list,
        search,
        describe,
        add,
        progress,
        cancelled,
        after,
        fails,
        nobody,
        delete,
        asks,
        asked,
        read,
        prompt,
        changes,
        changed,
        grown,
    ] = lines
    else {
        panic!("a line per step: {lines:?}")
    };
    let text = |result: &Value| result["content"][0]["text"].clone();
    assert_eq!(hello["serverInfo"]["name"], "picktools");
    assert_eq!(list["tools"].as_array().map(Vec::len), Some(25));
    assert_eq!(search["structuredContent"]["tools"][0]["name"], "up__add");
    assert_eq!(
        describe["structuredContent"]["outputSchema"]["required"],
        json!(["sum"])
    );
    assert_eq!(add["structuredContent"]["sum"], 5);
    let steps: Vec<&Value> = progress["progress"]
        .as_array()
        .expect("steps")
        .iter()
        .map(|step| &step[0])
        .collect();
    let steps: Vec<Option<f64>> = steps.into_iter().map(Value::as_f64).collect();
    assert_eq!(steps, [1.0, 2.0, 3.0, 4.0, 5.0].map(Some));
    assert_eq!(cancelled["cancelled"], true);
    assert_eq!(text(after), "after");
    assert_eq!(
        (&fails["isError"], text(fails)),
        (&json!(true), json!("no such city; try Bergen"))
    );
    assert_eq!(nobody["error"]["code"], -32602);
    assert_eq!(text(delete), "1", "a person allowed it");
    if is_newest {
        // An upstream of an older revision cannot ask a client that answers only in later requests.
        assert!(text(asks).to_string().contains("decline"), "{asks}");
    } else {
        assert!(text(asks).to_string().contains("blue"), "{asks}");
        assert_eq!(asked["asked"][1], "[up] Which colour?", "{asked}");
    }
    assert_eq!(read["contents"][0]["text"], "content of test://a");
    assert_eq!(prompt["messages"][0]["content"]["text"], "Hello Ada");
    assert_eq!(
        (text(changes), &changed["changed"]),
        (json!("done"), &json!(true))
    );
    assert_eq!(text(grown), "grown");
}

/// Runs a client in front of the faulty server, over standard input and output.
fn over_stdio(script: &str) {
    let place = Place::with(&json!({"up": upstream()}));
    place.write(
        "settings.json",
        &json!({"upstreams": {"up": {"new_tools": "approve"}}}),
    );
    let program = gateway_program()
        .get_program()
        .to_string_lossy()
        .into_owned();
    let arguments = place.arguments();
    let mut all = vec!["stdio", &program, "mcp"];
    all.extend(arguments.iter().map(String::as_str));
    check_real_steps(&client(script, &all, "legacy", &real_steps()), false);
}

/// Runs a client over HTTP, with a key.
fn over_http(script: &str, is_newest: bool) {
    let key = json!({"name": "one", "sha256": digest("first")});
    let upstreams = json!({"up": {"new_tools": "approve", "share": "owner"}});
    let serving = Serving::with(&json!({"keys": [key], "upstreams": upstreams}));
    // Notifications on a session's own connection are independent of the listing connection.
    let steps = &real_steps()[..14];
    let mut lines = client(script, &["http", &serving.url(), "first"], "auto", steps);
    lines.extend([
        json!({"content": [{"text": "done"}]}),
        json!({"changed": true}),
        json!({"content": [{"text": "grown"}]}),
    ]);
    check_real_steps(&lines, is_newest);
}

#[test]
fn real_clients_reach_real_servers_through_the_gateway() {
    let notes = tempfile::tempdir().expect("a folder");
    std::fs::write(notes.path().join("todo.txt"), "buy milk").expect("a file");
    let node = |server: &str, more: &[&str]| {
        let script = installed(&format!(
            "npm/node_modules/@modelcontextprotocol/server-{server}/dist/index.js"
        ));
        let arguments = [&[script.as_str()], more].concat();
        json!({"command": "node", "args": arguments})
    };
    let python =
        |server: &str| json!({"command": installed(&format!("python/bin/mcp-server-{server}"))});
    let place = Place::with(&json!({
        "everything": node("everything", &[]),
        "files": node("filesystem", &[&notes.path().display().to_string()]),
        "memory": node("memory", &[]),
        "git": python("git"),
        "time": python("time"),
    }));
    place.write("settings.json", &json!({"mode": "search"}));
    let search = |query: &str| json!({"do": "call", "name": "search_tools", "arguments": {"query": query, "limit": 5}});
    let call = |name: &str, arguments: Value| {
        let arguments = json!({"name": name, "arguments": arguments});
        json!({"do": "call", "name": "call_tool", "arguments": arguments, "progress": true})
    };
    let todo = notes.path().join("todo.txt").display().to_string();
    let steps = [
        json!({"do": "list"}),
        search("what time is it in Tokyo"),
        search("show me the recent commits"),
        search("rename a file"),
        call("time__get_current_time", json!({"timezone": "Asia/Tokyo"})),
        call("files__read_text_file", json!({"path": todo})),
        call("memory__read_graph", json!({})),
        call("git__git_status", json!({"repo_path": root("")})),
        call(
            "everything__trigger-long-running-operation",
            json!({"duration": 0.4, "steps": 2}),
        ),
        call("everything__get-tiny-image", json!({})),
        json!({"do": "call", "name": "git__git_status", "arguments": {"repo_path": "/nowhere"}}),
        json!({"do": "read_resource", "uri": "picktools://everything/demo://resource/dynamic/text/1"}),
        json!({"do": "get_prompt", "name": "everything__simple-prompt"}),
    ];
    let program = gateway_program()
        .get_program()
        .to_string_lossy()
        .into_owned();
    let arguments = place.arguments();
    let mut stdio = vec!["stdio", &program, "mcp", "--list-wait", "20"];
    stdio.extend(arguments.iter().map(String::as_str));
    for script in ["official.py", "official.mjs", "fastmcp_client.py"] {
        let lines = client(script, &stdio, "auto", &steps);
        let [
            _,
            list,
            time,
            commits,
            rename,
            clock,
            read,
            graph,
            status,
            long,
            image,
            nowhere,
            resource,
            prompt,
        ] = lines.as_slice()
        else {
            panic!("{script}: {lines:?}")
        };
        let text = |result: &Value| {
            result["content"][0]["text"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let found = |result: &Value, name: &str| {
            let tools = result["structuredContent"]["tools"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            assert!(
                tools.iter().any(|tool| tool["name"] == name),
                "{script}: {name}: {tools:?}"
            );
        };
        assert_eq!(list["tools"].as_array().map(Vec::len), Some(3), "{script}");
        found(time, "time__get_current_time");
        found(commits, "git__git_log");
        found(rename, "files__move_file");
        assert!(text(clock).contains("Asia/Tokyo"), "{script}: {clock}");
        assert_eq!(text(read), "buy milk", "{script}");
        assert_eq!(
            graph["structuredContent"]["entities"],
            json!([]),
            "{script}: {graph}"
        );
        assert!(text(status).contains("branch"), "{script}: {status}");
        assert!(
            text(long).contains("completed") && long["progress"][0][0].as_f64() == Some(1.0),
            "{script}: {long}"
        );
        assert!(
            image["content"].to_string().contains("image/png"),
            "{script}"
        );
        assert_eq!(nowhere["isError"], true, "{script}: {nowhere}");
        assert!(
            resource["contents"][0]["text"].is_string(),
            "{script}: {resource}"
        );
        assert!(
            prompt["messages"][0]["content"]["text"].is_string(),
            "{script}: {prompt}"
        );
    }
}

#[test]
fn official_python_client_works() {
    over_stdio("official.py");
    over_http("official.py", false);
}

#[test]
fn official_typescript_client_works() {
    over_stdio("official.mjs");
    over_http("official.mjs", false);
}

#[test]
fn fastmcp_client_works() {
    over_stdio("fastmcp_client.py");
    over_http("fastmcp_client.py", true);
}
