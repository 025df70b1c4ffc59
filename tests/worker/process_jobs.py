"""Jobs that run in child processes: an app of its own, which children import by this name."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from inturn import App, Context, Reject, RetryLater, RetryPolicy

app = App()
QUICK = RetryPolicy(attempts_max=2, base_seconds=0.01, jitter=0.0)
around: ContextVar[str] = ContextVar("around", default="nothing")


@app.around
async def traced(ctx: Context) -> AsyncIterator[None]:
    around.set(f"{ctx.job.kind} {os.getpid()}")
    yield


def announce(path: Path, text: str) -> None:
    """Write a file that is there only with all of its text."""
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    draft.rename(path)


@app.job(process=True)
def where(n: int) -> tuple[int, int]:
    return n, os.getpid()


@app.job(process=True)
async def where_async(n: int) -> tuple[int, int]:
    await asyncio.sleep(0)
    return n, os.getpid()


@app.job(process=True, timeout=30)
async def about(ctx: Context) -> dict[str, Any]:
    await ctx.heartbeat()
    await ctx.progress(0.4, "copying")
    return {
        "attempt": ctx.attempt,
        "token": ctx.token,
        "has_deadline": ctx.deadline is not None,
        "is_last": ctx.is_last_attempt,
        "around": around.get() == f"about {os.getpid()}",
    }


@app.job(process=True, retry=QUICK)
async def transacts(ctx: Context) -> None:
    async with ctx.transaction():
        pass


@app.job(process=True, retry=QUICK)
def ends(how: str) -> None:
    match how:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "_exit":
            os._exit(3)
        case "exit":
            sys.exit(3)
        case "reject":
            raise Reject("no such customer")
        case "raise":
            raise ValueError("boom")


@app.job(process=True)
def comes_later(path: str) -> str:
    if not Path(path).exists():
        Path(path).touch()
        raise RetryLater(after=0.05, reason="busy", counted=False)
    return "done"


@app.job(process=True)
def unkeepable() -> object:
    return object()


@app.job(process=True, timeout=1.0, retry=RetryPolicy(attempts_max=1))
def hangs(path: str) -> None:
    child = subprocess.Popen(["sleep", "300"])
    announce(Path(path), f"{os.getpid()} {child.pid}")
    time.sleep(300)


@app.job
async def holds(path: str) -> None:
    announce(Path(path), "begun")
    while Path(path).exists():  # noqa: ASYNC110, ASYNC240 - until a test removes it
        await asyncio.sleep(0.01)


@app.job(process=True)
def stays(path: str) -> None:
    announce(Path(path), str(os.getpid()))
    time.sleep(300)


@app.job
async def plain(n: int) -> int:
    return n


@app.job(process=True)
async def submits(n: int) -> None:
    await plain.submit(n)


@app.job(process=True)
def submits_sync(n: int) -> None:
    plain.submit_sync(n)
