"""A program that submits a group and is killed before the commit, with all of it written."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import inturn
from inturn.queue.transaction import AppTransaction

app = inturn.App()
app.node("n1")


@app.job
async def work() -> None:
    """Nothing."""


async def die(self: AppTransaction, *args: Any, **options: Any) -> None:
    """Be killed as the transaction is about to commit."""
    os.kill(os.getpid(), signal.SIGKILL)


async def main() -> None:
    """Submit a group of a hundred steps."""
    async with app, app.group("lost") as group:
        for number in range(100):
            group.step(str(number), node="n1", do=work.call(), undo=work.call())
        AppTransaction.finish = die  # type: ignore[method-assign]


if __name__ == "__main__":
    asyncio.run(main())
