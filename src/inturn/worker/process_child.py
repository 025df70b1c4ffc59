"""A child process of a worker: makes one attempt after another, until its worker wants no more."""

from __future__ import annotations

import asyncio
import fcntl
import os
import select
import signal
import socket
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, suppress
from importlib import import_module
from itertools import count
from multiprocessing import spawn
from queue import SimpleQueue
from random import Random
from typing import Any, Literal, NoReturn

from inturn.model.errors import BadInput, LeaseLost, StoreError
from inturn.policy.raised import describe
from inturn.policy.settlement import Outcome, keepable
from inturn.policy.verdict import Verdict
from inturn.queue.job import MAIN, Job, unfindable
from inturn.queue.transaction import JobTransaction
from inturn.store.queries import Query
from inturn.worker import process_protocol as protocol
from inturn.worker.attempt import Attempts

END_SECONDS_MAX = 5.0  # for a child that is not wanted any more


def main(connection: int, worker_lives: int) -> None:
    """Take jobs from the socket of the first number, one at a time, until it is closed.

    The second is a pipe, closed when the worker is gone.
    """
    # A supervisor may signal all processes at once; the worker decides when a child ends. Not
    # SIG_IGN, which programs that a handler starts would inherit.
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: None)
    _be_killed_with(worker_lives)
    Child(Connection(socket.socket(fileno=connection))).run()


class Connection:
    """The socket to the worker. Any thread may send; one receives."""

    def __init__(self, connection: socket.socket) -> None:
        connection.set_inheritable(False)
        self._incoming = connection.makefile("rb")
        self._connection = connection
        self._lock = threading.Lock()

    def send(self, frame: protocol.Frame) -> None:
        """Send a frame; without a worker, this process ends."""
        try:
            with self._lock:
                self._connection.sendall(protocol.encode(frame))
        except OSError:
            _end_all()

    def receive(self) -> protocol.Frame | None:
        """Wait for a frame; None when the worker is gone, or wants no more."""
        try:
            head = self._incoming.read(protocol.LENGTH_BYTES)
            if len(head) < protocol.LENGTH_BYTES:
                return None
            return protocol.decode(self._incoming.read(int.from_bytes(head)))
        except OSError:
            return None


class Child:
    """Makes attempts on the main thread, while another listens to the worker."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._orders: SimpleQueue[protocol.Setup | protocol.Begin | None] = SimpleQueue()
        self._asked: dict[int, Future[protocol.Answer]] = {}
        self._numbers = count(1)
        self._is_busy = False
        self._attempts: dict[str, Attempts] = {}
        self._jobs: dict[str, Job[Any, Any]] = {}

    def run(self) -> None:
        """Find the jobs, then make attempts until the worker wants no more."""
        threading.Thread(target=self._listen, name="inturn-worker", daemon=True).start()
        while (order := self._orders.get()) is not None:
            answer: protocol.Frame
            if isinstance(order, protocol.Setup):
                answer = protocol.Ready(self._find(order))
            else:
                answer = protocol.Ended(self._attempt(order))
            self._is_busy = False
            self._connection.send(answer)

    async def ask(
        self, verb: Literal["heartbeat", "progress"], fraction: float = 0.0, note: str = ""
    ) -> protocol.Answer:
        """Ask the worker for what only it can do."""
        number = next(self._numbers)
        answered: Future[protocol.Answer] = Future()
        self._asked[number] = answered
        self._connection.send(protocol.Ask(number, verb, fraction, note))
        return await asyncio.wrap_future(answered)

    def _find(self, setup: protocol.Setup) -> list[str]:
        """Import the modules of the jobs; return an error for each job that is not there."""
        sys.argv[:] = setup.main["sys_argv"]
        missing: list[str] = []
        for kind, module in setup.modules.items():
            try:
                if module == MAIN and not hasattr(sys.modules[MAIN], "__file__"):
                    spawn.prepare(setup.main)
                job = protocol.find_job(import_module(module), kind)
                if job is not None and job.app.address != setup.store:
                    job.app.use(setup.store)
            except BaseException as error:
                why = keepable(describe(error)).removesuffix(".")
                missing.append(str(_not_imported(kind, module, why)))
                continue
            if job is None:
                why = f"neither it nor its app stands in module {module!r}"
                missing.append(str(unfindable(kind, why)))
                continue
            self._jobs[kind] = job
            self._attempts[kind] = Attempts(job, Random(), watchdog=None)
        return missing

    def _attempt(self, begin: protocol.Begin) -> Verdict:
        attempts, leased = self._attempts[begin.job.kind], begin.job
        store = PipeStore(self, begin.token)
        if not attempts.is_on_loop:
            return attempts.on_thread(begin.token, leased, store).verdict

        async def on_loop() -> Outcome:
            try:
                return await attempts.on_loop(begin.token, leased, store)
            finally:  # the store's connections live on this loop, which ends with the attempt
                await self._jobs[leased.kind].app.close()

        try:
            return asyncio.run(on_loop()).verdict
        except BaseException as error:  # of a task beside the handler; or it cancelled itself
            return attempts.failed(leased, error)

    def _listen(self) -> None:
        try:
            while (frame := self._connection.receive()) is not None:
                if isinstance(frame, protocol.Setup | protocol.Begin):
                    self._is_busy = True
                    self._orders.put(frame)
                elif isinstance(frame, protocol.Answer) and (
                    asked := self._asked.pop(frame.number, None)
                ):
                    asked.set_result(frame)
        finally:  # whatever keeps it from listening, such as no memory: nobody else would hear
            if not self._is_busy:
                self._orders.put(None)
                time.sleep(END_SECONDS_MAX)  # a handler's thread, or what it left for the exit
            _end_all()


class PipeStore:
    """The store as an attempt in a child may use it: by asking the worker."""

    is_lost = False  # a worker kills the child when it hears of that

    def __init__(self, child: Child, token: int) -> None:
        self._child, self._token = child, token

    async def heartbeat(self) -> None:
        """Have the worker prolong the lease now; raise ``LeaseLost`` if it is gone."""
        self._check(await self._child.ask("heartbeat"))

    async def progress(self, fraction: float, note: str) -> None:
        """Have the worker store how far the job is."""
        self._check(await self._child.ask("progress", fraction, note))

    def transaction(self) -> AbstractAsyncContextManager[JobTransaction]:
        """Refuse: what commits with the job's end needs the worker's own connection."""
        raise BadInput(
            "a job with process=True has no ctx.transaction(): the connection that says that the "
            "job is done is the worker's, in another process. Leave out process=True, or make "
            "the handler's writes idempotent by ctx.id and fence them with ctx.token."
        )

    async def done_with(self, query: Query[Any], row: Any) -> None:
        """Refuse: as a transaction."""
        self.transaction()

    async def call(self, kind: str, payload: str, timeout_seconds: float | None) -> Any:
        """Refuse: other jobs run in the worker's process, or in one of their own."""
        raise BadInput("a job with process=True can run no other job as a part of it.")

    def _check(self, answer: protocol.Answer) -> None:
        if answer.is_lost:
            raise LeaseLost([self._token])
        if answer.error is not None:
            raise StoreError(answer.error)


def _not_imported(kind: str, module: str, why: str) -> BadInput:
    if module == MAIN:
        guard = "Put what the program does below `if __name__ == '__main__':`"
        return unfindable(kind, f"importing the program failed with {why}", guard)
    return unfindable(kind, f"importing module {module!r} failed with {why}")


def _be_killed_with(worker_lives: int) -> None:
    """Have the kernel kill this process and all that it starts when the worker is gone.

    On Linux a signal can be asked for when a pipe is closed, and for a whole process group. So it
    comes although a handler lets no other thread run, and strikes what that handler started, too.
    Elsewhere the thread that listens to the worker does the same, when it is let run.
    """
    if not hasattr(fcntl, "F_SETSIG"):
        return
    with suppress(OSError):  # a sandbox may not have it
        fcntl.fcntl(worker_lives, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(worker_lives, fcntl.F_SETOWN, -os.getpgrp())
        flags = fcntl.fcntl(worker_lives, fcntl.F_GETFL)
        fcntl.fcntl(worker_lives, fcntl.F_SETFL, flags | os.O_ASYNC)
    if select.select([worker_lives], [], [], 0)[0]:  # it is gone already
        _end_all()


def _end_all() -> NoReturn:
    """End this process and whatever its handler has started: nobody waits for it any more."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
