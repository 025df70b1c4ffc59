"""The jobs of a run: each writes down that it began and that it ended, and returns its token."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from inturn import App, Context, RetryPolicy
from tests.chaos.log import Ended, Log, Started, Struck

FOLDER = Path(os.environ.get("INTURN_CHAOS_FOLDER", "."))
RETRY = RetryPolicy(attempts_max=5, base_seconds=0.05, cap_seconds=0.5)
BRIEF = RetryPolicy(attempts_max=2, base_seconds=0.05, cap_seconds=0.2)

STRICT = "strict"  # the queue of whose keys no job runs again once its successor has begun

app = App(os.environ.get("INTURN_STORE", "sqlite:///chaos.db"))
app.queue(STRICT, replay="none")


@cache
def log() -> Log:
    return Log(FOLDER / "log")


@contextmanager
def noted(ctx: Context) -> Iterator[None]:
    log().write(Started(job=ctx.id, token=ctx.token))
    ok = False
    try:
        yield
        ok = True
    finally:
        log().write(Ended(job=ctx.id, token=ctx.token, ok=ok))


@app.job(retry=RETRY)
async def coroutine(ctx: Context, seconds: float) -> int:
    with noted(ctx):
        await asyncio.sleep(seconds)
    return ctx.token


@app.job(queue=STRICT, retry=RETRY)
async def strict(ctx: Context) -> int:
    with noted(ctx):
        return ctx.token


@app.job(retry=RETRY)
def threaded(ctx: Context, seconds: float) -> int:
    with noted(ctx):
        time.sleep(seconds)
    return ctx.token


@app.job(retry=RETRY)
async def flaky(ctx: Context, failures: int) -> int:
    with noted(ctx):
        if ctx.attempt <= failures:
            raise ConnectionError("no answer, this time")
    return ctx.token


@app.job(retry=RETRY)
async def paying(ctx: Context) -> None:
    """Write a row that commits together with the job's end."""
    async with ctx.transaction() as transaction:
        with noted(ctx):
            await transaction.execute(
                f"insert into paid (job, token) values ('{ctx.id}', {ctx.token})"
            )


@app.job(retry=BRIEF)
async def hopeless(ctx: Context) -> None:
    with noted(ctx):
        raise LookupError("no such article, ever")


@app.job(retry=BRIEF)
async def poison(ctx: Context) -> None:
    """Kill the worker, at every attempt."""
    with noted(ctx):
        log().write(Struck(fault="poison", struck=os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(3600)


DOOMED = ("hopeless", "poison")  # all others are done in the end
