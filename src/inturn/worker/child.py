"""A child process of a worker: makes one attempt after another, until its worker is gone."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from itertools import count
from queue import SimpleQueue
from random import Random
from typing import Any, Literal, NoReturn

from inturn.model.errors import BadInput, LeaseLost, StoreError
from inturn.policy.raised import describe
from inturn.policy.settlement import keepable
from inturn.policy.verdict import Release, Verdict
from inturn.queue.context import JobTransaction
from inturn.queue.job import Job
from inturn.worker import wire
from inturn.worker.attempt import Attempts
from inturn.worker.lease_clock import lease_now
from inturn.worker.own_loop import on_own_loop
from inturn.worker.program import find_job

LOOK_SECONDS = 1.0  # between two looks at who its parent is
LAST_SECONDS_MAX = 5.0  # from being wanted no more until it is gone


def main(descriptor: int, worker: int) -> None:
    """Take jobs from the socket of this number, one at a time, until it is closed."""

    # A terminal or a supervisor signals all of a worker's processes at once, and what runs is to
    # be finished: the worker says when a child ends, as long as there is one. No SIG_IGN, which
    # programs that a handler starts would inherit.
    def signalled(*_: object) -> None:
        if os.getppid() != worker:
            _end_all()

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signalled)
    Child(Line(socket.socket(fileno=descriptor)), worker).run()


class Line:
    """The socket to the worker. What is said may come from any thread; one thread listens."""

    def __init__(self, connection: socket.socket) -> None:
        connection.set_inheritable(False)
        self._incoming = connection.makefile("rb")
        self._connection = connection
        self._lock = threading.Lock()

    def say(self, word: wire.Word) -> None:
        """Say a word; a worker that is gone does not hear it."""
        try:
            with self._lock:
                self._connection.sendall(wire.written(word))
        except OSError:
            _end_all()

    def hear(self) -> wire.Word | None:
        """Wait for a word; None when the worker is gone, or wants no more."""
        try:
            head = self._incoming.read(wire.LENGTH_BYTES)
            if len(head) < wire.LENGTH_BYTES:
                return None
            return wire.read(self._incoming.read(int.from_bytes(head)))
        except OSError:
            return None


class Child:
    """Makes attempts on the main thread, while another listens to the worker."""

    def __init__(self, line: Line, worker: int) -> None:
        self._line, self._worker = line, worker
        self._orders: SimpleQueue[wire.Welcome | wire.Begin | None] = SimpleQueue()
        self._asked: dict[int, Future[wire.Answer]] = {}
        self._numbers = count(1)
        self._is_busy = False
        self._attempts: dict[str, Attempts] = {}
        self._jobs: dict[str, Job[Any, Any]] = {}

    def run(self) -> None:
        """Find the jobs, then make attempts until the worker wants no more."""
        # They watch while modules are imported as well, which may take for ever.
        threading.Thread(target=self._listen, name="inturn-line", daemon=True).start()
        threading.Thread(target=self._look, name="inturn-parent", daemon=True).start()
        while (order := self._orders.get()) is not None:
            answer: wire.Ready | wire.Ended
            if isinstance(order, wire.Welcome):
                answer = wire.Ready(self._find(order))
            else:
                answer = wire.Ended(self._attempt(order))
            self._is_busy = False
            self._line.say(answer)

    async def ask(
        self, verb: Literal["heartbeat", "progress"], fraction: float = 0.0, note: str = ""
    ) -> wire.Answer:
        """Ask the worker for what only it can do."""
        number = next(self._numbers)
        answered: Future[wire.Answer] = Future()
        self._asked[number] = answered
        self._line.say(wire.Ask(number, verb, fraction, note))
        return await asyncio.wrap_future(answered)

    def _find(self, welcome: wire.Welcome) -> dict[str, str]:
        """Import the modules of the jobs; return the kinds that are not there, and why."""
        sys.argv[:] = welcome.program.arguments
        missing: dict[str, str] = {}
        for kind, module in welcome.modules.items():
            try:
                job = find_job(welcome.program.load(module), kind)
                if job is not None and job.app.address != welcome.store:
                    job.app.use(welcome.store)
            except BaseException as error:
                why = keepable(describe(error))
                missing[kind] = f"importing module {module!r} failed with {why}"
                continue
            if job is None:
                missing[kind] = f"neither it nor its app stands in module {module!r}"
                continue
            self._jobs[kind] = job
            self._attempts[kind] = Attempts(job, Random(), watch=None)
        return missing

    def _attempt(self, begin: wire.Begin) -> Verdict:
        attempts = self._attempts[begin.job.kind]
        way = LineWay(self, begin.token)
        if lease_now() > begin.kept_until:
            return Release()  # somebody else may be at it
        if not attempts.is_on_loop:
            return attempts.on_thread(begin.token, begin.job, way).verdict

        # The store's connections live on this loop, which ends with the attempt.
        close = self._jobs[begin.job.kind].app.close
        try:
            return on_own_loop(attempts.on_loop(begin.token, begin.job, way), close).verdict
        except BaseException as error:  # of a task beside the handler; or it cancelled itself
            return attempts.failed(begin.job, error)

    def _listen(self) -> None:
        try:
            while (word := self._line.hear()) is not None:
                if isinstance(word, wire.Welcome | wire.Begin):
                    self._is_busy = True
                    self._orders.put(word)
                elif isinstance(word, wire.Answer) and (
                    asked := self._asked.pop(word.number, None)
                ):
                    asked.set_result(word)
        finally:  # whatever keeps it from listening, such as no memory: nobody else would hear
            self._leave()

    def _look(self) -> None:
        """Notice that the worker is gone although the line is open: in a process it forked."""
        while os.getppid() == self._worker:
            time.sleep(LOOK_SECONDS)
        self._leave()

    def _leave(self) -> None:
        """End with what runs; without anything, in good order if that is a matter of seconds."""
        if not self._is_busy:
            self._orders.put(None)
            time.sleep(LAST_SECONDS_MAX)  # a handler's thread, or what it left for the exit
        _end_all()


class LineWay:
    """From a handler in a child to the store: over the line to the worker."""

    is_lost = False  # a worker kills the child when it hears of that

    def __init__(self, child: Child, token: int) -> None:
        self._child, self._token = child, token

    async def heartbeat(self) -> None:
        """Have the worker prolong the lease now; raise ``LeaseLost`` if it is gone."""
        self._look_at(await self._child.ask("heartbeat"))

    async def progress(self, fraction: float, note: str) -> None:
        """Have the worker let it be known how far the job is."""
        self._look_at(await self._child.ask("progress", fraction, note))

    def transaction(self) -> AbstractAsyncContextManager[JobTransaction]:
        """Refuse: what commits with the job's end needs the worker's own connection."""
        raise BadInput(
            "a job with process=True has no ctx.transaction(): the connection that says that the "
            "job is done is the worker's, in another process. Leave out process=True, or make "
            "the handler's writes idempotent by ctx.id and fence them with ctx.token."
        )

    def _look_at(self, answer: wire.Answer) -> None:
        if answer.is_lost:
            raise LeaseLost([self._token])
        if answer.error is not None:
            raise StoreError(answer.error)


def _end_all() -> NoReturn:
    """End this process and whatever its handler has started: nobody waits for it any more."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
