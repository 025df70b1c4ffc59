"""An app of handlers that meddle with the process of their worker, or leave something in it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from inturn import App
from tests.processes.jobs import effect, folder, may_end

app = App(os.environ.get("INTURN_STORE", "sqlite:///:memory:"))
fork = multiprocessing.get_context("fork")
kept: list[Any] = []


@app.job(attempts=1)
def terminate_on_thread() -> None:
    terminate()


@app.job(attempts=1)
async def leave_thread(name: str) -> None:
    threading.Thread(target=go_on, args=[name], name=name).start()


@app.job(attempts=1)
async def leave_task(name: str) -> None:
    async def stubborn() -> None:
        while not may_end(name):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    kept.append(asyncio.create_task(stubborn(), name=name))


@app.job(attempts=1)
async def leave_process(name: str) -> None:
    child = fork.Process(target=go_on, args=[name], name=name)
    child.start()
    kept.append(child)


@app.job(attempts=1)
async def fill_pool(name: str) -> None:
    """Keep all threads of the loop's pool, as blocking clients do whose server never answers."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1, name))
    kept.append(loop.run_in_executor(None, go_on, name))


@app.on_stop
def stop() -> None:
    effect("stopped", "hook", 1)


def go_on(name: str) -> None:
    (folder() / f"going-{name}").touch()
    while not may_end(name):
        time.sleep(0.01)
    effect("ended", name, 1)


def terminate() -> None:
    """Fork a process that would go on, terminate it, and write what it ended with."""
    child = fork.Process(target=go_on, args=["child"])
    child.start()
    while not (folder() / "going-child").exists():
        time.sleep(0.01)
    child.terminate()
    child.join()
    effect("ended", "child", child.exitcode)
