"""The jobs that are run: each writes down that it began and that it ended."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path

from inturn.policy.retry import RetryPolicy
from inturn.queue.app import App
from inturn.queue.context import Context
from inturn.store.store import Store
from inturn.verify.history import Ended, History, Started
from inturn.verify.points import Points
from inturn.verify.recorder import RecordingStore

FOLDER = "INTURN_VERIFY_FOLDER"
TABLE = "INTURN_VERIFY_TABLE"
EXIT_CODE = 13
MEMORY_BYTES = 64 * 1024 * 1024

QUICK = RetryPolicy(attempts_max=5, base_seconds=0.05, cap_seconds=0.5)
BRIEF = RetryPolicy(attempts_max=2, base_seconds=0.05, cap_seconds=0.2)


class VerifyApp(App):
    """An app whose workers keep a history, once it was given one."""

    history: History | None = None
    points: Points

    async def lend(self) -> Store:
        """Return the store to a worker, with its history."""
        store = await super().lend()
        return store if self.history is None else self.recording(store)

    def spare_store(self) -> Store:
        """Return the store to a worker's heartbeat, with its history."""
        store = super().spare_store()
        return store if self.history is None else self.recording(store)

    def recording(self, store: Store) -> Store:
        """Return a store that keeps this process's history."""
        assert self.history is not None
        return RecordingStore(store, self.history, self.points)


app = VerifyApp("sqlite:///verify.db")  # a worker is told where: app.use(…)


@app.job(retry=QUICK, keep_result=None)
async def plain(ctx: Context, seconds: float) -> None:
    """Take a moment."""
    async with _noted(ctx):
        await asyncio.sleep(seconds)


@app.job(retry=QUICK, keep_result=None)
def threaded(ctx: Context, seconds: float) -> None:
    """Take a moment on a thread."""
    with _noted_here(ctx):
        time.sleep(seconds)


@app.job(retry=QUICK, keep_result=None, process=True, timeout=30)
def isolated(ctx: Context, seconds: float) -> None:
    """Take a moment in a process of its own."""
    with _noted_here(ctx):
        time.sleep(seconds)


@app.job(retry=QUICK, keep_result=None)
async def effect(ctx: Context) -> None:
    """Write a row that commits together with the job's end."""
    async with _noted(ctx), ctx.transaction() as transaction:
        # Its values are an id and a number of our own, in a dialect that both stores have.
        await transaction.execute(
            f"insert into {os.environ[TABLE]} (job, token) values ('{ctx.id}', {ctx.token})"
        )


@app.job(retry=QUICK, keep_result=None)
async def flaky(ctx: Context, failures: int) -> None:
    """Fail a few times, then succeed."""
    async with _noted(ctx):
        if ctx.attempt <= failures:
            raise ConnectionError("no answer, this time")


@app.job(retry=BRIEF, keep_result=None)
async def hopeless(ctx: Context) -> None:
    """Fail at every attempt."""
    async with _noted(ctx):
        raise LookupError("no such article, ever")


@app.job(retry=BRIEF, keep_result=None)
async def exits(ctx: Context) -> None:
    """End the worker's process at every attempt: a poison job."""
    async with _noted(ctx):
        os._exit(EXIT_CODE)


@app.job(retry=QUICK, keep_result=None)
async def blocks(ctx: Context, seconds: float) -> None:
    """Block the worker's event loop."""
    async with _noted(ctx):
        time.sleep(seconds)  # noqa: ASYNC251


@app.job(retry=BRIEF, keep_result=None, process=True, timeout=30)
def eats(ctx: Context) -> None:
    """Eat memory until there is no more, in a process that may have little."""
    with _noted_here(ctx), _little_memory():
        eaten = []
        while True:
            eaten.append(bytearray(1024 * 1024))


@contextmanager
def _little_memory() -> Iterator[None]:
    """Bound the memory of this process to little more than it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@asynccontextmanager
async def _noted(ctx: Context) -> AsyncIterator[None]:
    with _noted_here(ctx):
        yield


@contextmanager
def _noted_here(ctx: Context) -> Iterator[None]:
    """Write down that an attempt began, and how it ended."""
    history = app.history or _child_history()
    history.write(Started(job=ctx.id, token=ctx.token, attempt=ctx.attempt, pid=os.getpid()))
    _reach("in-handler")
    ok = False
    try:
        yield
        ok = True
    finally:
        history.write(Ended(job=ctx.id, token=ctx.token, ok=ok))
    _reach("after-handler")


def _reach(point: str) -> None:
    if app.history is not None:
        app.points.reach(point)


@cache
def _child_history() -> History:
    """Return the history of a child process of a worker."""
    return History(Path(os.environ[FOLDER]), f"child-{os.getpid()}")
