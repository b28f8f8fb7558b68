"""An MCP client over HTTP on one connection, for the load scripts."""

import http.client
import json
import select
import socket

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}


class Refused(Exception):
    """A response with an HTTP status other than success."""

    def __init__(self, status, body):
        super().__init__(f"HTTP {status}: {body[:200]}")
        self.status = status


class Client:
    """A client with one session, on one connection that it keeps."""

    def __init__(self, port, key, timeout=60):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        self.key = key
        self.session = None
        self.next_id = 0

    def begin(self):
        """Begins a new session."""
        self.session = None
        self.request("initialize", HELLO)
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def connect(self):
        """Connects if there is no connection, or if the gateway has closed it."""
        open_socket = self.connection.sock
        if open_socket and select.select([open_socket], [], [], 0)[0]:
            self.connection.close()
        if not self.connection.sock:
            self.connection.connect()
            self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self, message):
        """Sends a message and returns the body of the response."""
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        headers["Authorization"] = f"Bearer {self.key}"
        if self.session:
            headers["Mcp-Session-Id"] = self.session
            headers["MCP-Protocol-Version"] = HELLO["protocolVersion"]
        self.connect()
        self.connection.request("POST", "/mcp", json.dumps(message), headers)
        response = self.connection.getresponse()
        body = response.read().decode()
        if response.status >= 300:
            raise Refused(response.status, body)
        self.session = self.session or response.getheader("Mcp-Session-Id")
        return body

    def request(self, method, params):
        """Sends a request and returns its answer. Raises `ValueError` if the response has none."""
        self.next_id += 1
        body = self.post({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params})
        for line in body.splitlines():
            text = line.removeprefix("data:").strip()
            message = json.loads(text) if text.startswith("{") else {}
            if message.get("id") == self.next_id and ("result" in message or "error" in message):
                return message
        raise ValueError(f"no answer to {method}: {body[:200]}")

    def call(self, tool, arguments):
        """Calls a tool of a server."""
        return self.request("tools/call", {"name": "call_tool", "arguments": {"name": tool, "arguments": arguments}})

    def echo(self, text, seconds=0):
        """Calls the echo server. Raises `ValueError` if the answer is not the text."""
        answer = self.call("echo__echo", {"text": text, "seconds": seconds})
        content = answer.get("result", {}).get("content") or [{}]
        if content[0].get("text") != text:
            raise ValueError(f"wrong answer: {json.dumps(answer)[:300]}")

    def close(self):
        self.connection.close()
