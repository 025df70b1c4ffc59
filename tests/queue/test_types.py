"""What users write is typed: right calls are clean, and a wrong one is an error where it stands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

APP = """
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

import inturn
from inturn.testing import private

app = inturn.App("sqlite:///:memory:")

@app.job(queue="mail")
async def send(ctx: inturn.Context, to: str, copies: int = 1) -> int:
    return copies

@app.job
async def fetch(url: str) -> bytes:
    return b""

@app.job
def plain(n: int) -> str:
    return str(n)

@app.job(attempts=2)
def counted(ctx: inturn.Context, n: int) -> float:
    return 0.5

P = ParamSpec("P")
T = TypeVar("T")

def traced(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    return function

@app.job
@traced
async def wrapped(n: int) -> str:
    return str(n)

async def submitted() -> None:
    traced_text: str = await (await wrapped.submit(1)).result()
    also_text: str = await wrapped(1)
    await wrapped.submit("x")  # wrong
    number: int = await (await send.submit("a", copies=2)).result(timeout=1)
    text: str = await plain.submit_sync(n=1).result()
    octets: bytes = await (await fetch.using(key="k", delay=3).submit(url="u")).result()
    await app.submit_many([send.call(to="a")])
    await app.submit_many([send.call(to="a"), plain.using(priority=2).call(1)])
    await send.submit(5)  # wrong
    await send.submit()  # wrong
    await send.using(key="k").submit(too="a")  # wrong
    await send.using(keys="k").submit("a")  # wrong
    plain.submit_sync("x")  # wrong
    plain.call("x")  # wrong
    counted.using(key="k").call()  # wrong
    await app.submit_many([send.call(to=5)])  # wrong
    await app.submit_many([plain])  # wrong
    await app.submit_many([plain.using(queue="q").call(n="x")])  # wrong
    wrong: str = await (await send.submit("a")).result()  # wrong

async def called(ctx: inturn.Context) -> None:
    copies: int = await send(ctx, "a", copies=2)
    octets: bytes = await fetch(url="u")
    text: str = plain(1)
    half: float = counted.using(key="k")(ctx, n=1)
    await send("a")  # wrong
    await send(ctx, 5)  # wrong
    await fetch(5)  # wrong
    plain("x")  # wrong
    plain(n=1, m=2)  # wrong
    counted(1)  # wrong
    unawaited: bytes = fetch("u")  # wrong
    number: int = plain(1)  # wrong
"""

EXECUTOR = """
from functools import partial

import inturn

async def fetch(url: str = "u") -> bytes:
    return b""

def count() -> int:
    return 1

class Upload:
    async def run(self) -> float:
        return 0.5

async def alone() -> None:
    async with inturn.Executor(slots=8, base_backoff="10ms") as executor:
        octets: bytes = await executor.run("a", fetch)
        number: int = await executor.run("a", count, timeout="1s")
        half: float = await executor.run("a", Upload())
        other: bytes = await executor.run("a", partial(fetch, "v"))
        length: int = await executor.run("a", lambda: len("abc"))
        later: bytes = await (await executor.submit("a", fetch)).result(timeout=1)
        sync: int = executor.submit_sync("a", count).result_sync()
        await executor.submit_many([("a", fetch), ("b", count), ("c", Upload())])
        text: str = await executor.run("a", count)  # wrong
        await executor.run("a", fetch("u"))  # wrong
        await executor.run("a")  # wrong
        await executor.run(7, count)  # wrong
        await executor.submit("a", 7)  # wrong
        wrong: str = await (await executor.submit("a", fetch)).result()  # wrong
    inturn.Executor(slot=8)  # wrong

app = inturn.App("sqlite:///:memory:")

@app.job
def plain(n: int) -> str:
    return str(n)

async def durable() -> None:
    async with inturn.Executor(app=app, lease_seconds=30) as executor:
        text: str = await executor.run("a", plain.call(1))
        later: str = await (await executor.submit("a", plain.call(n=1))).result()
        await executor.run("a", plain.call("x"))  # wrong
        await executor.run("a", count)  # wrong
        number: int = await executor.run("a", plain.call(1))  # wrong
    inturn.Executor(app=app, shards=4)  # wrong
"""


def assert_errors_stand_where_they_are_marked(program: str, folder: Path) -> None:
    path = folder / "program.py"
    path.write_text(program, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--output", "json", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = [msgspec.json.decode(line) for line in ran.stdout.splitlines()]
    found = {one["line"] for one in said if one["severity"] == "error"}
    wanted = {n for n, line in enumerate(program.splitlines(), 1) if line.endswith("# wrong")}
    assert found == wanted, ran.stdout + ran.stderr


def test_a_wrong_argument_of_a_job_is_an_error_of_types(tmp_path: Path) -> None:
    assert_errors_stand_where_they_are_marked(APP, tmp_path)


def test_a_wrong_job_of_an_executor_is_an_error_of_types(tmp_path: Path) -> None:
    assert_errors_stand_where_they_are_marked(EXECUTOR, tmp_path)
