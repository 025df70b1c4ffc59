"""The end of a worker's process, although handlers may have left threads or tasks that go on."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, NoReturn

from inturn.log import guarded, log_raised_on_loop
from inturn.worker.herald import TOLD_SECONDS_MAX
from inturn.worker.parting import PART_SECONDS_MAX

LEFT_SECONDS_MAX = 3.0  # for what handlers left to end, when nothing else is waited for
FLUSH_SECONDS_MAX = 1.0
FAILED = 1
NAMES_MAX = 8


class Leaving:
    """Runs what a process is for; then it ends, if need be without what handlers left in it.

    What is left may end by itself for a moment, and Python ends as it always does. Else ``say`` is
    called with the names of what goes on, and the process is ended. That is on a thread which is
    there before Python ends: Python 3.12 lets none be started from then on.
    """

    def __init__(self, say: Callable[[tuple[str, ...]], None]) -> None:
        self._say = say
        self._code = FAILED
        self._on_loop: set[asyncio.Task[Any]] = set()
        self._is_said = threading.Event()
        self._names: tuple[str, ...] = ()
        self._is_to_end, self._is_told = threading.Event(), threading.Event()
        self._last = threading.Lock()  # taken by whoever ends the process

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine to its end as ``asyncio.run`` does, which would wait for what is left."""
        loop = asyncio.Runner().get_loop()
        try:
            _run_to_its_end(loop, work)
            self._code = 0
        finally:
            self._on_loop = asyncio.all_tasks(loop)
            for target in (self._watch, self._tell):
                threading.Thread(target=target, name="inturn-leaving", daemon=True).start()
            _run_to_its_end(loop, self._part())
            loop.close()  # waits for no thread

    def leave(self, code: int) -> None:
        """Hear that all is done and said, and what to leave with. May not return."""
        self._code = code
        if names := self._left_on_loop():
            self._end(names)
        self._is_said.set()

    async def _part(self) -> None:
        """Cancel what is left on the loop, and wait a moment for it to end."""
        loop = asyncio.get_running_loop()
        for one in self._on_loop:
            one.cancel()
        ended: Iterable[asyncio.Task[Any]] = ()
        if self._on_loop:
            ended, _ = await asyncio.wait(self._on_loop, timeout=PART_SECONDS_MAX)
        for one in ended:
            if not one.cancelled() and (error := one.exception()) is not None:
                loop.call_exception_handler(
                    {"message": "a task failed at the end", "exception": error, "task": one}
                )
        with suppress(TimeoutError):
            async with asyncio.timeout(PART_SECONDS_MAX):
                await loop.shutdown_asyncgens()

    def _watch(self) -> None:
        """End the process if something keeps it, unless that is what was registered for its end."""
        while True:
            if self._is_said.wait(LEFT_SECONDS_MAX):
                time.sleep(LEFT_SECONDS_MAX)  # idle threads of pools have gone, as Python ends
                names = _threads_left() + _children_left()
            else:
                names = self._left_on_loop()  # one of them may block the loop
            if names:
                self._end(names)

    def _left_on_loop(self) -> list[str]:
        return [f"task {one.get_name()!r}" for one in self._on_loop if not one.done()]

    def _end(self, names: list[str]) -> NoReturn:
        self._last.acquire()
        more = len(names) - NAMES_MAX
        self._names = (*names[:NAMES_MAX], *([f"{more:,} more"] if more > 0 else []))
        self._is_to_end.set()
        self._is_told.wait(TOLD_SECONDS_MAX)
        os._exit(self._code)

    def _tell(self) -> None:
        """Say what goes on, when the process is to be ended; nobody may read it."""
        self._is_to_end.wait()
        try:
            self._say(self._names)
        finally:
            _flush()
            self._is_told.set()


def _run_to_its_end(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine until it has ended, whatever else on the loop wants to leave.

    ``SystemExit`` and ``KeyboardInterrupt`` of any task or callback come out of a loop, and a
    handler may have started that one. Whoever awaits it gets the error; here it is only said.
    """
    main = loop.create_task(work)
    while not main.done():
        try:
            loop.run_until_complete(main)
        except (SystemExit, KeyboardInterrupt) as error:
            if _is_ctrl_c(error):
                raise
            if not (main.done() and not main.cancelled() and main.exception() is error):
                guarded(log_raised_on_loop, error)
    main.result()


def _is_ctrl_c(error: BaseException) -> bool:
    """Whether an error may be Ctrl-C itself, though a worker has its signals read elsewhere."""
    heard_by = signal.getsignal(signal.SIGINT)
    return isinstance(error, KeyboardInterrupt) and heard_by is signal.default_int_handler


def _threads_left() -> list[str]:
    """Return the threads that Python waits for: of a pool, daemons as well."""
    pools = sys.modules.get("concurrent.futures.thread")
    pooled = getattr(pools, "_threads_queues", ())
    return [
        f"thread {thread.name!r}"
        for thread in threading.enumerate()
        if thread is not threading.main_thread() and (not thread.daemon or thread in pooled)
    ]


def _children_left() -> list[str]:
    """Return the processes that Python waits for, if there can be any."""
    if "multiprocessing" not in sys.modules:
        return []
    children = sys.modules["multiprocessing"].active_children()
    return [f"process {child.name!r}" for child in children if not child.daemon]


def replace_lost_streams() -> None:
    """Let what is still to be said go nowhere, and not fail, if the output is gone.

    A handler may have closed it, or someone the terminal. A pipe that nobody reads is left as it
    is: the command has an exit code for that.
    """
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
            continue
        except (ValueError, AttributeError):  # closed, or put away
            pass
        except OSError as error:
            if error.errno != errno.EIO:
                continue
        setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def end_process(code: int) -> NoReturn:
    """End the process, whatever it is at, when what was written is out or a moment over."""
    flushing = threading.Thread(target=_flush, name="inturn-flush", daemon=True)
    try:
        flushing.start()
        flushing.join(FLUSH_SECONDS_MAX)
    finally:  # though no thread could be started
        os._exit(code)


def _flush() -> None:
    with suppress(Exception):  # whatever an app's own handlers raise
        logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
