"""The shop: its app, and the jobs that workers run, with their faults in plain sight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from inturn.demo.diary import Diary
from inturn.policy.raised import describe
from inturn.policy.retry import RetryPolicy
from inturn.queue.app import App
from inturn.queue.context import Context

QUEUE = "shop"
ATTEMPTS_MAX = 2
ORDER_SECONDS = 0.15
LONG_SECONDS = 30.0  # the worker is killed in the middle of it, however busy the machine is

app = App("sqlite:///shop.db")  # the demo says where: inturn work --store …


@app.job(queue=QUEUE, retry=RetryPolicy(attempts_max=ATTEMPTS_MAX, base_seconds=1.0, jitter=0.0))
async def order(ctx: Context, customer: str, number: int) -> None:
    """Process one order."""

    async def process() -> None:
        is_long = (customer, number) == ("dora", 2) and _is_first_time()
        await asyncio.sleep(LONG_SECONDS if is_long else ORDER_SECONDS)
        if (customer, number) == ("ben", 2) and ctx.attempt == 1:
            raise TimeoutError("no answer from the bank")
        if (customer, number) == ("cleo", 2) and not is_article_known():
            raise LookupError("no article 4711")

    await _noted(ctx, process)


@app.job(queue=QUEUE)
async def mail(ctx: Context, number: int) -> None:
    """Send a mail: no order among these."""
    await _noted(ctx, lambda: asyncio.sleep(ORDER_SECONDS / 3))


@app.job(queue=QUEUE)
async def receipt(ctx: Context, customer: str) -> None:
    """Write a receipt, after a customer's last order."""
    await _noted(ctx, lambda: asyncio.sleep(ORDER_SECONDS / 3))


def add_article() -> None:
    """Mend what is wrong with cleo's order."""
    _article().touch()


def is_article_known() -> bool:
    """Say whether a person has added the article."""
    return _article().exists()


def _is_first_time() -> bool:
    """Say whether nobody asked before."""
    try:
        Diary.of_this_process().path.with_name("asked").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _article() -> Path:
    return Diary.of_this_process().path.with_name("article-4711")


async def _noted(ctx: Context, work: Callable[[], Awaitable[None]]) -> None:
    """Do the work, and write in the diary what became of it."""
    diary = Diary.of_this_process()
    diary.write("started", job=ctx.id, attempt=ctx.attempt, token=ctx.token)
    try:
        await work()
    except Exception as error:
        note = describe(error)
        diary.write("failed", job=ctx.id, attempt=ctx.attempt, token=ctx.token, note=note)
        raise
    diary.write("done", job=ctx.id, attempt=ctx.attempt, token=ctx.token)
