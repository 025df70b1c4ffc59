"""What a drain has done: every attempt that ended, and how."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

End = Literal["done", "retried", "dead"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One attempt at one job. ``error`` is what it failed with, None if the job is done."""

    id: UUID
    kind: str
    key: str | None
    attempt: int
    attempts_max: int
    end: End
    error: Exception | None = None

    def __str__(self) -> str:
        return f"job {self.kind!r} {self.id}, attempt {self.attempt} of {self.attempts_max}"


@dataclass(frozen=True, slots=True)
class Drained:
    """The attempts that ended, in the order they did.

    A job that was retried and then done within one drain is in it twice.
    """

    ran: list[Ran] = field(default_factory=list)

    @property
    def done(self) -> list[Ran]:
        """Those whose jobs are done."""
        return [one for one in self.ran if one.end == "done"]

    @property
    def retried(self) -> list[Ran]:
        """Those that failed, and whose jobs run again when their time comes."""
        return [one for one in self.ran if one.end == "retried"]

    @property
    def dead(self) -> list[Ran]:
        """Those that failed, and whose jobs are dead letters now."""
        return [one for one in self.ran if one.end == "dead"]

    def __str__(self) -> str:
        return f"{len(self.done)} done, {len(self.retried)} retried, {len(self.dead)} dead"
