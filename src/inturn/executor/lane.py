"""The jobs of one key, in line."""

from __future__ import annotations

from asyncio import TimerHandle
from collections import deque
from collections.abc import Sized
from enum import Enum

import msgspec

from inturn.executor.ticket import LocalTicket, State

_VOID_MIN = 32  # fewer than this are not worth going through a line


class LaneState(Enum):
    """What a key is doing."""

    HELD = "held"  # it has a slot
    READY = "ready"  # it waits for one
    SLEEPING = "sleeping"  # its head failed and waits to run again


class Lane(msgspec.Struct, eq=False):
    """The jobs of one key: the head, which was started, and those behind it, which were not.

    A lane is there only while it has something to run. ``void`` counts those behind the head that
    were cancelled and are still in line; they are passed over.
    """

    key: str
    shard: int
    state: LaneState
    jobs: deque[LocalTicket]
    head: LocalTicket | None = None
    void: int = 0
    timer: TimerHandle | None = None

    def leave_out_void(self) -> None:
        """Take cancelled jobs out of the line when they are the most of it.

        So a flood of jobs that are submitted and cancelled behind a slow head is not kept.
        """
        if are_the_most(self.void, self.jobs):
            self.jobs = deque(one for one in self.jobs if one.state is State.WAITING)
            self.void = 0


def are_the_most(void: int, line: Sized) -> bool:
    """Whether so many of a line are void that it is worth leaving them out."""
    return void > _VOID_MIN and void * 2 > len(line)
