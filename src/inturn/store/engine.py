"""What an engine does: the store's verbs that take arguments, with these checked and in order.

``Store`` has the same without the underscore, and says what each promises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from inturn.model.job import DeadLetter, JobState, JobView, NewJob, Ticket
from inturn.model.lane import Gate, LaneView, QueueSettings
from inturn.model.lease import Claim, Lease, Reclaimed, Wish
from inturn.model.worker import Stat, WorkerView
from inturn.policy.settling import Settling
from inturn.store.change import Checked
from inturn.store.paging import Asked, Page
from inturn.store.queries import Query, Row
from inturn.store.schema import Schema

Decision = Literal["retry", "skip", "drop"]
"""What a person decides of a halted lane's head."""


class Engine:
    """One of the two databases behind a store."""

    async def _ensure(self, schema: Schema) -> None:
        raise NotImplementedError

    async def _enqueue(self, jobs: list[NewJob], connection: Any) -> list[Ticket]:
        raise NotImplementedError

    def _enqueue_sync(self, jobs: list[NewJob], connection: Any) -> list[Ticket]:
        raise NotImplementedError

    async def _claim(self, wish: Wish) -> list[Claim]:
        raise NotImplementedError

    async def _extend(self, leases: list[Lease], lease_seconds: float) -> list[Lease]:
        raise NotImplementedError

    async def _progress(self, lease: Lease, job: UUID, fraction: float, note: str) -> None:
        raise NotImplementedError

    async def _settle(self, settling: Settling) -> None:
        raise NotImplementedError

    async def _turn(self, settling: Settling, wish: Wish) -> list[Claim]:
        raise NotImplementedError

    async def _reclaim(self, leases_max: int, gone: list[str]) -> Reclaimed:
        raise NotImplementedError

    async def _wait(self, queues: list[str], timeout_seconds: float) -> bool:
        raise NotImplementedError

    async def _beat(self, worker: WorkerView) -> None:
        raise NotImplementedError

    async def _hold(self, duty: str, worker: str, seconds: float) -> bool:
        raise NotImplementedError

    async def _leave(self, worker: str) -> None:
        raise NotImplementedError

    async def _configure(self, queue: str, changes: Mapping[str, Any]) -> QueueSettings:
        raise NotImplementedError

    async def _declarations(self) -> dict[str, dict[str, Any]]:
        raise NotImplementedError

    async def _declare(self, declared: Mapping[str, Mapping[str, Any]]) -> None:
        raise NotImplementedError

    async def _drop_queue(self, queue: str) -> bool:
        raise NotImplementedError

    async def _pause(self, queue: str, key: str | None, by: str) -> None:
        raise NotImplementedError

    async def _resume(self, queue: str, key: str | None) -> None:
        raise NotImplementedError

    async def _open_gate(self, queue: str, round: int) -> int:
        raise NotImplementedError

    async def _advance_gate(self, queue: str) -> Gate:
        raise NotImplementedError

    async def _decide_lane(self, queue: str, key: str, decision: Decision, by: str = "") -> UUID:
        raise NotImplementedError

    async def _cancel(self, job: UUID, by: str) -> JobState:
        raise NotImplementedError

    async def _dead_retry(self, jobs: list[UUID]) -> list[UUID]:
        raise NotImplementedError

    async def _dead_drop(self, jobs: list[UUID], by: str) -> list[UUID]:
        raise NotImplementedError

    async def _dead_letters(self, asked: Asked) -> Page[DeadLetter]:
        raise NotImplementedError

    async def _job(self, job: UUID) -> JobView:
        raise NotImplementedError

    async def _jobs(self, states: Sequence[JobState | None], asked: Asked) -> Page[JobView]:
        raise NotImplementedError

    async def _jobs_ending(self, ending: str) -> list[UUID]:
        raise NotImplementedError

    async def _ended(self, jobs: list[UUID]) -> dict[UUID, JobState | None]:
        raise NotImplementedError

    async def _wait_ended(self, queues: list[str], seen: int, timeout_seconds: float) -> int:
        raise NotImplementedError

    async def _result(self, job: UUID) -> str | None:
        raise NotImplementedError

    async def _explain(self, job: UUID) -> str:
        raise NotImplementedError

    async def _lanes(
        self, queue: str, key: str | None, cursor: str | None, rows_max: int
    ) -> Page[LaneView]:
        raise NotImplementedError

    async def _stats(self, queue: str, since: datetime) -> list[Stat]:
        raise NotImplementedError

    async def _apply(self, change: Checked) -> list[Ticket]:
        raise NotImplementedError

    def _slices(self, rows: Iterable[Any]) -> Iterator[str]:
        raise NotImplementedError

    async def _run(self, query: Query[Row], given: Mapping[str, Any]) -> list[Row]:
        raise NotImplementedError
