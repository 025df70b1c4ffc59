"""The jobs of one key, in line."""

from __future__ import annotations

from asyncio import TimerHandle
from collections import deque
from enum import Enum

import msgspec

from inturn.executor.ticket import LocalTicket, State

_VOID_MIN = 32  # fewer cancelled jobs than this are not worth going through the line


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
        if self.void > _VOID_MIN and self.void * 2 > len(self.jobs):
            self.jobs = deque(one for one in self.jobs if one.state is State.WAITING)
            self.void = 0
