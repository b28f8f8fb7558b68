//! A model behind the OpenAI chat API that says the same each time.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::json;

use crate::http::HttpConnection;

/// Prints the port and serves until the process is killed.
pub(crate) fn serve() -> Result<(), String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let _closed = writeln!(std::io::stdout(), "{}", address.port());
    for stream in listener.incoming().flatten() {
        thread::spawn(move || answer_all(stream));
    }
    Ok(())
}

fn answer_all(stream: TcpStream) -> std::io::Result<()> {
    let body = json!({
        "id": "1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": "done"}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    })
    .to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let response = (head + &body).into_bytes();
    let mut connection = HttpConnection::new(stream)?;
    loop {
        let request = connection.receive()?;
        connection.send(&response)?;
        if request.closes {
            return Ok(());
        }
    }
}
