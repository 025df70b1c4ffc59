"""Where the store's address comes from: --store, then INTURN_STORE, then pyproject.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from inturn.model.errors import BadInput
from inturn.store.address import without_password

VARIABLE = "INTURN_STORE"
_SQLITE = "sqlite:///"
_PARAMETERS = {"app": "target", "queues": "queue"}


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a store, and who named it."""

    url: str
    source: str

    def shown(self) -> str:
        """Return the address without its password."""
        return without_password(self.url)


class WorkTable(msgspec.Struct, forbid_unknown_fields=True, rename="kebab", omit_defaults=True):
    """What ``[tool.inturn.work]`` in a pyproject.toml may say: the options of ``inturn work``."""

    app: str | None = None
    queues: list[str] | None = None
    slots: int | None = None
    lease: str | None = None
    sweep: str | None = None
    processes: int | str | None = None
    health_file: str | None = None
    health_port: int | None = None
    health_host: str | None = None


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
        return Address(url=flag, source="--store")
    if url := environment.get(VARIABLE):
        return Address(url=url, source=VARIABLE)
    for above in (folder, *folder.parents):
        path = above / "pyproject.toml"
        if path.is_file() and (url := _named_in(path)):
            return Address(url=_seen_from(url, above, folder), source=str(path))
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
    for above in (folder, *folder.parents):
        path = above / "pyproject.toml"
        if path.is_file() and (found := _table(path).get("work")) is not None:
            try:
                table = msgspec.convert(found, WorkTable)
            except msgspec.ValidationError as error:
                raise BadInput(
                    f"{path}: [tool.inturn.work] cannot be read: {error}. It may have "
                    f"{', '.join(WorkTable.__struct_encode_fields__)}."
                ) from error
            given = {k: v for k, v in msgspec.structs.asdict(table).items() if v is not None}
            return {_PARAMETERS.get(name, name): value for name, value in given.items()}
    return {}


def _named_in(path: Path) -> str | None:
    match _table(path):
        case {"store": str(url)}:
            return url
        case {"store": other}:
            raise BadInput(f"{path}: store under [tool.inturn] must be text, not {other!r}.")
        case _:
            return None


def _table(path: Path) -> dict[str, Any]:
    """Return what a pyproject.toml has under [tool.inturn]."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(
            f"{path} cannot be read: {error}. Mend it, or name the store with --store."
        ) from error
    match content:
        case {"tool": {"inturn": dict(table)}}:
            return table
        case _:
            return {}


def _seen_from(url: str, home: Path, folder: Path) -> str:
    """Return a URL whose file is named relative to ``home`` as it is to be named in ``folder``."""
    name = url.removeprefix(_SQLITE)
    if home == folder or name == url or name.startswith(("/", ":memory:")):
        return url
    return f"{_SQLITE}{home / name}"
