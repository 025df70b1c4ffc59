"""The shop: its app and its jobs, which write down what they do. Its workers run in one folder."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import msgspec

from inturn.policy.retry import RetryPolicy
from inturn.queue.app import App
from inturn.queue.context import Context

ORDER_SECONDS = 0.15
LONG_SECONDS = 30.0  # its worker is killed meanwhile

app = App("sqlite:///shop.db")


class Entry(msgspec.Struct, frozen=True):
    """A line of the log: what became of which job, in which process."""

    event: str  # started, done, failed
    job: str
    pid: int
    at: float
    note: str = ""


@app.job(queue="shop", retry=RetryPolicy(attempts_max=2, base_seconds=1.0, jitter=0.0))
async def order(ctx: Context, customer: str, number: int) -> None:
    """Process an order. One of ben's fails once, one of cleo's until the article is known."""
    write("started", ctx)
    try:
        await asyncio.sleep(_seconds(customer, number))
        if (customer, number) == ("ben", 2) and ctx.attempt == 1:
            raise TimeoutError("no answer from the bank")
        if (customer, number) == ("cleo", 2) and not _is_there("article-4711"):
            raise LookupError("no article 4711")
    except Exception as error:
        write("failed", ctx, f"{type(error).__name__}: {error}")
        raise
    write("done", ctx)


@app.job(queue="shop")
async def mail(ctx: Context, number: int) -> None:
    """Send a mail. Mails have no key: they wait for nobody."""
    write("started", ctx)
    await asyncio.sleep(ORDER_SECONDS / 3)
    write("done", ctx)


def write(event: str, ctx: Context, note: str = "") -> None:
    """Append a line to the log, in one piece."""
    entry = Entry(event, str(ctx.id), os.getpid(), time.time(), note)
    with open("log.jsonl", "ab", buffering=0) as file:
        file.write(msgspec.json.encode(entry) + b"\n")


def _seconds(customer: str, number: int) -> float:
    if (customer, number) != ("dora", 2) or _is_there("killed"):
        return ORDER_SECONDS
    return LONG_SECONDS


def _is_there(name: str) -> bool:
    return Path(name).exists()
