//! Servers that need access tokens, and the client secret for them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Place, TIME, eventually, said};
use crate::support::root;

/// A server that needs access tokens, with the token requests that it received.
struct Guarded {
    child: Child,
    url: String,
    asked: Receiver<Value>,
}

impl Guarded {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new("python3")
            .arg(root("crates/cli/tests/servers/guarded.py"))
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped"))
            .lines()
            .map_while(Result::ok);
        let url = format!("{}/mcp", lines.next().expect("an address"));
        let (tell, asked) = channel();
        std::thread::spawn(move || {
            for line in lines {
                drop(tell.send(serde_json::from_str(&line).expect("JSON")));
            }
        });
        Self { child, url, asked }
    }

    /// Starts a gateway in front of the server, with further credentials.
    fn place(&self, more: &Value) -> Place {
        let mut credentials = json!({"clientId": "robot", "clientSecret": "s3cret-of-robot"});
        for (name, value) in more.as_object().expect("an object") {
            credentials[name] = value.clone();
        }
        Place::with(&json!({"guarded": {"url": self.url, "clientCredentials": credentials}}))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn access_token_is_fetched_and_renewed() {
    // The second server states a longer lifetime than its tokens have. They are used until the
    // server refuses one.
    for (arguments, pause) in [
        (["OWN", "4"].as_slice(), 5),
        (["OWN", "7", "3600"].as_slice(), 8),
    ] {
        let guarded = Guarded::start(arguments);
        let place = guarded.place(&json!({"scopes": ["read", "write"]}));
        let mut client = place.client(&json!({}));
        eventually("it is up", || {
            client.run("guarded__whoami", json!({}))["isError"] != true
        });
        let first = said(&client.run("guarded__whoami", json!({})));
        std::thread::sleep(Duration::from_secs(pause));
        let second = said(&client.run("guarded__whoami", json!({})));
        assert!(
            first.starts_with("token-") && second.starts_with("token-") && first != second,
            "{first} {second}"
        );
        let asked = guarded
            .asked
            .recv_timeout(TIME)
            .expect("a token was asked for");
        assert_eq!(
            (&asked["grant_type"], &asked["scope"]),
            (&json!("client_credentials"), &json!("read write"))
        );
        assert_eq!(
            asked["resource"], guarded.url,
            "tokens are for this server alone"
        );
    }
}

#[test]
fn client_secret_is_sent_only_to_configured_hosts() {
    for (mode, needle) in [
        ("OTHER", "wants its secret sent to http://127.0.0.1:"),
        ("SILENT", "names no token endpoint"),
    ] {
        let guarded = Guarded::start(&[mode, "60"]);
        let place = guarded.place(&json!({}));
        let mut client = place.client(&json!({}));
        let shown = || fs::read_to_string(place.path("stderr")).unwrap_or_default();
        eventually("it is told why", || {
            client.ask("ping", &json!({}));
            shown().contains(needle)
        });
        assert!(
            shown().contains("tokenUrl") && !shown().contains("s3cret"),
            "{}",
            shown()
        );
        assert!(guarded.asked.try_recv().is_err(), "nothing was sent");
    }
    let guarded = Guarded::start(&["SILENT", "60"]);
    let place = guarded.place(&json!({"tokenUrl": guarded.url.replace("/mcp", "/token")}));
    let mut client = place.client(&json!({}));
    eventually("a named address is used", || {
        client.run("guarded__whoami", json!({}))["isError"] != true
    });
}

#[test]
fn refused_client_secret_is_reported_but_not_printed() {
    let guarded = Guarded::start(&["OWN", "60"]);
    let place = guarded.place(&json!({"clientSecret": "wr0ng-secret"}));
    let mut client = place.client(&json!({}));
    let shown = || fs::read_to_string(place.path("stderr")).unwrap_or_default();
    eventually("it is told why", || {
        client.ask("ping", &json!({}));
        shown().contains("invalid_client")
    });
    let found = client.search("token").to_string();
    assert!(
        !format!("{}{found}", shown()).contains("wr0ng"),
        "{} {found}",
        shown()
    );
}
