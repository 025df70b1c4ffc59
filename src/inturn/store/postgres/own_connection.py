"""A producer's own connection, of whichever driver: jobs are accepted in its transaction.

None of these drivers is imported: what a connection is, its class says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any, Literal
from uuid import UUID

from inturn.model.admissible import shown
from inturn.model.errors import BadInput, SchemaMissing
from inturn.model.job import NewJob, Ticket
from inturn.store.postgres.enqueue import ACCEPT_TYPES, accept_arguments
from inturn.store.postgres.faults import accepted_before, no_rights, own_error
from inturn.store.postgres.sql import query

Driver = Literal["psycopg", "sqlalchemy", "django"]
DRIVERS: tuple[Driver, ...] = ("psycopg", "sqlalchemy", "django")


async def accept(connection: Any, jobs: Sequence[NewJob], now: datetime | None) -> list[Ticket]:
    """Accept jobs on a connection; on one that is not async, here and now, on this thread."""
    if not is_async(connection):
        return accept_sync(connection, jobs, now)
    driver = _driver(connection)
    try:
        if driver == "psycopg":
            async with connection.cursor(row_factory=_tuples()) as cursor:
                await cursor.execute(*_for_cursor(jobs, now))
                return _tickets(await cursor.fetchall())
        return _tickets((await connection.execute(*_for_sqlalchemy(jobs, now))).fetchall())
    except Exception as error:
        raise _told(error) from error


def accept_sync(connection: Any, jobs: Sequence[NewJob], now: datetime | None) -> list[Ticket]:
    """Accept jobs on a connection that is not async, on the thread that this is called on."""
    driver = _driver(connection)
    if is_async(connection):
        raise BadInput(
            f"{shown(connection)} is an async connection, which only its event loop may use. Use "
            f"`await`: `await job.using(connection=…).submit(…)`, `await app.submit_many(…)`."
        )
    try:
        if driver == "sqlalchemy":
            return _tickets(connection.execute(*_for_sqlalchemy(jobs, now)).fetchall())
        options = {"row_factory": _tuples()} if driver == "psycopg" else {}
        with connection.cursor(**options) as cursor:
            cursor.execute(*_for_cursor(jobs, now))
            return _tickets(cursor.fetchall())
    except Exception as error:
        raise _told(error) from error


def check(connection: Any) -> None:
    """Refuse what is no connection of a driver that is known."""
    _driver(connection)


def is_async(connection: Any) -> bool:
    """Whether a connection is used with ``await``."""
    return iscoroutinefunction(getattr(type(connection), "execute", None))


def _driver(connection: Any) -> Driver:
    for one in type(connection).__mro__:
        root = one.__module__.partition(".")[0]
        for driver in DRIVERS:
            needed = "execute" if driver == "sqlalchemy" else "cursor"
            if root == driver and hasattr(connection, needed):
                return driver
    raise BadInput(
        f"the connection must be one of asyncpg's, psycopg's, SQLAlchemy's or Django's, in your "
        f"own transaction, not {shown(connection)}. With another, call the SQL function "
        f"inturn.enqueue in it."
    )


def _tuples() -> Any:
    """Return psycopg's factory of plain rows, whatever the connection's own rows are."""
    return import_module("psycopg.rows").tuple_row


def _for_cursor(jobs: Sequence[NewJob], now: datetime | None) -> tuple[str, list[str | None]]:
    return _statement(lambda number: "%s"), _texts(jobs, now)


def _for_sqlalchemy(
    jobs: Sequence[NewJob], now: datetime | None
) -> tuple[Any, dict[str, str | None]]:
    text = import_module("sqlalchemy").text(_statement(lambda number: f":p{number}"))
    return text, {f"p{number}": one for number, one in enumerate(_texts(jobs, now))}


def _statement(placeholder: Any) -> str:
    """Return the statement that accepts jobs, with parameters that any driver sends: as text."""

    def written(found: re.Match[str]) -> str:
        number = int(found[1]) - 1
        return f"cast(cast({placeholder(number)} as text) as {ACCEPT_TYPES[number]})"

    return re.sub(r"\$(\d+)", written, query("accept"))


def _texts(jobs: Sequence[NewJob], now: datetime | None) -> list[str | None]:
    arguments = accept_arguments(jobs, now)
    return [_array(one) if isinstance(one, list) else one and one.isoformat() for one in arguments]


def _array(values: list[Any]) -> str:
    return "{" + ",".join("NULL" if one is None else _quoted(str(one)) for one in values) + "}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _tickets(rows: Sequence[Sequence[Any]]) -> list[Ticket]:
    return [Ticket(UUID(str(id)), *place) for _, id, *place in rows]


def _told(error: BaseException) -> BaseException:
    """Return what an error of a driver's stands for; one that is not inturn's as it is."""
    cause: Any = error
    while cause is not None and not (hasattr(cause, "diag") or hasattr(cause, "sqlstate")):
        cause = getattr(cause, "orig", None) or cause.__cause__
    diag = getattr(cause, "diag", None)  # psycopg's, also version 2 below SQLAlchemy and Django
    state = getattr(diag or cause, "sqlstate", None) or ""
    if state == "23505":
        return accepted_before()
    if state in ("3F000", "42P01", "42883"):
        return SchemaMissing(
            f"this connection is on a database without inturn's tables, or without the functions "
            f"of this version ({cause}). Run `inturn store migrate` there, or use another."
        )
    if state == "42501":
        return no_rights(cause)
    if not state.startswith("IT"):
        return error
    if diag is None:  # asyncpg, below SQLAlchemy
        return own_error(state, getattr(cause.__cause__, "detail", None) or "", str(cause))
    return own_error(state, diag.message_detail or "", diag.message_primary or "")
