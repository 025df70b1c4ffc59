"""One transaction of the store, for what is to happen together."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from inturn.model import bounds
from inturn.model.admissible import (
    check_by,
    check_id,
    check_jobs,
    check_name,
    check_text,
    check_whole,
    listed,
)
from inturn.model.errors import BadInput
from inturn.model.job import JobState, NewJob, Ticket
from inturn.model.lane import Gate
from inturn.policy.settlement import Settlement
from inturn.policy.settling import Settling, check_settlements
from inturn.store.change import Change, Checked, checked
from inturn.store.queries import Query, Row

_SPACE_AND_COMMENTS = r"(?:[\s;\ufeff]|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
_ENDS_OR_BEGINS = re.compile(
    _SPACE_AND_COMMENTS
    + r"(begin|start\s+transaction|commit|end|rollback|abort|savepoint|release"
    + r"|prepare\s+transaction)\b",
    re.IGNORECASE | re.DOTALL,
)


class Transaction:
    """One transaction of the store: its verbs and the caller's own statements together.

    Each happens at once, and is seen by those after it. Call them in this order, in which others
    take their locks: settle, cancel, enqueue, gates. On PostgreSQL a verb that crosses another's
    work is tried a few times; then it is ``StoreBusy``, and the transaction can go on without it.
    """

    async def enqueue(self, jobs: Iterable[NewJob]) -> list[Ticket]:
        """As ``Store.enqueue``, committed with the rest of the transaction."""
        jobs = listed("jobs", jobs)
        check_jobs(jobs)
        return await self._enqueue(jobs)

    async def settle(self, settlements: Iterable[Settlement], *, worker: str) -> None:
        """As ``Store.settle``; ``LeaseLost`` spoils the whole transaction."""
        await self._settle(check_settlements(listed("settlements", settlements), worker))

    async def cancel(self, job: UUID, *, by: str) -> JobState:
        """As ``Store.cancel``."""
        check_id("job", job)
        check_by(by)
        return await self._cancel(job, by)

    async def open_gate(self, queue: str, round: int) -> int:
        """As ``Store.open_gate``."""
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        check_whole("round", round, 0, bounds.ROUND_MAX)
        return await self._open_gate(queue, round)

    async def advance_gate(self, queue: str) -> Gate:
        """As ``Store.advance_gate``."""
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        return await self._advance_gate(queue)

    async def apply(self, change: Change) -> list[Ticket]:
        """Do all that a change says, or nothing of it; return the tickets of what it enqueues.

        As one verb: on PostgreSQL, if it crosses another's work, it is tried again from its start.
        """
        return await self._apply(checked(change, self._slices))

    async def execute(self, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Run a statement of the caller's own, in the store's dialect, and return its rows.

        One that begins or ends a transaction is refused. On PostgreSQL one that fails spoils the
        transaction, unless it stands in a block of ``connection.transaction()``.
        """
        check_statement(sql)
        return await self._execute(sql, arguments)

    async def run(self, query: Query[Row], /, **parameters: Any) -> list[Row]:
        """Run an application's query and return its rows. It sees what was written before it."""
        return await self._run(query, parameters)

    async def run_many(self, query: Query[Any], rows: Iterable[Any]) -> None:
        """Run a query over many rows, Structs of one type or dicts, at a fraction of the cost of
        one by one.

        Its text reads one parameter, ``:rows``, as a JSON array: ``json_each(:rows)`` in SQLite,
        ``jsonb_to_recordset(:rows) as r(id text, …)`` in PostgreSQL. It is run once for each slice
        of about a megabyte.
        """
        for text in self._slices(rows):
            await self._run(query, {"rows": text})

    # What an engine does with arguments that were checked

    async def _enqueue(self, jobs: list[NewJob]) -> list[Ticket]: ...
    async def _settle(self, settling: Settling) -> None: ...
    async def _cancel(self, job: UUID, by: str) -> JobState: ...
    async def _open_gate(self, queue: str, round: int) -> int: ...
    async def _advance_gate(self, queue: str) -> Gate: ...
    async def _apply(self, change: Checked) -> list[Ticket]: ...
    async def _execute(self, sql: str, arguments: Sequence[Any]) -> list[tuple[Any, ...]]: ...
    async def _run(self, query: Query[Row], given: Mapping[str, Any]) -> list[Row]: ...
    def _slices(self, rows: Iterable[Any]) -> Iterator[str]: ...


def check_statement(sql: str) -> None:
    """Refuse a statement that begins or ends transactions: the block it stands in does that."""
    check_text("statement", sql)
    found = _ENDS_OR_BEGINS.match(sql)
    if found is not None:
        raise BadInput(
            f"{found[1]!r} inside a transaction of the store: it commits at the end of its block "
            f"and rolls back when an error leaves it. Leave the statement out, or raise an error."
        )
