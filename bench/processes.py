"""Clients in processes of their own, that start together and bring back an answer each."""

from __future__ import annotations

import asyncio
import multiprocessing
import queue
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from multiprocessing.context import SpawnContext
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Barrier, Event
from threading import BrokenBarrierError
from typing import Any

START_SECONDS_MAX = 60.0
ANSWER_SECONDS_MAX = 300.0


@dataclass(slots=True)
class Shared:
    """What the clients of one run know of each other."""

    start: Barrier
    stopped: Event
    enqueued: Synchronized[int]
    settled: Synchronized[int]


class ClientBroke(Exception):
    """A client ended before its time."""


Client = Callable[..., Awaitable[Any]]
"""A coroutine function at the top of a module; it is given ``Shared`` and its own arguments."""


def run_together(
    clients: Sequence[tuple[Client, tuple[Any, ...]]],
    *,
    enqueued: int = 0,
    meanwhile: Callable[[Shared], None] | None = None,
) -> list[Any]:
    """Start a process for each client, and ``meanwhile`` here, together; return the answers."""
    context = multiprocessing.get_context("spawn")
    shared = _shared(context, len(clients) + 1, enqueued)
    answers: Any = context.Queue()
    started = [
        context.Process(
            target=_child, args=(number, client, shared, answers, arguments), daemon=True
        )
        for number, (client, arguments) in enumerate(clients)
    ]
    try:
        for process in started:
            process.start()
        try:
            shared.start.wait(START_SECONDS_MAX)
        except BrokenBarrierError as error:
            _collect(answers, started)  # raises what broke it
            raise RuntimeError("the clients did not start in time") from error
        if meanwhile is not None:
            try:
                meanwhile(shared)
            except ClientBroke:
                _collect(answers, started)  # raises what broke it
                raise
        return _collect(answers, started)
    finally:
        shared.stopped.set()
        for process in started:
            process.join(5)
            if process.is_alive():
                process.terminate()


def begin(shared: Shared) -> float:
    """Wait for the others and return the moment of the start, on a clock that all share."""
    shared.start.wait(START_SECONDS_MAX)
    return time.monotonic()


def add(counter: Synchronized[int], count: int) -> None:
    """Count something for all to see."""
    with counter.get_lock():
        counter.value += count


def _shared(context: SpawnContext, parties: int, enqueued: int) -> Shared:
    return Shared(
        start=context.Barrier(parties),
        stopped=context.Event(),
        enqueued=context.Value("q", enqueued),
        settled=context.Value("q", 0),
    )


def _collect(answers: Any, started: Sequence[Any]) -> list[Any]:
    found: dict[int, Any] = {}
    silent: list[int] = []
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while len(found) < len(started):
        try:
            number, answer, broke = answers.get(timeout=1)
        except queue.Empty:
            if silent or time.monotonic() > deadline:
                raise RuntimeError(f"{len(silent)} clients ended without an answer") from None
            # Looked at again when a last answer had time to arrive.
            silent = [
                number
                for number, one in enumerate(started)
                if number not in found and one.exitcode is not None
            ]
            continue
        if broke is not None:
            raise RuntimeError(f"a client broke:\n{broke}")
        found[number], silent = answer, []
    return [found[number] for number in range(len(started))]


def _child(
    number: int, client: Client, shared: Shared, answers: Any, arguments: tuple[Any, ...]
) -> None:
    async def run() -> Any:
        return await client(shared, *arguments)

    try:
        answers.put((number, asyncio.run(run()), None))
    except BrokenBarrierError:
        return  # another client broke, and says why
    except Exception:
        shared.stopped.set()
        answers.put((number, None, traceback.format_exc()))
        shared.start.abort()
