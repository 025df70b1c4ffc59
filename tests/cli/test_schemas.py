"""``inturn store migrate`` makes the tables of installed applications, and of a given app."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from inturn.model.errors import StoreError
from inturn.store.schema import installed_schemas
from tests.cli.support import Cli


def install(folder: Path, name: str, schema: str) -> None:
    """Install a package with an entry point, as pip does it."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[inturn.schemas]\n{name} = {schema}\n")


def write_package(folder: Path, name: str, text: str) -> None:
    package = folder / name
    for engine in ("sqlite", "postgres"):
        (package / "migrations" / engine).mkdir(parents=True)
        (package / "migrations" / engine / "0001_first.sql").write_text(
            f"-- The first.\ncreate table {name}.first (a integer);\n"
        )
    (package / "__init__.py").write_text(text)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder from which Python imports; what is in it is forgotten afterwards."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    for name in ("ledgers", "stocks"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder


def test_migrate_makes_what_is_installed_and_with_an_app_its_own_too(
    cli: Cli, packages: Path
) -> None:
    write_package(
        packages, "ledgers", "import inturn\nMINE = inturn.Schema('ledgers', 'ledgers')\n"
    )
    install(packages, "ledgers", "ledgers:MINE")
    write_package(
        packages,
        "stocks",
        "import inturn\napp = inturn.App('sqlite:///unused.db')\n"
        "MINE = app.schema(inturn.Schema('stocks', 'stocks'))\n",
    )
    before = cli.json("store", "migrate")["schemas"]
    assert before["ledgers"] == 1
    assert "stocks" not in before
    assert cli.json("store", "migrate", "-A", "stocks:app")["schemas"] == before | {"stocks": 1}
    ran = cli("store", "migrate")
    assert ran.code == 0
    assert " and ledgers 1" in ran.out
    assert " and stocks 1" in ran.out


def test_an_installed_schema_that_cannot_be_loaded_is_named(packages: Path) -> None:
    install(packages, "ledgers", "ledgers:MINE")
    with pytest.raises(StoreError, match=r"'ledgers' \(ledgers:MINE\) cannot be loaded"):
        installed_schemas()
    write_package(packages, "ledgers", "MINE = 'ledgers'\n")
    with pytest.raises(StoreError, match=r"'ledgers' \(ledgers:MINE\) is no inturn.Schema"):
        installed_schemas()
