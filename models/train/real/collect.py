"""Collects the tool definitions of the MCP servers in servers.tsv, from packages of npm and PyPI.

usage: python collect.py OUT [--only ID]... [--jobs N] [--cache FOLDER] [--keep-installs] [--fresh]

For each row of servers.tsv, it installs the exact version into the cache folder, starts the server over stdio without a
network, sends `initialize` and `tools/list`, and removes the installation. It writes

- OUT/tools.jsonl: one tool a line, in the form of a benchmark set, servers in the order of servers.tsv, tools by name;
- OUT/servers.jsonl: one server a line: package, version, licence, and what the server says about itself;
- OUT/failed.tsv: the servers without definitions, and the reason.

Keep OUT outside the repository: definitions belong to their authors. A collected server is cached, so an interrupted run
continues, and one that failed is tried again. Needs Linux, Python 3.13, node, npm 11.10, uv and util-linux (`unshare`, `setpriv`).
"""

import argparse
import concurrent.futures
import csv
import hashlib
import importlib.metadata
import json
import os
import queue
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROWS = Path(__file__).resolve().parent / "servers.tsv"
INSTALL_SECONDS = 180
INSTALL_MEGABYTES = 320
SERVER_SECONDS = 60
OLDEST_NPM = [11, 10]
PROTOCOL = "2025-11-25"
# The only packages that may be built from their sources: many servers need them, and they have no wheels.
BUILT = ("langdetect", "pyaes", "sgmllib3k")
# In new namespaces, only loopback and the server's own folder remain usable; all other file systems are read-only, sockets in
# /run are hidden, and the capabilities to change that are dropped.
SANDBOX = """
ip link set lo up 2>/dev/null
cut -d' ' -f2 /proc/self/mounts | grep -v -E '^/(proc|dev)(/|$)' | while read -r point; do
    mount -o remount,bind,ro "$point" || exit 126
done || exit 126
mount -t tmpfs none /dev/shm && mount -t tmpfs none /run && mount --bind "$1" "$1" && mount -o remount,bind,rw "$1" || exit 126
shift
exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all -- "$@"
"""
GOOGLE_CLIENT = {
    "client_id": "dummy.apps.googleusercontent.com",
    "client_secret": "dummy0000",
    "project_id": "dummy",
    "auth_uri": "https://dummy.invalid/auth",
    "token_uri": "https://dummy.invalid/token",
    "redirect_uris": ["http://localhost:3000/oauth2callback"],
}
KUBECONFIG = """apiVersion: v1
kind: Config
clusters: [{name: dummy, cluster: {server: "http://127.0.0.1:6443"}}]
users: [{name: dummy, user: {token: dummy}}]
contexts: [{name: dummy, context: {cluster: dummy, user: dummy}}]
current-context: dummy
"""


class CollectError(Exception):
    """A reason why a server has no definitions."""


def load_rows():
    with open(ROWS, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    names = [row["id"] for row in rows]
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        sys.exit(f"error: duplicate server ids in {ROWS.name}: {', '.join(duplicates)}")
    return rows


def run_quietly(command, environment, folder):
    """Runs an install command; its errors are the reason if it fails."""
    try:
        result = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=INSTALL_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise CollectError(f"the installation took over {INSTALL_SECONDS} s")
    if result.returncode:
        lines = [line.strip() for line in (result.stderr or result.stdout).splitlines() if line.strip()]
        raise CollectError(f"cannot install: {' '.join(lines)[:300]}")


def install(row, folder, cache):
    environment = os.environ | {
        "npm_config_cache": str(cache / "npm"),
        "UV_CACHE_DIR": str(cache / "uv"),
        "UV_PYTHON_DOWNLOADS": "never",
        "HOME": str(folder / "home"),
    }
    if row["registry"] == "npm":
        command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--allow-git=none"]
        command += ["--before", row["as_of"], f"{row['package']}@{row['version']}"]
        (folder / "package.json").write_text("{}")
        run_quietly(command, environment, folder)
    else:
        run_quietly(["uv", "venv", "--quiet", "--python", sys.executable, "venv"], environment, folder)
        command = ["uv", "pip", "install", "--quiet", "--python", "venv/bin/python", "--exclude-newer", row["as_of"]]
        command += ["--only-binary", ":all:", *(f"--no-binary={name}" for name in BUILT)]
        command.append(f"{row['package']}=={row['version']}")
        run_quietly(command, environment, folder)
    size = sum(path.lstat().st_size for path in folder.rglob("*")) // 1_000_000
    if size > INSTALL_MEGABYTES:
        raise CollectError(f"the installation has {size} MB, over {INSTALL_MEGABYTES} MB")


def stated_licence(row, folder):
    """Reads the licence from the metadata of the installed package, or else from its licence file."""
    if row["registry"] == "npm":
        installed = folder / "node_modules" / row["package"]
        licence = json.loads((installed / "package.json").read_text(encoding="utf-8")).get("license") or ""
        licence = licence if isinstance(licence, str) else licence.get("type", "")
    else:
        metadata = python_package(row, folder).metadata
        named = [text.split("::")[-1] for text in metadata.get_all("Classifier", []) if text.startswith("License")]
        licence = (metadata.get("License-Expression") or metadata.get("License") or " ".join(named)).strip()
        name = row["package"].replace("-", "_").replace(".", "_")
        installed = next(folder.glob(f"venv/lib/*/site-packages/{name}-*.dist-info"), folder)
    if licence:
        return licence.splitlines()[0].strip()[:80]
    files = sorted(path for path in installed.rglob("LICEN[SC]E*") if "node_modules" not in path.relative_to(installed).parts)
    if not files:
        return "not stated"
    return "LICENSE file: " + " ".join(files[0].read_text(encoding="utf-8", errors="replace").split())[:60]


def python_package(row, folder):
    """Finds the metadata of a package of PyPI. The installed Python is not asked, because it would run code of the package."""
    paths = [str(path) for path in folder.glob("venv/lib/*/site-packages")]
    for package in importlib.metadata.distributions(name=row["package"], path=paths):
        return package
    raise CollectError("the package has no metadata")


def write_dummies(folder):
    """Writes the files that servers want to see before they list their tools: no credential works."""
    dummy = folder / "dummy"
    dummy.mkdir()
    token = {"access_token": "dummy", "refresh_token": "dummy", "expiry_date": 4102444800000, "token_type": "Bearer"}
    user = {"type": "authorized_user", "refresh_token": "dummy", "token": "dummy"} | GOOGLE_CLIENT
    (dummy / "oauth.json").write_text(json.dumps({"installed": GOOGLE_CLIENT}))
    (dummy / "token.json").write_text(json.dumps(token))
    (dummy / "user.json").write_text(json.dumps(user))
    (dummy / "kubeconfig").write_text(KUBECONFIG)
    (dummy / "note.md").write_text("# Note\n")
    (dummy / "x.db").touch()
    (dummy / "files").mkdir()


def package_program(row, folder):
    """Returns the name of the package's program: its only one, or the one with the name of the package."""
    base = row["package"].split("/")[-1]
    if row["registry"] == "npm":
        package = json.loads((folder / "node_modules" / row["package"] / "package.json").read_text(encoding="utf-8"))
        programs = package.get("bin") or {}
        names = [base] if isinstance(programs, str) else list(programs)
    else:
        names = [entry.name for entry in python_package(row, folder).entry_points if entry.group == "console_scripts"]
    if len(names) == 1:
        return names[0]
    if base in names:
        return base
    raise CollectError(f"name the program in the command; the package has: {', '.join(names) or 'none'}")


def server_command(row, folder):
    words = [word.replace("{folder}", str(folder)) for word in shlex.split(row["command"])]
    if words[0] == "{program}":
        words[0] = package_program(row, folder)
    programs = folder / ("node_modules/.bin" if row["registry"] == "npm" else "venv/bin")
    if (programs / words[0]).exists():
        words[0] = str(programs / words[0])
    isolate = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid():
        isolate.append("--map-root-user")
    return [*isolate, "sh", "-c", SANDBOX, "sh", str(folder), *words]


def server_environment(row, folder):
    values = dict(word.split("=", 1) for word in shlex.split(row["environment"]) if word != "-")
    values = {name: value.replace("{folder}", str(folder)) for name, value in values.items()}
    programs = [folder / "node_modules/.bin", folder / "venv/bin"]
    defaults = {
        "PATH": os.pathsep.join([*map(str, programs), os.environ["PATH"]]),
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "home/tmp"),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        # Sets of Python appear in some schemas; their order must not change between runs.
        "PYTHONHASHSEED": "0",
    }
    return defaults | values


class Connection:
    """A JSON-RPC connection to a server process over stdio."""

    def __init__(self, command, environment, folder):
        self.deadline = time.monotonic() + SERVER_SECONDS
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command,
            cwd=folder / "home",
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            start_new_session=True,
        )
        self.lines = queue.Queue()
        self.last_id = 0
        threading.Thread(target=self.read_lines, daemon=True).start()

    def read_lines(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def send(self, message):
        try:
            self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise CollectError(f"the server ended: {self.last_words()}")

    def request(self, method, params):
        self.last_id += 1
        self.send({"id": self.last_id, "method": method, "params": params})
        while True:
            message = self.next_message(method)
            if "method" in message and "id" in message:
                self.answer(message)
            elif message.get("id") == self.last_id:
                if "error" in message:
                    raise CollectError(f"{method} failed: {json.dumps(message['error'])[:300]}")
                return message["result"]

    def next_message(self, method):
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, self.deadline - time.monotonic()))
            except queue.Empty:
                raise CollectError(f"no answer to {method} within {SERVER_SECONDS} s: {self.last_words()}")
            if line is None:
                raise CollectError(f"the server ended: {self.last_words()}")
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if isinstance(message, dict):
                return message

    def answer(self, message):
        """Answers a request of the server: this client has no roots and nothing else to offer."""
        if message["method"] == "ping":
            self.send({"id": message["id"], "result": {}})
        elif message["method"] == "roots/list":
            self.send({"id": message["id"], "result": {"roots": []}})
        else:
            self.send({"id": message["id"], "error": {"code": -32601, "message": "not supported"}})

    def last_words(self):
        self.errors.seek(0)
        lines = [line.strip() for line in self.errors.read().decode(errors="replace").splitlines()]
        telling = [line for line in lines if line and not line.startswith(("at ", "Node.js v", "}", "{", "^"))]
        named = [line for line in telling if "error" in line.lower() or "missing" in line.lower()]
        return " / ".join([*named[:2], *telling[-2:]])[:300] or "it printed no error"

    def close(self):
        self.process.kill()
        self.process.wait()
        self.errors.close()


def list_tools(connection):
    tools, cursor = [], None
    while True:
        page = connection.request("tools/list", {"cursor": cursor} if cursor else {})
        tools += page["tools"]
        cursor = page.get("nextCursor")
        if not cursor:
            return tools


def tools_of_server(row, folder):
    connection = Connection(server_command(row, folder), server_environment(row, folder), folder)
    try:
        client = {"name": "picktools-collect", "version": "1"}
        params = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client}
        about = connection.request("initialize", params)
        connection.send({"method": "notifications/initialized"})
        tools = list_tools(connection)
        # Some servers add their tools after the client has connected.
        while not tools and time.monotonic() < connection.deadline - SERVER_SECONDS + 10:
            time.sleep(1)
            tools = list_tools(connection)
    finally:
        connection.close()
    if not tools:
        raise CollectError("the server lists no tools")
    return about, tools


def tool_record(row, tool):
    record = {"id": f"{row['id']}/{tool['name']}", "name": tool["name"]}
    annotations = dict(tool.get("annotations") or {})
    title = tool.get("title") or annotations.pop("title", None)
    annotations.pop("title", None)
    if title:
        record["title"] = title
    record["description"] = tool.get("description") or ""
    record["parameters"] = tool.get("inputSchema") or {"type": "object", "properties": {}}
    record["source"] = row["id"]
    if annotations:
        record["annotations"] = annotations
    return record


def server_record(row, about, licence):
    info = about.get("serverInfo") or {}
    return {
        "server": row["id"],
        "package": row["package"],
        "version": row["version"],
        "licence": licence,
        "title": info.get("title"),
        "name": info.get("name"),
        "description": info.get("description"),
        "website": info.get("websiteUrl"),
        "instructions": about.get("instructions"),
    }


def collect(row, options):
    """Installs a server and returns its records."""
    folder = options.cache / "installs" / row["id"]
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "home/tmp").mkdir(parents=True)
    try:
        install(row, folder, options.cache)
        write_dummies(folder)
        licence = stated_licence(row, folder)
        about, tools = tools_of_server(row, folder)
    finally:
        if not options.keep_installs:
            shutil.rmtree(folder, ignore_errors=True)
    by_name = {tool["name"]: tool_record(row, tool) for tool in tools}
    # Texts name the folders of the machine that collected them; a rerun elsewhere must give the same.
    text = json.dumps({"server": server_record(row, about, licence), "tools": [by_name[name] for name in sorted(by_name)]})
    return json.loads(text.replace(str(folder), "/data"))


def cached_path(row, options):
    recipe = {name: value for name, value in row.items() if name != "licence"}
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]
    return options.cache / "collected" / f"{row['id']}-{digest}.json"


def load_outcome(row, options):
    """Reads what the cache has about a server: its records, the reason of a failure, or nothing."""
    path = cached_path(row, options)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def collect_or_report(row, options):
    """Collects a server, or writes why it failed, into the cache."""
    path = cached_path(row, options)
    began = time.monotonic()
    try:
        outcome = collect(row, options)
        progress = f"{len(outcome['tools'])} tools"
    # A server may answer with anything; its errors must not end the collection of the others.
    except Exception as error:
        reason = " ".join(str(error).replace(str(options.cache), "CACHE").split())
        outcome = {"failed": reason or type(error).__name__}
        progress = f"failed: {outcome['failed']}"
    if "server" in outcome or "server" not in load_outcome(row, options):
        # Renaming replaces the file at once, so an interruption leaves no incomplete file.
        new = path.with_suffix(".new")
        new.write_text(json.dumps(outcome, ensure_ascii=False), encoding="utf-8")
        new.replace(path)
    print(f"{row['id']}: {progress} ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)


def write_output(rows, options):
    """Writes all that has been collected, in the order of servers.tsv, and returns the totals."""
    servers, tools, failures = [], [], []
    for row in rows:
        outcome = load_outcome(row, options)
        if "failed" in outcome:
            failures.append(f"{row['id']}\t{row['package']}\t{outcome['failed']}\n")
        if "server" not in outcome:
            continue
        servers.append(json.dumps(outcome["server"], ensure_ascii=False) + "\n")
        tools += [json.dumps(tool, ensure_ascii=False) + "\n" for tool in outcome["tools"]]
    for name, lines in (("servers.jsonl", servers), ("tools.jsonl", tools), ("failed.tsv", failures)):
        (options.out / name).write_text("".join(lines), encoding="utf-8")
    return f"{len(servers)} servers, {len(tools)} tools, {len(failures)} failed"


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", action="append", metavar="ID", help="collect this server again; may be repeated")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="servers at a time")
    parser.add_argument("--cache", type=Path, default=Path("target/real-servers"), metavar="FOLDER")
    parser.add_argument("--keep-installs", action="store_true", help="keep what was installed, for looking into it")
    parser.add_argument("--fresh", action="store_true", help="collect again what the cache holds")
    options = parser.parse_args()
    options.cache = options.cache.resolve()
    return options


def main():
    options = read_options()
    missing = [name for name in ("node", "npm", "uv", "unshare", "setpriv") if not shutil.which(name)]
    if missing:
        sys.exit(f"error: missing programs: {', '.join(missing)}")
    # Older versions of npm ignore --allow-git.
    version = subprocess.run(["npm", "--version"], capture_output=True, text=True).stdout.strip()
    if [int(part) for part in version.split(".")[:2]] < OLDEST_NPM:
        sys.exit(f"error: npm {version} is too old: at least {OLDEST_NPM[0]}.{OLDEST_NPM[1]} is needed")
    rows = load_rows()
    unknown = set(options.only or []) - {row["id"] for row in rows}
    if unknown:
        sys.exit(f"error: no such server in {ROWS.name}: {', '.join(sorted(unknown))}")
    options.out.mkdir(parents=True, exist_ok=True)
    (options.cache / "collected").mkdir(parents=True, exist_ok=True)
    if options.only:
        wanted = [row for row in rows if row["id"] in options.only]
    else:
        wanted = [row for row in rows if options.fresh or "server" not in load_outcome(row, options)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda row: collect_or_report(row, options), wanted))
    print(write_output(rows, options), file=sys.stderr)


if __name__ == "__main__":
    main()
