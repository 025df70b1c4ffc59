"""An app of handlers that meddle with the process of their worker, or leave something in it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import time

from inturn import App
from tests.processes.jobs import effect, may_end

app = App(os.environ.get("INTURN_STORE", "sqlite:///:memory:"))
fork = multiprocessing.get_context("fork")
SECONDS_MAX = 100.0


@app.job(attempts=1)
def terminate_on_thread() -> None:
    terminate()


@app.job(attempts=1)
async def terminate_on_loop() -> None:
    terminate()


@app.job(attempts=1)
async def hear_other_signals() -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, effect, "heard", "usr1", signal.SIGUSR1)
    effect("began", "hear", 1)


@app.job(attempts=1)
async def hear_no_signals() -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, effect, "heard", "usr1", signal.SIGUSR1)
    loop.remove_signal_handler(signal.SIGUSR1)
    effect("began", "hear", 1)


@app.job(attempts=1)
async def hold(name: str) -> None:
    effect("began", name, 1)
    while not may_end(name):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def terminate() -> None:
    """Fork a process that would go on, terminate it, and write what it ended with."""
    child = fork.Process(target=time.sleep, args=[SECONDS_MAX])
    child.start()
    child.terminate()
    child.join()
    effect("ended", "child", child.exitcode)
