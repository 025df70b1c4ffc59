"""A reader for each page, who has at hand what the page takes for granted."""

from __future__ import annotations

import asyncio
import os
import runpy
import shlex
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import prometheus_client
import psycopg
import pytest

import inturn
from inturn.model.job import JobState, JobView
from inturn.store.protocol import Page, Store
from inturn.verify.report import Report
from tests.cli.conftest import migrate
from tests.cli.support import on_store
from tests.cli.test_commands import COMMANDS
from tests.postgres_server import PostgresServer
from tests.snippets.blocks import Block, blocks_of
from tests.snippets.reader import STORE, Reader
from tests.snippets.trouble import bury_some

ROOT = Path(__file__).parents[2]


class Readme(Reader):
    """Has a PostgreSQL for its one statement, and after it a store with something to mend."""

    def set_up(self) -> None:
        self.database = self.request.getfixturevalue("postgres_url")
        migrate(self.database)

    async def see(self) -> None:
        assert "ann pays 500" in self.printed
        assert "eve 3 writes" in self.printed


class Start(Reader):
    """An empty folder; what the page has it save it can import."""

    def before(self, block: Block) -> None:
        saved = runpy.run_path(str(self.folder / "shop.py"))
        self.give(app=saved["app"], charge=saved["charge"])

    async def see(self) -> None:
        await self.names["app"].close()
        assert "bob pays 500" in self.printed


class Ordering(Reader):
    """Its store is a PostgreSQL, for it writes rows of its own."""

    def set_up(self) -> None:
        self.url: str = self.request.getfixturevalue("postgres_url")
        migrate(self.url)
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("create table payment (customer text, cents bigint)")
        app = self.new_app(self.url)
        self.own = app

        @app.job
        async def charge(customer: str, cents: int) -> None: ...

        @app.job
        async def copy(path: str) -> None: ...

        @app.job
        async def check(path: str) -> None: ...

        self.give(charge=charge, copy=copy, check=check)

    def before(self, block: Block) -> None:
        """Let the page declare ``charge`` once more."""
        if "def charge(" in block.text:
            del self.own.jobs["charge"]

    async def see(self) -> None:
        await self.work(self.own)
        with psycopg.connect(self.url) as connection:
            rows = connection.execute("select customer, cents from payment order by cents")
            found = rows.fetchall()
        assert found == [("ann", 125), *[("ann", 500)] * 3], found


class Handlers(Reader):
    """Has a database with sessions, as a hook needs."""

    def set_up(self) -> None:
        self.new_app()
        self.opened: list[str] = []

        @asynccontextmanager
        async def session() -> AsyncIterator[str]:
            self.opened.append("session")
            yield "session"

        self.sessions: ContextVar[str] = ContextVar("sessions")
        self.give(database=SimpleNamespace(session=session), sessions=self.sessions)

    async def see(self) -> None:
        app, copy = self.names["app"], self.names["copy"]
        await copy.submit("a.txt")
        await self.work(app)
        assert self.opened == ["session"]
        submitted = 'inturn submit thumbnail --payload \'{"path": "a.png"}\''
        await asyncio.to_thread(self.shell, f"{submitted} && inturn work thumbnails:app --drain")
        assert "1 job done" in self.printed


class Retries(Reader):
    """An app for each block, for it declares one job in several ways."""

    def before(self, block: Block) -> None:
        self.new_app()

    async def see(self) -> None:
        await self.names["push"].submit("u")
        await self.work(self.names["app"])


class DeadLetters(Reader):
    """A queue with dead letters."""

    def set_up(self) -> None:
        save_shop(self.folder)
        os.environ["INTURN_STORE"] = STORE
        self.new_app()
        on_store(STORE, bury_some)

    async def see(self) -> None:
        states = [one.state for one in (await self.names["app"].run(_all_jobs)).rows]
        assert JobState.CANCELLED in states, "dropped"
        await self.names["app"].close()


class Deploying(Reader):
    """The shop of the first page, a PostgreSQL for its migration, and a health file."""

    def set_up(self) -> None:
        save_shop(self.folder)
        health = self.folder / "health"
        health.touch()
        os.utime(health, (time.time(), time.time()))
        self.replaced = {
            "postgresql://owner@db.example/shop": self.request.getfixturevalue("postgres_url"),
            "/run/shop/health": str(health),
        }


class Stores(Reader):
    """Makes stores, one after another, under one name."""

    def __init__(self, folder: Path, request: pytest.FixtureRequest) -> None:
        super().__init__(folder, request)
        self.made: list[Store] = []

    def before(self, block: Block) -> None:
        if "store" in self.names:
            self.made.append(self.names["store"])

    async def see(self) -> None:
        for store in (*self.made, self.names["store"]):
            await store.close()


class Sqlite(Stores):
    """A folder where an absolute path leads."""

    def set_up(self) -> None:
        on_store(STORE, _nothing)
        self.replaced = {"/var/lib/app": str(self.folder)}

    async def see(self) -> None:
        await super().see()
        for copy in ("copy.db", "smaller.db"):
            assert (self.folder / copy).stat().st_size > 0


class Postgres(Stores):
    """A server of its own, for the page makes rights for roles, which belong to a whole server."""

    def set_up(self) -> None:
        server: PostgresServer = self.request.getfixturevalue("private_postgres")()
        self.database = server.url("app")
        server.create_database("app")
        with psycopg.connect(self.database, autocommit=True) as connection:
            for statement in ("create role app login superuser", "create role owner login"):
                connection.execute(statement.encode())
        for host in ("db.example", "pooler.example"):
            self.replaced[f"app@{host}"] = f"app@127.0.0.1:{server.port}"
        self.give(url=f"postgresql://app@127.0.0.1:{server.port}/app")


class InOneProcess(Reader):
    """Functions to run, and registries that no other test has written to."""

    def set_up(self) -> None:
        monkeypatch: pytest.MonkeyPatch = self.request.getfixturevalue("monkeypatch")
        monkeypatch.setattr(prometheus_client, "REGISTRY", prometheus_client.CollectorRegistry())
        self.written: list[str] = []

        async def write_entry() -> None:
            self.written.append("entry")

        async def write_next() -> None:
            self.written.append("next")

        class NotFound(Exception): ...

        class Forbidden(Exception): ...

        self.give(write_entry=write_entry, write_next=write_next)
        self.give(NotFound=NotFound, Forbidden=Forbidden, alert=print)

    async def see(self) -> None:
        assert self.written == ["entry", "next"]
        gate = asyncio.Event()
        async with inturn.Executor(shards=1, slots=1, queue_size=1) as executor:
            self.give(executor=executor)
            await executor.submit("eve", gate.wait)
            assert await self.names["accept"]("ann") == (202, "accepted")
            assert await self.names["accept"]("ann") == (429, "1 of 1 jobs wait")
            gate.set()
        await self.names["app"].close()


SHOP_JOBS = '''
"""The jobs of a shop, and the code that submits them."""

import inturn

app = inturn.App("postgresql://shop@db.internal/shop")  # never touched


@app.job
async def charge(customer: str, amount: int) -> str:
    await send.using(key=customer).submit(to=f"{customer}@example.org")
    return "receipt 1"


@app.job(attempts=2)
def send(to: str) -> None:
    if to == "nobody":
        raise ConnectionError("the line is down")


@app.job
def refund(customer: str) -> None: ...


@app.job
def remind(customer: str) -> None: ...


def leave_basket(customer: str) -> None:
    remind.using(delay=3600).submit_sync(customer)


def place_order(customer: str) -> None:
    charge.submit_sync(customer=customer, amount=30)


async def place_order_async(customer: str) -> None:
    await charge.submit(customer=customer, amount=30)
'''

PREPARED = {  # what has happened before a fragment of a test, by a word in it
    "assert_not_submitted": """
    send.using(key="customer-7", delay=30).submit_sync(to="a@b.c")
    send.submit_sync(to="d@e.f")
    """,
    "drain_sync(raising=False)": """
    send.submit_sync(to="nobody")
    """,
}


class Testing(Reader):
    """A shop with tests: what the page shows is put into files for pytest, and pytest is run."""

    def set_up(self) -> None:
        (self.folder / "shop").mkdir()
        (self.folder / "shop" / "__init__.py").touch()
        (self.folder / "shop" / "jobs.py").write_text(SHOP_JOBS, encoding="utf-8")
        self.tests = 0

    async def python(self, text: str) -> None:
        """Save a test; make one of what is only part of one."""
        if "def test_" not in text:
            body = "\n".join(f"    {line}" for line in text.splitlines())
            before = next((one for word, one in PREPARED.items() if word in text), "")
            sort = "async def" if "await " in text else "def"
            text = f"{sort} test_it(sandbox):\n{before}\n{body}\n"
        place = "place_order_async as place_order" if "await place_order" in text else "place_order"
        head = (
            "import inturn\nimport pytest\nfrom inturn.testing import private\n"
            f"from shop.jobs import app, charge, leave_basket, refund, send, {place}\n\n"
            "sandbox = pytest.fixture(lambda inturn_sandbox: inturn_sandbox)\n\n"
        )
        self.tests += 1
        path = self.folder / f"test_{self.tests}.py"
        path.write_text(head + text, encoding="utf-8")

    async def see(self) -> None:
        with (self.folder / "pyproject.toml").open("a", encoding="utf-8") as file:
            file.write('asyncio_mode = "auto"\nasyncio_default_fixture_loop_scope = "function"\n')
        await asyncio.to_thread(self.shell, "python -m pytest -q -p no:cacheprovider 2>&1")
        assert f"{self.tests} passed" in self.printed


class Verify(Reader):
    """Reads what is typed, and runs none of it: tests/verify does, for minutes."""

    def _console(self, text: str) -> None:
        for line in text.replace("\\\n", " ").splitlines():
            program, name, *arguments = shlex.split(line, comments=True)
            assert program == "inturn"
            with COMMANDS[name].make_context(name, arguments):
                pass

    def _text(self, text: str) -> None:
        """See that these are the lines of a report."""
        counted: dict[str, Any] = dict.fromkeys(Report.__struct_fields__, 0) | {
            "faults": {}, "handlers": {}, "untried": [], "left_out": [], "failures": [],
            "violations": [], "recovery_seconds_max": None,
        }  # fmt: skip
        said = Report(**counted).lines()
        assert [line.split()[:1] for line in text.splitlines()] == [one.split()[:1] for one in said]
        assert text.splitlines()[-1] == said[-1]


READERS: dict[str, type[Reader]] = {
    "README.md": Readme,
    "docs/start.md": Start,
    "docs/guides/dead-letters.md": DeadLetters,
    "docs/guides/deploying.md": Deploying,
    "docs/guides/executor.md": InOneProcess,
    "docs/guides/handlers.md": Handlers,
    "docs/guides/ordering.md": Ordering,
    "docs/guides/postgres.md": Postgres,
    "docs/guides/retries.md": Retries,
    "docs/guides/sqlite.md": Sqlite,
    "docs/guides/testing.md": Testing,
    "docs/guides/verify.md": Verify,
}


def save_shop(folder: Path) -> None:
    """Save the module that the first page has its reader write."""
    blocks = blocks_of(ROOT / "docs/start.md", ROOT)
    [shop] = (block for block in blocks if block.saved_as == "shop.py")
    (folder / "shop.py").write_text(shop.text, encoding="utf-8")


async def _nothing(_store: Store) -> None: ...


async def _all_jobs(store: Store) -> Page[JobView]:
    return await store.jobs()
