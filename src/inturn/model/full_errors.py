"""Errors of what has no room: a queue, a lane, a shard of an executor."""

from __future__ import annotations

import shlex

from inturn.model import bounds
from inturn.model.error import InturnError


class QueueFull(InturnError):
    """A bound on depth was reached; nothing was stored. ``retry_seconds``: when to come back."""

    def __init__(
        self,
        queue: str,
        key: str | None,
        depth: int,
        depth_max: int,
        added: int = 1,
        retry_seconds: int = bounds.COME_BACK_SECONDS_DEFAULT,
    ) -> None:
        self.queue, self.key, self.depth, self.depth_max = queue, key, depth, depth_max
        self.added, self.retry_seconds = added, retry_seconds
        where = f"queue {queue!r}" if key is None else f"lane {key!r} of queue {queue!r}"
        name = shlex.quote(queue)
        change = f"`inturn queues set {name} --depth-max N`"
        if key is not None:
            change = f"`inturn queues set {name} --lane-depth-max N`"
        advice = f"Come back in about {retry_seconds} s, add workers, or raise its bound"
        if added > depth_max:
            advice = "So many never fit: send smaller batches, or raise its bound"
        super().__init__(
            f"{where} holds {depth} jobs and may hold {depth_max}; there is no room for "
            f"{added} more. {advice}: {change}."
        )


class ShardFull(QueueFull):
    """An executor has no room for a job: its shard, all shards, or its store's queue is full."""

    def __init__(
        self,
        key: str,
        shard: int,
        length: int,
        capacity: int,
        added: int = 1,
        *,
        queue: str | None = None,
        is_total: bool = False,
    ) -> None:
        self.queue, self.key = queue or "executor", key
        self.depth, self.depth_max = length, capacity
        self._is_stored, self.is_total = queue is not None, is_total
        self.added, self.retry_seconds = added, bounds.COME_BACK_SECONDS_MIN
        self.shard, self.length, self.capacity = shard, length, capacity
        InturnError.__init__(self, f"{self._seen()}. {self._advice()}.")

    def _seen(self) -> str:
        where = f"shard {self.shard} of the executor, where key {self.key!r} belongs,"
        if self._is_stored:
            where = f"queue {self.queue!r} of the executor's store, where key {self.key!r} belongs,"
        elif self.is_total:
            where = "the executor, all its shards together,"
        seen = f"{where} holds {self.length} waiting jobs of {self.capacity} that fit"
        if self.length + self.added <= self.capacity:
            return (
                f"{seen}, and others that came first wait; there is no room for {self.added} more"
            )
        return f"{seen}; there is no room for {self.added} more"

    def _advice(self) -> str:
        bound = "depth_max" if self.is_total else "queue_size"
        if self.added > self.capacity:
            return f"So many never fit: submit fewer at a time, or raise {bound}"
        return f"Submit more slowly, wait longer, or raise {bound}"


class EnqueueTimeout(ShardFull, TimeoutError):
    """An executor had no room for a job, and got none while the caller waited."""

    def __init__(
        self,
        key: str,
        shard: int,
        length: int,
        capacity: int,
        added: int,
        waited_seconds: float,
        *,
        queue: str | None = None,
        is_total: bool = False,
    ) -> None:
        self.waited_seconds = waited_seconds
        super().__init__(key, shard, length, capacity, added, queue=queue, is_total=is_total)

    def _seen(self) -> str:
        return f"{super()._seen()}, and none came free in {self.waited_seconds:g} s"
