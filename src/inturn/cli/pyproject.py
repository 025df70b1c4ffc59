"""What ``[tool.inturn]`` in a pyproject.toml says; a key or a type that is not known is refused."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from inturn.model.admissible import shown
from inturn.model.errors import BadInput
from inturn.model.spelling import did_you_mean

AnyTable = TypeVar("AnyTable", bound=msgspec.Struct)


class WorkTable(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """``[tool.inturn.work]``: the options of ``inturn work``."""

    app: str | None = None
    queues: list[str] | None = None
    concurrency: int | None = None
    lease: float | str | None = None
    sweep: float | str | None = None
    processes: int | str | None = None
    health_file: str | None = None
    health_port: int | None = None
    health_host: str | None = None


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """``[tool.inturn]``: the store, and what the commands are told."""

    store: str | None = None
    work: WorkTable | None = None


_WORDS: dict[Any, str] = {
    str | None: "text",
    int | None: "a whole number",
    float | str | None: "a number of seconds or text",
    int | str | None: "a whole number or text",
    list[str] | None: "a list of texts",
}


def tables_above(folder: Path) -> Iterator[tuple[Path, Table]]:
    """Yield what each pyproject.toml says, from that of the folder upwards."""
    for above in (folder, *folder.parents):
        path = above / "pyproject.toml"
        if path.is_file() and (table := read_table(path)) is not None:
            yield path, table


def read_table(path: Path) -> Table | None:
    """Return what a pyproject.toml says under [tool.inturn], if it has that."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(
            f"{path} cannot be read: {error}. Mend it, or name the store with --store."
        ) from error
    match content:
        case {"tool": {"inturn": found}}:
            table = _checked(found, Table, f"{path}: [tool.inturn]")
        case _:
            return None
    if table.work is None:
        return table
    work = _checked(table.work, WorkTable, f"{path}: [tool.inturn.work]")
    return msgspec.structs.replace(table, work=work)


def _checked(found: object, kind: type[AnyTable], where: str) -> AnyTable:
    """Return a table as what it should be; refuse a key that it does not have."""
    if not isinstance(found, dict):
        raise BadInput(f"{where} must be a table, not {shown(found)}.")
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name, value in found.items():
        if name not in fields:
            raise BadInput(
                f"{where} has no key {name!r}.{did_you_mean(name, fields)} "
                f"It may have {', '.join(fields)}."
            )
        words = _WORDS.get(fields[name].type)
        if words is not None and not _is(value, fields[name].type):
            raise BadInput(f"{where}: {name} must be {words}, not {shown(value)}.")
    return kind(**{fields[name].name: value for name, value in found.items()})


def _is(value: object, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True
