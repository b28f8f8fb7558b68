"""A client that takes what it can get: silent connections, many sessions, slow calls, slow bodies and bursts.

usage: greedy.py PORT KEY SILENT [SLOW_TOOL]

It runs until it is killed, with the lowest priority. SILENT is the number of connections that it keeps open without a
request. SLOW_TOOL is a tool of a slow server, which it calls, too.
"""

import os
import socket
import sys
import threading
import time

from mcp_client import Client, Refused

PORT, KEY, SILENT = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
SLOW_TOOL = sys.argv[4] if len(sys.argv) > 4 else None
HOSTILE_TOOLS = ["slow", "twice", "wrong_id", "not_json", "huge", "chatty"]


def forever(action, pause):
    """Repeats an action in a thread, with a pause after each failure."""
    def repeat():
        while True:
            try:
                action()
            except (OSError, Refused, ValueError):
                time.sleep(pause)
    threading.Thread(target=repeat, daemon=True).start()


def connect():
    return socket.create_connection(("127.0.0.1", PORT), 10)


def keep_silent_connections():
    """Opens silent connections, and replaces those that the gateway closes."""
    connections = []
    while True:
        connections = [silent for silent in connections if not is_closed(silent)]
        while len(connections) < SILENT:
            connections.append(connect())
            connections[-1].setblocking(False)
        time.sleep(1)


def is_closed(connection):
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def send_slow_body():
    """Sends a body of a byte each second, until the gateway closes the connection."""
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nAuthorization: Bearer {KEY}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"
    with connect() as connection:
        connection.sendall(head.encode())
        while True:
            connection.sendall(b" ")
            time.sleep(1)


def leave_session():
    """Begins a session and leaves it open."""
    client = Client(PORT, KEY)
    client.begin()
    client.echo("left")
    client.close()


def call_slowly():
    client = Client(PORT, KEY)
    client.begin()
    while True:
        client.echo("slow", seconds=5)


def call_slow_server():
    client = Client(PORT, KEY)
    client.begin()
    while True:
        client.call(SLOW_TOOL, {"text": "slow"})
        time.sleep(0.1)


def call_hostile_tools():
    client = Client(PORT, KEY, timeout=15)
    client.begin()
    while True:
        for tool in HOSTILE_TOOLS:
            client.call(f"hostile__{tool}", {"text": "a"})


def send_burst():
    """Sends 200 requests at once, without waiting for the answers."""
    body = '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
    request = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nAuthorization: Bearer {KEY}\r\n"
    request += "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
    request += f"Content-Length: {len(body)}\r\n\r\n{body}"
    with connect() as connection:
        connection.sendall(request.encode() * 200)
        time.sleep(1)


def main():
    os.nice(19)
    forever(keep_silent_connections, 1)
    for _ in range(8):
        forever(send_slow_body, 1)
    for _ in range(32):
        forever(call_slowly, 0.5)
    for _ in range(4):
        forever(leave_session, 0.1)
        forever(call_hostile_tools, 0.1)
        if SLOW_TOOL:
            forever(call_slow_server, 0.5)
    forever(send_burst, 1)
    while True:
        time.sleep(60)


main()
