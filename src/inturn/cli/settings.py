"""Where settings come from: flags, then ``INTURN_*`` variables, then pyproject.toml."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from inturn.cli.pyproject import WorkTable, tables_above
from inturn.model.errors import BadInput
from inturn.model.spelling import did_you_mean
from inturn.store.address import without_password

PREFIX = "INTURN_"
VARIABLE = f"{PREFIX}STORE"
FLAG = "--store"
_LEFT_ALONE = (f"{PREFIX}TEST_", f"{PREFIX}DEMO_")  # for tests, and what the demo tells its workers
_SQLITE = "sqlite:///"
_PARAMETERS = {"app": "target", "queues": "queue"}


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a store, and who named it."""

    url: str
    source: str

    def shown(self) -> str:
        """Return the address without its password."""
        return without_password(self.url)


def here() -> Path:
    """Return the folder that the command was called in."""
    try:
        return Path.cwd()
    except FileNotFoundError:  # someone removed it; a store may be named all the same
        return Path("/")


def look_for_address(
    flag: str | None, *, environment: Mapping[str, str], folder: Path
) -> Address | None:
    """Return the address that the flag, the environment or a pyproject.toml names, in this order.

    The pyproject.toml is that of the folder, or the nearest above it that names a store.
    """
    if flag:
        return Address(url=flag, source=FLAG)
    if url := environment.get(VARIABLE):
        return Address(url=url, source=VARIABLE)
    for path, table in tables_above(folder):
        if table.store:
            return Address(url=_seen_from(table.store, path.parent, folder), source=str(path))
    return None


def find_address(flag: str | None, *, environment: Mapping[str, str], folder: Path) -> Address:
    """Return the address that is named somewhere; refuse to guess when none is."""
    found = look_for_address(flag, environment=environment, folder=folder)
    if found is not None:
        return found
    raise BadInput(
        "no store is named. Pass --store sqlite:///work.db or --store postgresql://user@host/db, "
        f'set {VARIABLE}, or write `store = "…"` under [tool.inturn] in pyproject.toml.'
    )


def work_defaults(folder: Path) -> dict[str, Any]:
    """Return the options of ``inturn work`` that the nearest pyproject.toml with any sets."""
    home, table = _work_table(folder)
    said = msgspec.structs.asdict(table)
    if table.health_file is not None and home != folder:
        said["health_file"] = str(home / table.health_file)
    return {_PARAMETERS.get(name, name): one for name, one in said.items() if one is not None}


def work_home(folder: Path) -> Path:
    """Return the folder of the pyproject.toml with the options of ``inturn work``, or this one."""
    return _work_table(folder)[0]


def _work_table(folder: Path) -> tuple[Path, WorkTable]:
    for path, table in tables_above(folder):
        if table.work is not None:
            return path.parent, table.work
    return folder, WorkTable()


def unknown_variables(environment: Mapping[str, str], known: Collection[str]) -> Iterator[str]:
    """Say of each variable that looks like inturn's and is not that it does nothing."""
    for name in sorted(environment):
        if name.startswith(PREFIX) and not name.startswith(_LEFT_ALONE) and name not in known:
            others = f" Those that do are {', '.join(sorted(known))}."
            meant = did_you_mean(name, known, prefix=PREFIX)
            yield f"the variable {name} does nothing.{meant or others}"


def _seen_from(url: str, home: Path, folder: Path) -> str:
    """Return a URL whose file is named relative to ``home`` as it is to be named in ``folder``."""
    name = url.removeprefix(_SQLITE)
    if home == folder or name == url or name.startswith(("/", ":memory:")):
        return url
    return f"{_SQLITE}{home / name}"
