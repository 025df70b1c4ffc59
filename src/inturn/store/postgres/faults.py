"""What goes wrong in PostgreSQL, said in inturn's own words."""

from __future__ import annotations

import json
from types import TracebackType
from uuid import UUID

import asyncpg

from inturn.model.errors import (
    BadInput,
    DedupeConflict,
    InturnError,
    LeaseLost,
    NoRights,
    QueueFull,
    SchemaMissing,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreUnavailable,
    UnknownDependency,
    WrongJob,
)

GONE = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a connection that broke in the middle of a statement
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    ConnectionError,
    OSError,
    TimeoutError,
)
"""What asyncpg raises when the server, or the way to it, went away."""


class Told:
    """Raises what PostgreSQL says as an error of inturn's. (A class: every verb goes through it,
    and a generator takes several times as long.)

    ``is_under_way``: whether something was, which the server may have done before it went away.
    """

    def __init__(self, *, is_under_way: bool) -> None:
        self._is_under_way = is_under_way

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, asyncpg.PostgresError):
            translated = _translated(error, self._is_under_way)
            if translated is not error:
                raise translated from error
        elif isinstance(error, _UNREACHABLE):
            raise _unavailable(error, self._is_under_way) from error


TOLD = Told(is_under_way=True)
TOLD_CONNECTING = Told(is_under_way=False)
"""The same while there is no connection yet."""

_UNREACHABLE = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)


def _translated(error: asyncpg.PostgresError, is_under_way: bool) -> Exception:
    """Return the error that stands for one of PostgreSQL's; some pass as they are."""
    state = error.sqlstate or ""
    if state.startswith("IT"):
        return own_error(state, str(getattr(error, "detail", "") or ""), str(error))
    if isinstance(error, GONE):
        return _unavailable(error, is_under_way)
    if state in ("28000", "28P01"):
        return NoRights(
            f"PostgreSQL did not let the user in: {error}. Look at the user and the password in "
            f"the store's URL, and at the server's pg_hba.conf."
        )
    if state == "42501":
        return no_rights(error)
    if state in ("42P01", "42883", "3F000"):
        return SchemaMissing(
            f"the database has no tables, or no functions, of this inturn ({error}). "
            f"Run `inturn store migrate` or call `migrate()` once."
        )
    if state == "25P02":
        return StoreError(
            "an error inside this transaction was caught and PostgreSQL had given it up by then: "
            "nothing of it was stored. Let errors of your own statements leave the block."
        )
    if state == "3D000":
        return StoreUnavailable(f"{error}. Create the database first.")
    if state in ("53100", "53200"):
        return StoreFull(f"PostgreSQL has no room left: {error}. Free some; nothing was stored.")
    if state == "40P01":
        return StoreBusy(
            f"PostgreSQL ended a deadlock: {error}. Nothing of the call was stored; try again. If "
            f"it comes back, look at the order in which your own transactions lock rows."
        )
    if state in ("55P03", "57014"):
        return StoreBusy(
            f"PostgreSQL gave up waiting: {error}. Someone holds a lock for long; try again, and "
            f"look for open transactions in pg_stat_activity."
        )
    if state.startswith("40") or state == "23505":
        return error  # these belong to whoever owns the transaction
    return StoreError(f"PostgreSQL said: {error} (SQLSTATE {state}).")


def no_rights(error: BaseException) -> NoRights:
    """Return what is raised when a user may not do what the store does."""
    return NoRights(
        f"PostgreSQL refused: {error}. Grant the user usage on schema inturn and rights on "
        f"its tables, sequences and functions, or let its owner run `inturn store migrate`."
    )


def is_crossed(error: asyncpg.PostgresError) -> bool:
    """Say whether a statement met with another's and was undone, so that it may be run again.

    A serialization failure (where the database's default is stricter than "read committed" and a
    pooler leaves us no settings of our own, a lane was pruned meanwhile, or what waits for a job is
    in a settle's hands).
    """
    return error.sqlstate == "40001"


def crossed(error: asyncpg.PostgresError) -> StoreBusy:
    """Return what is raised when a statement met with another's again and again."""
    return StoreBusy(
        f"PostgreSQL had to undo this again and again, because others work on the same rows: "
        f"{error}. Nothing of the call was stored; try again, and look for open transactions in "
        f"pg_stat_activity. Behind a pooler let default_transaction_isolation be 'read committed'."
    )


def accepted_before() -> StoreError:
    """Return what is raised when a job in a caller's own transaction is known."""
    return StoreError(
        "a job of this batch was accepted before, in this transaction or another, and "
        "PostgreSQL has given this transaction up: roll it back and leave the job out."
    )


def own_error(state: str, detail: str, text: str) -> InturnError:
    """Return the error that stands for one of inturn's own functions."""
    if state == "IT001":
        return LeaseLost(json.loads(detail))
    if state == "IT002":
        told = json.loads(detail)
        return DedupeConflict(told["queue"], told["dedupe"], UUID(told["job"]))
    if state == "IT003":
        return QueueFull(**json.loads(detail))
    if state == "IT004":
        told = json.loads(detail)
        return UnknownDependency(map(UUID, told["missing"]), map(UUID, told["cancelled"]))
    if state == "IT008":
        told = json.loads(detail)
        return WrongJob(told["token"], told["position"], UUID(told["job"]))
    if state == "IT005":
        return BadInput(text)
    return StoreError(text)


def _unavailable(error: BaseException, is_under_way: bool) -> StoreUnavailable:
    said = str(error) or type(error).__name__
    doubt = "What was under way may or may not be committed; check" if is_under_way else "Check"
    return StoreUnavailable(
        f"PostgreSQL cannot be reached: {said}. {doubt} that the server runs and that the store's "
        f"URL is right."
    )
