"""The app that worker processes work for: every job writes what it does past the store."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from inturn import App, Context

app = App(os.environ.get("INTURN_STORE", "sqlite:///:memory:"))


def folder() -> Path:
    """Where effects are written, and where a test says that a job may end."""
    return Path(os.environ["INTURN_TEST_FOLDER"])


def effect(*words: object) -> None:
    """Write a line in one piece, whoever else writes."""
    line = " ".join(str(word) for word in (*words, os.getpid())) + "\n"
    fd = os.open(folder() / "effects", os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


def may_end(name: str) -> bool:
    ends = ("end", f"end-{name}", f"end-{name}-{os.getpid()}")
    return any((folder() / end).exists() for end in ends)


@app.job(attempts=3)
async def count(key: str, n: int, seconds: float = 0.0) -> None:
    effect("count", key, n)
    await asyncio.sleep(seconds)


@app.job(attempts=3)
def count_on_thread(key: str, n: int, seconds: float = 0.0) -> None:
    effect("count", key, n)
    time.sleep(seconds)


@app.job(attempts=3)
async def hold(ctx: Context, name: str) -> None:
    effect("began", name, ctx.attempt)
    try:
        while not may_end(name):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        effect("cancelled", name, ctx.attempt)
        raise
    effect("ended", name, ctx.attempt)


@app.job(attempts=3)
def hold_thread(ctx: Context, name: str) -> None:
    effect("began", name, ctx.attempt)
    while not may_end(name):
        time.sleep(0.01)
    effect("ended", name, ctx.attempt)


@app.job(attempts=3)
async def hold_loop(ctx: Context, name: str) -> None:
    effect("began", name, ctx.attempt)
    while not may_end(name):
        time.sleep(0.01)  # noqa: ASYNC251
    effect("ended", name, ctx.attempt)


@app.job(attempts=3)
async def leave(name: str, times: int, code: int = 0) -> None:
    """End the worker's process, as though all were well, so many times."""
    tried = folder() / f"left-{name}"
    left = len(tried.read_text()) if tried.exists() else 0
    effect("began", name, left + 1)
    if left < times:
        tried.write_text("x" * (left + 1))
        os._exit(code)
    effect("ended", name, left + 1)


@app.job(attempts=1)
async def fail(name: str) -> None:
    raise ValueError(f"no such customer as {name}")
