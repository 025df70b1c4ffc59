"""Short ways to run the command and to bring a store into a state worth looking at."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import pytest

from inturn.cli.main import run
from inturn.model.job import NewJob
from inturn.model.lane import OnDead, QueueSettings
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Verdict
from inturn.store.address import connect
from inturn.store.store import Store

COMMAND = (sys.executable, "-m", "inturn.cli.main")
INHERITED = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
NOWHERE = UUID("01900000-0000-7000-8000-000000000000")  # the id of a job that never was

Answer = TypeVar("Answer")


class Ran(NamedTuple):
    """What a command left with and what it printed."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Cli:
    """Runs the command in this process."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.url = url
        self._capsys = capsys

    def __call__(self, *arguments: str, store: str | None = None) -> Ran:
        self._capsys.readouterr()
        code = run([*arguments, "--store", store or self.url])
        return Ran(code, *self._capsys.readouterr())

    def bare(self, *arguments: str) -> Ran:
        """Run it without naming a store."""
        self._capsys.readouterr()
        return Ran(run(arguments), *self._capsys.readouterr())

    def json(self, *arguments: str) -> Any:
        """Run what must succeed with --json, and return its document."""
        ran = self(*arguments, "--json")
        assert (ran.code, ran.err) == (0, "")
        return ran.document

    def store(self, verb: Callable[[Store], Awaitable[Answer]]) -> Answer:
        """Run a coroutine on the open store, past the command."""
        return on_store(self.url, verb)


def on_store(url: str, verb: Callable[[Store], Awaitable[Answer]]) -> Answer:
    async def opened() -> Answer:
        store = connect(url)
        try:
            await store.open()
            return await verb(store)
        finally:
            await store.close()

    return asyncio.run(opened())


def start(
    *arguments: str, environment: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[str]:
    """Start the command as a process of its own."""
    return subprocess.Popen(
        [*COMMAND, *arguments],
        env={**INHERITED, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        **{"stdin": subprocess.DEVNULL, **options},
    )


def run_process(*arguments: str, **options: Any) -> Ran:
    process = start(*arguments, **options)
    try:
        out, err = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return Ran(process.returncode, out, err)


class Terminal:
    """Runs the command, or another, on a terminal of a certain width."""

    def __init__(
        self,
        *arguments: str,
        columns: int = 80,
        command: Sequence[str] = COMMAND,
        **environment: str,
    ) -> None:
        self._mine, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self.process = subprocess.Popen(
            [*command, *arguments],
            env={**INHERITED, "TERM": "xterm", **environment},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(theirs)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._mine, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C until it ends: Python may miss one right before it waits for a line."""
        while self.process.poll() is None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                self.type("\x03")
                self.process.wait(2.0)

    def read_until(self, text: str) -> None:
        while text not in self.seen:
            assert self._read(), f"{text!r} never came: {self.seen}"

    def finish(self) -> tuple[int, str]:
        """Wait for the end; return the exit code and everything that was shown."""
        while self._read():
            pass
        return self.process.wait(120), self.seen.replace("\r\n", "\n")

    def close(self) -> None:
        """Take the terminal away, and the process if it is still there."""
        os.close(self._mine)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def _read(self) -> bool:
        try:
            read = os.read(self._mine, 65_536)
        except OSError:  # how Linux says that nobody holds the other end any more
            return False
        self.seen += read.decode(errors="replace")
        return bool(read)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def without_colour(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


async def settle_next(store: Store, queue: str, *verdicts: Verdict) -> list[UUID]:
    """Claim as many jobs as there are verdicts, and say what became of them."""
    settled: list[UUID] = []
    for verdict in verdicts:
        [claim] = await store.claim(queue, jobs_max=1, worker="w1")
        await store.settle(
            [Settlement(claim.lease, [Outcome(claim.jobs[0], verdict)])], worker="w1"
        )
        settled.append(claim.jobs[0].id)
    return settled


async def halt_lane(store: Store, queue: str = "orders", key: str = "c-7") -> list[UUID]:
    """Make a lane of three jobs that is halted on its first; return their ids."""
    await store.configure(queue, QueueSettings(on_dead=OnDead.HALT))
    jobs = [NewJob(kind="order", queue=queue, key=key, payload=f'{{"n": {n}}}') for n in (1, 2, 3)]
    await store.enqueue(jobs)
    await settle_next(store, queue, Bury("HTTP 400: unknown SKU"))
    return [job.id for job in jobs]


async def bury(store: Store, number: int, queue: str = "mail", kind: str = "send") -> list[UUID]:
    """Make some dead letters without a key."""
    await store.enqueue([NewJob(kind=kind, queue=queue) for _ in range(number)])
    return await settle_next(store, queue, *[Bury("no address")] * number)
