"""Measures the gateway beside other gateways, on standard input and output and with the same servers.

usage: scripts/measure-load.py rivals [--program PROGRAM] [--json]

Installs the other gateways from PyPI in target/rivals. One that cannot be installed is reported and left out. All of them
list all tools of one server.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import generator
from rows import Bench

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "target/rivals"
# The package with its version, and the command in front of the configuration.
RIVALS = {"FastMCP 4.2.3": ("fastmcp==4.2.3", ["fastmcp", "run", "--no-banner"])}
FIGURES = {
    "first list, 20 tools": "ms",
    "one call, p50": "ms",
    "memory, 20 tools": "MiB",
    "first list, 5,000 tools": "ms",
    "whole list of 5,000 tools": "ms",
    "memory, 5,000 tools": "MiB",
}


def install(package):
    """Installs a package in an environment of its own, and returns the folder of its programs."""
    folder = FOLDER / package
    programs = folder / "bin"
    if not (folder / "installed").exists():
        venv.create(folder, with_pip=True, clear=True)
        command = [programs / "python", "-m", "pip", "install", "--quiet", package]
        subprocess.run(command, check=True, timeout=600)
        (folder / "installed").touch()
    return programs


def measure(run, tool):
    """Returns the figures of a gateway that `run` starts with a number of tools."""
    small, large = run(20, tool=tool, requests=1_000), run(5_000)
    return {
        "first list, 20 tools": small["first_list_ms"],
        "one call, p50": small["calls"]["p50_ms"],
        "memory, 20 tools": small["memory_mib"],
        "first list, 5,000 tools": large["first_list_ms"],
        "whole list of 5,000 tools": large["list_ms"],
        "memory, 5,000 tools": large["memory_mib"],
    }


def measure_program(program, folder):
    bench = Bench(program.resolve(), folder)

    def run(tools, **options):
        servers = {"load": generator.server(tools=tools)}
        return bench.stdio(servers, "pass-through", f"picktools-{tools}", tools=tools, **options)

    return measure(run, "load__echo")


def measure_rival(package, command, folder):
    programs = install(package)

    def run(tools, **options):
        config = folder / f"{package}-{tools}.json"
        config.write_text(json.dumps({"mcpServers": {"load": generator.server(tools=tools)}}))
        full_command = [programs / command[0], *command[1:], config]
        return generator.run("stdio", full_command, tools=tools, **options)

    return measure(run, "echo")


def main(given):
    arguments = argparse.ArgumentParser(
        description=__doc__, usage=argparse.SUPPRESS, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--program", type=Path, default=ROOT / "target/release/picktools")
    arguments.add_argument("--json", action="store_true")
    options = arguments.parse_args(given)
    if not options.program.is_file():
        sys.exit(f"error: there is no program {options.program}")
    generator.build()
    measured, problems = {}, {}
    with tempfile.TemporaryDirectory(prefix="measure-load-") as folder:
        measured["picktools"] = measure_program(options.program, Path(folder))
        for name, (package, command) in RIVALS.items():
            try:
                measured[name] = measure_rival(package, command, Path(folder))
            except (OSError, subprocess.SubprocessError, generator.GeneratorError) as error:
                problems[name] = f"{type(error).__name__}: {error}"
    if options.json:
        print(json.dumps({"figures": measured, "problems": problems}))
        return 0
    print("| | " + " | ".join(measured) + " |")
    print("|---" * (len(measured) + 1) + "|")
    for figure, unit in FIGURES.items():
        values = " | ".join(f"{figures[figure]:,.2f} {unit}" for figures in measured.values())
        print(f"| {figure} | {values} |")
    for name, problem in problems.items():
        print(f"\n{name} is left out: {problem}")
    return 0
