"""Examples in the documentation run, links and cited paths exist, and the types match the stubs."""

import doctest
import functools
import inspect
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator

import picktools
import pytest
from conftest import REPOSITORY

PACKAGE = pathlib.Path(picktools.__file__).parent
PARSER = doctest.DocTestParser()

DOCS = REPOSITORY / "docs"
# The pages that must stay true. The results are records of past runs.
PAGES = sorted(set(DOCS.rglob("*.md")) - {DOCS / "results.md"}) + [
    REPOSITORY / name
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "examples/README.md", "bindings/python/README.md")
]
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMPT = re.compile(r"^\s*>>> ", re.MULTILINE)
CITED = re.compile(r"`((?:crates|src|docs|tests|scripts|fixtures|models|bindings|examples|benches|fuzz|\.ci)/[\w./-]+)(?:::(\w+))?`")


def page_name(page: pathlib.Path) -> str:
    return str(page.relative_to(REPOSITORY))


PAGE_NAMES = [page_name(page) for page in PAGES]


def examples() -> list[tuple[str, str]]:
    """Every docstring that has an example, with what it belongs to."""
    texts = {"picktools": picktools.__doc__ or ""}
    for name in picktools.__all__:
        exported = getattr(picktools, name)
        texts[name] = inspect.getdoc(exported) or ""
        if inspect.isclass(exported):
            texts |= {f"{name}.{member}": inspect.getdoc(getattr(exported, member)) or "" for member in vars(exported)}
    texts |= {page_name(page): page.read_text() for page in PAGES}
    return [(name, text) for name, text in texts.items() if PROMPT.search(text)]


@pytest.mark.parametrize(("name", "text"), examples(), ids=[name for name, _ in examples()])
def test_examples_give_what_they_show(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    test = PARSER.get_doctest(text.replace("```", ""), {"picktools": picktools}, name, name, 0)
    told: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=told.append)
    assert result.attempted > 0 and result.failed == 0, "".join(told)


RECORDED = [name for name in PAGE_NAMES if name.startswith("docs/") and "```console" in (REPOSITORY / name).read_text()]


@pytest.mark.parametrize("name", RECORDED)
def test_console_blocks_show_the_output_of_the_program(name: str, program: pathlib.Path) -> None:
    """`scripts/check-docs --update` records the output again."""
    command = [sys.executable, str(REPOSITORY / "scripts/check-docs"), "--program", str(program), name]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def documented_program_calls(text: str) -> Iterator[list[str]]:
    """Returns the words of each call of the program in a block of commands."""
    for language, block in BLOCK.findall(text):
        if language not in ("console", "sh"):
            continue
        for line in re.sub(r"\\\n", " ", block).splitlines():
            for part in re.split(r"[|&;]\s|&&", re.sub(r"\s#.*$", "", line)):
                part = part.strip().removeprefix("$ ").replace("cargo run --release -- ", "picktools ")
                if not part.startswith("picktools "):
                    continue
                lexer = shlex.shlex(part.split(" -- ")[0], posix=True, punctuation_chars=False)
                lexer.whitespace_split, lexer.commenters = True, ""
                try:
                    yield list(lexer)
                except ValueError:  # a quotation that the split cut
                    yield part.split()


@pytest.mark.parametrize("name", PAGE_NAMES)
def test_documented_options_exist(name: str, program: pathlib.Path) -> None:
    @functools.cache
    def options(*command: str) -> set[str]:
        help_text = subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True).stdout
        return set(re.findall(r"--[a-z][a-z0-9-]*", help_text)) | {"--index"}

    for words in documented_program_calls((REPOSITORY / name).read_text()):
        if len(words) < 2 or not re.fullmatch("[a-z]+", words[1]):
            continue
        command = words[1:3] if words[1] in ("import", "store", "models") else words[1:2]
        used = {word.split("=")[0] for word in words[2:] if re.match("--[a-z]", word)}
        assert used <= options(*command), f"{' '.join(words)}: {used - options(*command)}"


def anchors(page: pathlib.Path) -> set[str]:
    """Returns the anchors of the headings of a page, as GitHub and mdBook make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", [*PAGE_NAMES, "docs/results.md"])
def test_relative_links_lead_somewhere(name: str) -> None:
    page = REPOSITORY / name
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("name", [name for name in PAGE_NAMES if name != "CHANGELOG.md"])
def test_cited_paths_and_tests_exist(name: str) -> None:
    missing = []
    for path, function in CITED.findall((REPOSITORY / name).read_text()):
        if re.search(r"[A-Z]{4,}", path.removesuffix("README.md").removesuffix("SKILL.md")):
            continue  # a placeholder such as NAME.rs
        target = REPOSITORY / path
        if not target.exists() or (function and not re.search(rf"\bfn {function}\b", target.read_text())):
            missing.append(f"{path}::{function}" if function else path)
    assert not missing


def test_summary_lists_every_page() -> None:
    listed = {DOCS / path for path in re.findall(r"\]\(([^)]+)\)", (DOCS / "SUMMARY.md").read_text())}
    assert listed == set(DOCS.rglob("*.md")) - {DOCS / "SUMMARY.md"}


def test_everything_public_is_documented_and_declared() -> None:
    stub = (PACKAGE / "_native.pyi").read_text()
    for name in picktools.__all__:
        exported = getattr(picktools, name)
        if inspect.isclass(exported):
            assert exported.__doc__, name
            if exported.__module__ == "picktools":
                for member in vars(exported):
                    if not member.startswith("_"):
                        assert f"def {member}(" in stub, f"{name}.{member}"
                        assert getattr(exported, member).__doc__, f"{name}.{member}"


USE = '''
import picktools

catalog = picktools.Catalog.from_tools([{"name": "a"}], source="b")
engine = picktools.Engine(catalog, model=lambda texts: [[1.0] for _ in texts])
for pick in engine.pick("x", k=3, access={"roles": ["admin"]}, min_score=0.1):
    name: str = pick.tool.name
    score: float = pick.score
translated = engine.translate("openai", engine.pick("x"))
calls: list[picktools.Call] = engine.validate([], translation=translated)

async def awaited() -> picktools.Selection:
    return await engine.apick("x")
'''
MISUSE = '''
import picktools
catalog = picktools.Catalog.from_tools([], conflicts="maybe")
picktools.Engine("catalog")
picktools.Engine(catalog).pick("x", access={"role": "admin"})
picktools.Engine(catalog).translate("opnai")
'''


def test_mypy_takes_the_right_and_refuses_the_wrong(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "use.py").write_text(USE)
    (tmp_path / "misuse.py").write_text(MISUSE)

    def faults(*paths: pathlib.Path | str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), *map(str, paths)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    right = faults(tmp_path / "use.py")
    assert right.returncode == 0, right.stdout
    wrong = faults(tmp_path / "misuse.py").stdout
    assert [line.split(":")[1] for line in wrong.splitlines() if ": error:" in line] == ["3", "4", "5", "6"], wrong


def test_mypy_takes_the_package_itself(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "--package", "picktools"]
    told = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert told.returncode == 0, told.stdout


def test_pyright_takes_the_stubs_in_strict_mode(tmp_path: pathlib.Path) -> None:
    pyright = shutil.which("pyright")
    if pyright is None:
        pytest.skip("there is no pyright")
    (tmp_path / "use.py").write_text(USE)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
    command = [pyright, "--outputjson", "--pythonpath", sys.executable]
    told = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    faults = json.loads(told.stdout)["generalDiagnostics"]
    assert [f["message"] for f in faults if f["severity"] == "error"] == []
