"""Examples in the documentation run, and the types are what they are said to be."""

import doctest
import inspect
import json
import pathlib
import shutil
import subprocess
import sys

import picktools
import pytest
from conftest import REPOSITORY

PACKAGE = pathlib.Path(picktools.__file__).parent
PARSER = doctest.DocTestParser()


def examples() -> list[tuple[str, str]]:
    """Every docstring that has an example, with what it belongs to."""
    texts = {"picktools": picktools.__doc__ or ""}
    for name in picktools.__all__:
        exported = getattr(picktools, name)
        texts[name] = inspect.getdoc(exported) or ""
        if inspect.isclass(exported):
            texts |= {f"{name}.{member}": inspect.getdoc(getattr(exported, member)) or "" for member in vars(exported)}
    texts["README.md"] = (REPOSITORY / "bindings/python/README.md").read_text()
    return [(name, text) for name, text in texts.items() if ">>>" in text]


@pytest.mark.parametrize(("name", "text"), examples(), ids=[name for name, _ in examples()])
def test_examples_give_what_they_show(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    test = PARSER.get_doctest(text.replace("```", ""), {"picktools": picktools}, name, name, 0)
    told: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=told.append)
    assert result.attempted > 0 and result.failed == 0, "".join(told)


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
