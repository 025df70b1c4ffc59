"""A program with a worker to be killed: its jobs run in a child, each hard to get rid of."""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from inturn import App, Worker
from tests.worker.conftest import until
from tests.worker.process_jobs import announce

LONG_SECONDS = 600
app = App()


@app.job(process=True)
def blocks(path: str) -> None:
    """Let no other thread run, nor any handler of a signal."""
    announce(Path(path), str(os.getpid()))
    ctypes.PyDLL(None).sleep(LONG_SECONDS)


@app.job(process=True)
def starts(path: str) -> None:
    program = subprocess.Popen(["sleep", str(LONG_SECONDS)])
    announce(Path(path), f"{os.getpid()} {program.pid}")
    ctypes.PyDLL(None).sleep(LONG_SECONDS)


@app.job(process=True)
def leaves_a_thread() -> int:
    threading.Thread(target=time.sleep, args=[LONG_SECONDS]).start()
    return os.getpid()


async def main(what: str, path: str) -> None:
    running = asyncio.create_task(Worker(app).run())
    if what == "idles":
        pid = await (await leaves_a_thread.submit()).result(timeout=60)
        announce(Path(path), str(pid))
    else:
        await app.jobs[what].submit(path)
        await until(Path(path).exists)
    await running


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
