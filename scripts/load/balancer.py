"""A TCP balancer in front of several gateways."""

import socket
import threading


class Balancer:
    """Passes each new connection to the next gateway in rotation."""

    def __init__(self):
        self.ports = []
        self.lock = threading.Lock()
        self.turn = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def add(self, port):
        """Sends new connections to a gateway, too."""
        with self.lock:
            self.ports.append(port)

    def remove(self, port):
        """Sends no more new connections to a gateway. Open connections stay."""
        with self.lock:
            self.ports.remove(port)

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            with self.lock:
                self.turn += 1
                port = self.ports[self.turn % len(self.ports)]
            try:
                gateway = socket.create_connection(("127.0.0.1", port), 5)
            except OSError:
                client.close()
                continue
            gateway.settimeout(None)
            for connection in (client, gateway):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=pass_on, args=(client, gateway), daemon=True).start()
            threading.Thread(target=pass_on, args=(gateway, client), daemon=True).start()


def pass_on(source, target):
    """Copies bytes until the source ends, and then ends the target's direction."""
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for connection in (source, target):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
