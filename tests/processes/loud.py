"""An app whose module and handlers print, in every way there is."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

from inturn import App

app = App(os.environ.get("INTURN_STORE", "sqlite:///:memory:"))

print("noise of the module")


def noise(name: str) -> None:
    print(f"noise of print in {name}")
    print(f"noise without an end in {name} ", end="")
    sys.stdout.flush()
    os.write(1, f"noise of write in {name} ".encode())
    subprocess.run(["sh", "-c", f"echo noise of a program in {name}"], check=True)
    if not (forked := os.fork()):
        os.write(1, f"noise of a fork in {name}\n".encode())
        os._exit(0)
    os.waitpid(forked, 0)
    ctypes.CDLL(None).puts(f"noise of C in {name}".encode())
    ctypes.CDLL(None).fflush(None)


@app.job(attempts=1)
async def on_loop() -> None:
    noise("a loop")
    raise ValueError("so that there is something to tell between the noises")


@app.job(attempts=1)
def on_thread() -> None:
    noise("a thread")
    raise ValueError("the same")


@app.job(attempts=1, process=True)
def in_process() -> None:
    noise("a process")
    raise ValueError("the same")


@app.on_start
async def start() -> None:
    noise("a hook")
