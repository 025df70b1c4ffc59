"""An application's own queries: SQL in files, with named parameters, and rows as its own types."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from importlib.resources import files
from operator import attrgetter
from typing import Any, Generic, TypeVar, get_args, overload
from uuid import UUID

import msgspec

from inturn.model.admissible import check_time, listed, shown
from inturn.model.errors import BadInput
from inturn.store.schema import EngineName, owners_of, written_for

Row = TypeVar("Row")

SLICE_BYTES = 1024 * 1024
SLICE_ROWS = 4_000
"""So many bytes and rows ``run_many`` gives one statement at most, or one row that has more."""

_PARAMETERS = re.compile(
    r"--[^\n]*|/\*.*?\*/|'[^']*'|\"[^\"]*\"|::|(?<![\w:]):(?P<name>[a-z_]\w*)",
    re.DOTALL | re.IGNORECASE,
)
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")  # in JSON, and no text that says so
_json = msgspec.json.Encoder()


class Query(Generic[Row]):
    """A statement in a file of an application's package, and the type of its rows.

    The file is ``queries/NAME.sql`` where both databases read it alike, else
    ``queries/sqlite/NAME.sql`` and ``queries/postgres/NAME.sql``. A parameter is written ``:name``;
    ``:now`` is the store's time, unless the caller gives one. A table is written ``owner.table``.

    A ``row`` is a ``msgspec.Struct`` with a field for each column; without one, rows are tuples.
    """

    @overload
    def __init__(self, package: str, name: str, row: type[Row]) -> None: ...
    @overload
    def __init__(self: Query[tuple[Any, ...]], package: str, name: str) -> None: ...
    def __init__(self, package: str, name: str, row: Any = None) -> None:
        self.package, self.name, self.row = package, name, row

    def __repr__(self) -> str:
        return f"Query({self.package!r}, {self.name!r})"


@dataclass(frozen=True, slots=True)
class Statement:
    """A query's text as one engine runs it, and its parameters in the order of their numbers."""

    text: str
    parameters: tuple[str, ...]

    def values(self, query: Query[Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters' values in order; ``now`` may be None. Refuses other names."""
        missing = [name for name in self.parameters if name not in given and name != "now"]
        unread = [name for name in given if name not in self.parameters]
        if missing or unread:
            wrong = (
                f"{', '.join(missing)} not given" if missing else f"{', '.join(unread)} not read"
            )
            raise BadInput(
                f"{query} reads {', '.join(self.parameters) or 'no parameters'}; here: {wrong}."
            )
        return {name: plain(given.get(name)) for name in self.parameters}


def statement(query: Query[Any], engine: EngineName) -> Statement:
    """Return a query's statement for an engine."""
    if not isinstance(query, Query):
        raise BadInput(f"a Query is needed, not {shown(query)}.")
    return _statement(query.package, query.name, tuple(owners_of(query.package)), engine)


@cache
def _statement(package: str, name: str, owners: tuple[str, ...], engine: EngineName) -> Statement:
    return translate(_read(package, name, engine), owners, engine)


def translate(text: str, owners: Collection[str], engine: EngineName) -> Statement:
    """Return the statement that an application's text is for an engine.

    SQLite reads ``:name`` itself; for PostgreSQL each becomes a number, the same for the same name.
    """
    numbers: dict[str, int] = {}

    def numbered(found: re.Match[str]) -> str:
        name = found["name"]
        if name is None:
            return found[0]
        number = numbers.setdefault(name, len(numbers) + 1)
        if engine == "sqlite":
            return found[0]
        if name == "now":  # none is given where the database's own time counts
            return f"coalesce(${number}::timestamptz, clock_timestamp())"
        return f"${number}"

    text = _PARAMETERS.sub(numbered, written_for(text, owners, engine))
    return Statement(text.strip().rstrip(";"), tuple(numbers))


def _read(package: str, name: str, engine: EngineName) -> str:
    folder = files(package).joinpath("queries")
    for path in (folder.joinpath(f"{name}.sql"), folder.joinpath(engine, f"{name}.sql")):
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise BadInput(
        f"package {package!r} has no query {name!r}: neither queries/{name}.sql nor "
        f"queries/{engine}/{name}.sql."
    )


# Values on their way in


def plain(value: Any) -> Any:
    """Return a parameter as both engines take it: ids as text, what has parts as JSON text."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        check_time("a parameter", value)
        return value
    if isinstance(value, msgspec.Struct | list | tuple | dict | set | frozenset):
        return _json.encode(value).decode()
    return value


def slices(rows: Iterable[Any], micros: Callable[[datetime], int] | None = None) -> Iterator[str]:
    """Yield rows, all Structs of one type or all dicts, as texts of JSON arrays of bounded size.

    ``micros``: turns a time into what the engine keeps; without it times are written as text.
    """
    rows = listed("rows", rows)
    if rows and not isinstance(rows[0], msgspec.Struct | dict):
        raise BadInput(f"rows are Structs or dicts, not {shown(rows[0])}.")
    rows = _with_times_kept(rows, micros)
    for first in range(0, len(rows), SLICE_ROWS):
        yield from _sliced(rows[first : first + SLICE_ROWS])


def _sliced(rows: list[Any]) -> Iterator[str]:
    text = _json.encode(rows)
    if b"\\u0000" in text and _NUL.search(text):
        raise BadInput(
            "a row has a text with the character NUL, which databases cut off or refuse."
        )
    if len(text) <= SLICE_BYTES or len(rows) == 1:
        yield text.decode()
    else:
        half = len(rows) // 2
        yield from _sliced(rows[:half])
        yield from _sliced(rows[half:])


def _with_times_kept(rows: list[Any], micros: Callable[[datetime], int] | None) -> list[Any]:
    """Return rows with their times as the engine keeps them. Most rows of most tables have none."""
    if not rows or isinstance(rows[0], dict):
        return [
            _kept(row, micros) if any(isinstance(one, datetime) for one in row.values()) else row
            for row in rows
        ]
    sort: Any = type(rows[0])
    fields = tuple(time_fields(sort))
    if not fields:
        return rows
    times = attrgetter(*fields)
    nothing = None if len(fields) == 1 else (None,) * len(fields)
    return [
        row if times(row) == nothing else _kept(msgspec.structs.asdict(row), micros) for row in rows
    ]


def _kept(row: dict[str, Any], micros: Callable[[datetime], int] | None) -> dict[str, Any]:
    kept = dict(row)
    for name, value in row.items():
        if isinstance(value, datetime):
            check_time(name, value)
            kept[name] = value if micros is None else micros(value)
    return kept


# Rows on their way out


def decode(
    query: Query[Row],
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    time_of: Callable[[int], datetime] | None = None,
) -> list[Row]:
    """Return rows as the query's type. ``time_of``: makes a time of what the engine keeps."""
    if query.row is None:
        return [tuple(row) for row in rows]  # type: ignore[misc]  # the row type is a tuple
    named = [dict(zip(columns, row, strict=True)) for row in rows]
    if time_of is not None and (fields := time_fields(query.row)):
        for row in named:
            for field in fields & row.keys():
                if isinstance(row[field], int):
                    row[field] = time_of(row[field])
    try:
        return msgspec.convert(named, list[query.row], strict=False)  # type: ignore[name-defined]
    except msgspec.ValidationError as error:
        raise BadInput(f"a row of {query} is no {query.row.__name__}: {error}.") from error


@cache
def time_fields(row: type[Any]) -> frozenset[str]:
    """Return the fields of a Struct that hold a time."""
    return frozenset(
        field.name
        for field in msgspec.structs.fields(row)
        if datetime in (field.type, *get_args(field.type))
    )
