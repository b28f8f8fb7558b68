"""Common fixtures: the catalog, the engine and the program."""

import os
import pathlib

import picktools
import pytest

REPOSITORY = pathlib.Path(__file__).parents[3]
WORKPLACE = REPOSITORY / "fixtures" / "catalogs" / "workplace"


@pytest.fixture(scope="session")
def catalog() -> picktools.Catalog:
    return picktools.Catalog.open(WORKPLACE)


@pytest.fixture(scope="session")
def engine(catalog: picktools.Catalog) -> picktools.Engine:
    return picktools.Engine(catalog)


@pytest.fixture(scope="session")
def program() -> pathlib.Path:
    """Returns the path of the built program."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    # `cargo test` builds it in debug, `cargo build --release` in release.
    paths = [target / profile / "picktools" for profile in ("debug", "release")]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        if "CI" in os.environ:
            pytest.fail(f"no program at {paths[0]}; build it with cargo build")
        pytest.skip(f"no program at {paths[0]}")
    return path
