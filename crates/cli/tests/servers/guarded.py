"""An MCP server over HTTP that needs an access token, and the authorization server that issues it. Standard library only.

usage: guarded.py OWN|OTHER|SILENT SECONDS [SAID]     prints its address, then a line of JSON for each token that was asked for

OWN says that tokens come from its own origin, OTHER that they come from another one, SILENT nothing of it. A token is good
for SECONDS, and said to be good for SAID.
"""

import itertools
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

MODE, SECONDS = sys.argv[1], float(sys.argv[2])
GIVEN = {}
COUNT = itertools.count(1)
TOOL = {"name": "whoami", "description": "Tells which token the caller has.", "inputSchema": {"type": "object"}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, status, body=None, **headers):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        own = f"http://127.0.0.1:{self.server.server_port}"
        if MODE != "SILENT" and self.path.startswith("/.well-known/oauth-protected-resource"):
            return self.say(200, {"resource": f"{own}/mcp", "authorization_servers": [own]})
        if MODE != "SILENT" and self.path == "/.well-known/oauth-authorization-server":
            end = f"http://127.0.0.1:{self.server.server_port + (MODE == 'OTHER')}"
            return self.say(200, {
                "issuer": own, "authorization_endpoint": f"{end}/authorize", "token_endpoint": f"{end}/token",
                "token_endpoint_auth_methods_supported": ["client_secret_post"], "response_types_supported": ["code"]})
        self.say(404 if self.path != "/mcp" else 405)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/token":
            return self.token({name: values[0] for name, values in parse_qs(body.decode()).items()})
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if GIVEN.get(token, 0) < time.monotonic():
            return self.say(401, WWW_Authenticate='Bearer error="invalid_token"')
        message = json.loads(body)
        answer = {
            "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "guarded", "version": "1"}},
            "tools/list": {"tools": [TOOL]},
            "tools/call": {"content": [{"type": "text", "text": token}]},
            "ping": {},
        }.get(message.get("method"))
        if "id" not in message:
            return self.say(202)
        if answer is None:
            return self.say(200, {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}})
        self.say(200, {"jsonrpc": "2.0", "id": message["id"], "result": answer})

    def token(self, asked):
        print(json.dumps(asked), flush=True)
        if (asked.get("client_id"), asked.get("client_secret")) != ("robot", "s3cret-of-robot"):
            return self.say(401, {"error": "invalid_client"})
        token = f"token-{next(COUNT)}"
        GIVEN[token] = time.monotonic() + SECONDS
        self.say(200, {"access_token": token, "token_type": "Bearer", "expires_in": int(sys.argv[3]) if len(sys.argv) > 3 else int(SECONDS)})


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
