"""The load generator, a program of the crate picktools-testing."""

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "target/debug/picktools-load"
# The most seconds that a command may take.
TIMEOUT_S = 60


class GeneratorError(Exception):
    """A command of the load generator that failed."""


def build():
    """Builds the load generator. The dev profile optimizes it, too."""
    command = ["cargo", "build", "--quiet", "--package", "picktools-testing", "--bin", "picktools-load"]
    subprocess.run(command, cwd=ROOT, check=True)


def run(command, command_line=(), **options):
    """Runs a command of the load generator and returns its figures."""
    arguments = [PROGRAM, command, *option_list(options)]
    if command_line:
        arguments += ["--", *map(str, command_line)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:
        raise GeneratorError(done.stderr.strip()[-500:] or f"exit status {done.returncode}")
    return json.loads(done.stdout)


def start(command, **options):
    """Starts a command of the load generator, with pipes to its standard input and output."""
    arguments = [PROGRAM, command, *option_list(options)]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def stop(process):
    """Ends a command that was started."""
    process.kill()
    process.wait()


def server(**options):
    """Returns the configuration of a synthetic MCP server."""
    return {"command": str(PROGRAM), "args": ["upstream", *option_list(options)]}


def write_catalog(path, tools):
    """Writes a catalog of synthetic tools."""
    with open(path, "wb") as output:
        subprocess.run([PROGRAM, "catalog", "--tools", str(tools)], stdout=output, check=True, timeout=TIMEOUT_S)
    return path


def option_list(options):
    """Returns options of Python as those of a command line."""
    return [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", str(value))]
