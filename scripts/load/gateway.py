"""A gateway over HTTP that a load script starts and measures."""

import json
import os
import signal
import subprocess
import time
from http.client import HTTPConnection
from pathlib import Path

MIB = 1 << 20


class Gateway:
    """A running gateway in front of these servers, with its files in a folder."""

    def __init__(self, program, folder, servers=None, settings=None, arguments=()):
        self.folder = Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.state = self.folder / "state"
        (self.folder / "settings.json").write_text(json.dumps(settings or {}))
        self.command = [
            str(program), "serve", "--listen", "127.0.0.1:0", "--settings", str(self.folder / "settings.json"),
            "--state-dir", str(self.state), *map(str, arguments),
        ]
        if servers:
            (self.folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
            self.command += ["--config", str(self.folder / "mcp.json")]
        self.environment = {**os.environ, "PICKTOOLS_CACHE_DIR": str(self.folder / "cache")}
        self.process = None
        self.memory_mb = 0
        self.port = 0

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_error):
        self.stop()

    def start(self):
        """Starts the program and waits until it is ready."""
        log = self.folder / "log"
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                self.command, env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            time.sleep(0.05)
            announced = [line for line in log.read_text().splitlines() if "://" in line and line.endswith("/mcp")]
            if announced:
                self.port = int(announced[0].rsplit(":", 1)[1].split("/")[0])
                if self.get("/ready")[0] == 200:
                    return self
        raise TimeoutError(f"the gateway is not ready: {log.read_text()[-2000:]}")

    def get(self, path):
        """Returns status and body of a GET request. The status is 0 if there is no answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def status_bytes(self, name):
        """Returns a size from the status of the process: `VmRSS` is the resident memory, `VmHWM` its peak."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith(f"{name}:"))
        return int(line.split()[1]) * 1024

    def settled_memory(self):
        """Returns the resident memory once it changes by less than 0.2 % in two seconds, or after 15 s."""
        samples = [self.status_bytes("VmRSS")]
        for _ in range(30):
            time.sleep(0.5)
            samples.append(self.status_bytes("VmRSS"))
            latest = samples[-5:]
            if len(latest) == 5 and max(latest) - min(latest) < max(latest) / 500:
                break
        return samples[-1]

    def note_memory(self):
        """Notes the most resident memory that the process ever had, in MB."""
        self.memory_mb = max(self.memory_mb, self.status_bytes("VmHWM") / 1e6)

    def voluntary_switches(self):
        """Returns how often each thread went to sleep so far."""
        switches = {}
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            try:
                status = (task / "status").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            line = next(line for line in status.splitlines() if line.startswith("voluntary_ctxt_switches"))
            switches[task.name] = int(line.split()[1])
        return switches

    def stop(self):
        """Ends the process by SIGTERM. Returns the seconds that it took."""
        started = time.monotonic()
        if self.process and self.process.poll() is None:
            self.note_memory()
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        return time.monotonic() - started


def quantile(times, share):
    times = sorted(times)
    return times[int(share * (len(times) - 1))] if times else float("nan")
