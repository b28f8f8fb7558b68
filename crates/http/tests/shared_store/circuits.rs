//! Circuit breakers that all gateways share.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use picktools_import::mcp::{Server, ServerTransport, ToolFilter};
use serde_json::json;

use crate::gateways::{SharedGateway, within};
use picktools_testing::store::StoreServer;

#[tokio::test(flavor = "multi_thread")]
async fn open_circuit_of_a_gateway_applies_to_the_others() {
    let server = StoreServer::start(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            drop(client);
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let servers = || {
        let transport = ServerTransport::Http {
            url: url.clone(),
            headers: BTreeMap::new(),
            credentials: None,
        };
        vec![Server {
            name: "broken".to_owned(),
            transport,
            tools: ToolFilter::default(),
            call_timeout: None,
            scope: None,
        }]
    };
    let start = async |tenant: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        SharedGateway::with_servers(servers(), folder, &server.url(), tenant, &json!({})).await
    };
    let one = start("acme").await;
    let has_key = |tenant: &str| {
        let prefix = format!("picktools:{{{tenant}}}:gateway:circuit:");
        server.keys().iter().any(|key| key.starts_with(&prefix))
    };
    within(
        Duration::from_secs(40),
        "the open circuit is in the store",
        async || has_key("acme"),
    )
    .await;
    let other = start("acme").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = count.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(count.load(Ordering::Relaxed), before, "no gateway connects");
    // Another tenant has its own circuits.
    let stranger = start("other").await;
    within(Duration::from_secs(5), "it connects", async || {
        count.load(Ordering::Relaxed) > before
    })
    .await;
    // Foreign data is ignored.
    let key = server
        .keys()
        .into_iter()
        .find(|key| key.contains("circuit"))
        .expect("a key");
    server.ask(&["SET", &key, "open"]);
    for gateway in [one, other, stranger] {
        assert!(gateway.store.faults().is_empty());
        gateway.end().await;
    }
}
