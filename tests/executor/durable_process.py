"""A process with a durable executor, to be killed: ``… URL LEDGER FIRST LAST``.

It submits the numbers from FIRST to LAST to each of a few keys, and its handlers write what they
begin and end to the ledger, ``KEY NUMBER PROCESS begins``. A line it prints says that a number was
accepted; the last one, that all is done.
"""

from __future__ import annotations

import asyncio
import os
import sys

import inturn

KEYS = ("ann", "bob", "eve")


def main(url: str, ledger: str, first: int, last: int) -> None:
    app = inturn.App(url)
    book = os.open(ledger, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    @app.job
    async def write(key: str, n: int) -> None:
        os.write(book, f"{key} {n} {os.getpid()} begins\n".encode())
        # Some take longer than those behind them: out of line, they would meet.
        await asyncio.sleep(0.001 * (n % 4))
        os.write(book, f"{key} {n} {os.getpid()} ends\n".encode())

    async def work() -> None:
        executor = inturn.Executor(
            app=app,
            slots=3,
            lease_seconds=3.0,
            sweep_seconds=0.1,
        )
        async with executor:
            for n in range(first, last):
                for key in KEYS:
                    await executor.submit(key, write.call(key, n))
                    os.write(1, f"{key} {n}\n".encode())  # whole, also when it is killed here
            for key in KEYS:
                await executor.barrier(key)
        await app.close()
        print("all done", flush=True)

    asyncio.run(work())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
