#!/usr/bin/env python3
"""Measures the gateway under load, and compares the figures with their targets.

usage: scripts/measure-load.py [ROW ...] [--program PROGRAM] [--against PROGRAM] [--json]
       scripts/measure-load.py soak [--seconds N] [--program PROGRAM] [--json]
       scripts/measure-load.py isolation [--minutes M] [--restarts N] [--program PROGRAM] [--store URL] [--json]
       scripts/measure-load.py rivals [--program PROGRAM] [--json]

ROW        A row of the table; by default all of them, which takes about three minutes a program. Each row measures both
           programs in turn. A row that fails is reported below the table, and the others go on. The rows are:
           {rows}
soak       A steady client beside a chatty, a slow, a dead and a hostile server and two greedy clients. Prints the steady
           client's times and the memory of the gateway over time.
isolation  What one key notices of another one and of a hostile server, and of restarts.
rivals     Other gateways with the same servers.

Needs Linux, Python 3.9 and cargo, which builds the load generator (crates/testing/src/bin/load), and
target/release/picktools or another --program. The exit status is 1 if a row fails or a floor of soak or isolation breaks.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts/load"))
import generator
import isolation
import rivals
import soak
from rows import ROWS, Bench

RELATIVE_TOLERANCE = 1.1


def say(text):
    print(f"measure-load: {text}", file=sys.stderr, flush=True)


def measure(row, programs, problems):
    """Measures a row with each program. Returns the figures by the name of the program."""
    _, function, _ = ROWS[row]
    measured = {}
    for name, program in programs.items():
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="measure-load-") as folder:
            try:
                measured[name] = function(Bench(program, Path(folder)))
            except (OSError, ValueError, LookupError, subprocess.SubprocessError, generator.GeneratorError) as error:
                measured[name] = {}
                problems.append(f"{row}, {name}: cannot be measured: {type(error).__name__}: {error}")
        if note := measured[name].get("note"):
            problems.append(f"{row}, {name}: {' '.join(note.split())}")
        say(f"{row}, {name}: {time.monotonic() - started:.0f} s")
    return measured


def is_met(figure, value, rival):
    """Returns whether a figure meets its target, or `None` if it has no target or was not measured."""
    target = figure.target
    if figure.is_relative and rival is not None:
        target = rival * RELATIVE_TOLERANCE
    if value is None or target is None:
        return None
    return value >= target if figure.is_minimum else value <= target


def lines_of(row, measured, against):
    """Returns the lines of the table for a row."""
    title, _, figures = ROWS[row]
    for key, figure in figures.items():
        values = {name: figures_of.get(key) for name, figures_of in measured.items()}
        program = next(iter(measured))
        rival = values.get(against)
        yield {
            "row": row, "figure": f"{title}: {figure.text}", "unit": figure.unit, "target": figure.target,
            "is_minimum": figure.is_minimum, "is_relative": figure.is_relative, "values": values,
            "is_met": is_met(figure, values[program], rival),
        }


def shown(value, unit):
    if value is None:
        return "—"
    if abs(value) >= 100 or value == int(value):
        number = f"{value:,.0f}"
    else:
        number = f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
    return f"{number} {unit}".rstrip()


def print_table(lines, programs):
    names = list(reversed(programs))
    print("| | " + " | ".join(names) + " | target | met |")
    print("|---" * (len(names) + 3) + "|")
    for line in lines:
        unit = line["unit"]
        target = "—"
        if line["target"] is not None:
            target = f"{'≥' if line['is_minimum'] else '≤'} {shown(line['target'], unit)}"
        if line["is_relative"] and len(names) > 1:
            target = "no worse"
        values = " | ".join(shown(line["values"][name], unit) for name in names)
        met = {None: "—", True: "yes", False: "**no**"}[line["is_met"]]
        print(f"| {line['figure']} | {values} | {target} | {met} |")


def programs_by_name(options):
    """Returns the programs by the names of their columns, the measured one first."""
    programs = [options.program, *([options.against] if options.against else [])]
    for program in programs:
        if not program.is_file():
            sys.exit(f"error: there is no program {program}")
    names = [program.name for program in programs]
    if len(set(names)) < len(names):
        names = [str(program) for program in programs]
    return dict(zip(names, (program.resolve() for program in programs)))


def measure_table(given):
    text = __doc__.format(rows=" ".join(ROWS))
    arguments = argparse.ArgumentParser(
        description=text, usage=argparse.SUPPRESS, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("rows", nargs="*", metavar="ROW")
    arguments.add_argument("--program", type=Path, default=ROOT / "target/release/picktools")
    arguments.add_argument("--against", type=Path)
    arguments.add_argument("--json", action="store_true")
    options = arguments.parse_args(given)
    if unknown := set(options.rows) - set(ROWS):
        arguments.error(f"unknown row: {', '.join(sorted(unknown))}")
    programs = programs_by_name(options)
    against = list(programs)[1] if options.against else None
    generator.build()
    lines, problems = [], []
    for row in options.rows or ROWS:
        lines += lines_of(row, measure(row, programs, problems), against)
    if options.json:
        print(json.dumps({"lines": lines, "problems": problems}))
    else:
        print_table(lines, programs)
        print("".join(f"\n{problem}" for problem in problems), end="\n" if problems else "")
    return 1 if any("cannot be measured" in problem for problem in problems) else 0


def main():
    commands = {"soak": soak.main, "isolation": isolation.main, "rivals": rivals.main}
    command = commands.get(sys.argv[1] if len(sys.argv) > 1 else None)
    sys.exit(command(sys.argv[2:]) if command else measure_table(sys.argv[1:]))


if __name__ == "__main__":
    main()
