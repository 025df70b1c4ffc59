"""Built-in actions against real servers: PostgreSQL, SQLite, HTTP, programs."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from inturn import App, Reject, command, request, sql
from inturn.groups import sql_nodes
from inturn.groups.errors import ActionFailed, NothingDone
from inturn.groups.model import GroupState, Step
from inturn.groups.perform import ask, perform, resolved, still_runs
from tests.groups.conftest import Jobs, states, until

ODD = 'it\'s "odd" \\ back\\slash; -- no comment\nnew\tline € 漢字 🚀 \x01 $1 %s {x} :now'
"""Text with every kind of quote, backslashes, unicode, and what means something elsewhere."""


class Served:
    """A small HTTP server: users that are put, asked for and deleted; and what was asked of it."""

    def __init__(self) -> None:
        self.users: dict[str, str] = {}
        self.asked: list[str] = []
        self.keys: list[str] = []
        self.next: list[int] = []  # statuses to answer with, whatever is asked

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, path, _ = head.split(" ", 2)
        headers = dict(
            line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line
        )
        body = (await reader.readexactly(int(headers.get("content-length", 0)))).decode()
        self.asked.append(f"{method} {path}")
        self.keys.append(headers.get("idempotency-key", ""))
        status = self.next.pop(0) if self.next else self._do(method, path, body)
        answer = f"HTTP/1.1 {status} said\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        writer.write(answer.encode())
        await writer.drain()
        writer.close()

    def _do(self, method: str, path: str, body: str) -> int:
        if method == "PUT":
            self.users[path] = body
        elif path not in self.users:
            return 404
        elif method == "DELETE":
            del self.users[path]
        return 200


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Served, str]]:
    served = Served()
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    async with server:
        yield served, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


class Ctx:
    """As much of a context as a built-in action asks for."""

    id = "0199"


CTX: Any = Ctx()


async def value_of(url: str, query: str) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


def has_ended(pid: str) -> bool:
    """Say whether a process has, although nobody may have asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


# SQL


async def test_odd_text_goes_through_sql_unchanged(
    app: App, jobs: Jobs, postgres_url: str, tmp_path: Path
) -> None:
    """On a PostgreSQL and on a SQLite node, through the store and back (000-28)."""
    app.node("pg", postgres_url)
    app.node("lite", f"sqlite:///{tmp_path / 'node.db'}")
    quoted = ODD.replace("'", "''")
    async with app.group("odd") as group:
        for node in ("pg", "lite"):
            group.step(
                node,
                node=node,
                do=sql(f"create table t (x text); insert into t values ('{quoted}')"),
                undo=sql("drop table if exists t"),
                verify=sql("select x = '" + quoted + "' from t"),
            )
        group.step(
            "run",
            node="lite",
            do=command(
                sys.executable, "-c", "import sys; open(sys.argv[1], 'w').write(sys.argv[2])",
                str(tmp_path / "said"), ODD,
            ),
            irreversible=True,
            after=["pg", "lite"],
        )  # fmt: skip
    result = await jobs.result(group)
    assert (result.state, result.reason) == (GroupState.DONE, None)
    assert await value_of(postgres_url, "select x from t") == ODD
    assert sqlite3.connect(tmp_path / "node.db").execute("select x from t").fetchone() == (ODD,)
    assert (tmp_path / "said").read_text() == ODD


async def test_undo_runs_on_the_node_the_step_ran_on(
    app: App, jobs: Jobs, postgres_url: str, tmp_path: Path
) -> None:
    """Two databases, and each has its own undone (000-07)."""
    app.node("pg", postgres_url, concurrency=1)
    app.node("lite", f"sqlite:///{tmp_path / 'node.db'}")
    async with app.group("two") as group:
        steps = [
            group.step(
                f"t on {node}",
                node=node,
                do=sql("create table t (x int)"),
                undo=sql("drop table t"),
            )
            for node in ("pg", "lite")
        ]
        group.step("bad", node="pg", do=sql("selec 1"), undo=sql("select 1"), after=steps)
    result = await jobs.result(group)
    assert states(result) == {"t on pg": "undone", "t on lite": "undone", "bad": "not_applied"}
    assert await value_of(postgres_url, "select to_regclass('t')") is None
    assert (
        sqlite3.connect(tmp_path / "node.db").execute("select * from sqlite_master").fetchall()
        == []
    )


@pytest.mark.parametrize(
    ("query", "effect"),
    [
        ("select 1 = 1", "applied"),
        ("select 1 = 2", "not_applied"),
        ("select null", "not_applied"),
        ("select 1 where 1 = 2", "not_applied"),
        ("select 'running'", "running"),
        ("select 'cannot_tell'", "cannot_tell"),
        ("select 7", "applied"),
        ("select 'failed'", None),
        ("select ''", None),
    ],
)
async def test_sql_answers_by_its_first_value(
    query: str, effect: str | None, postgres_url: str, tmp_path: Path
) -> None:
    for address in (postgres_url, f"sqlite:///{tmp_path / 'node.db'}"):
        if effect is not None:
            assert (await ask(CTX, sql(query), address, 10.0)).effect == effect
            continue
        with pytest.raises(ActionFailed, match="text must be one of applied, not_applied"):
            await ask(CTX, sql(query), address, 10.0)


async def test_sql_that_is_wrong_is_rejected_and_its_transaction_is_rolled_back(
    postgres_url: str, tmp_path: Path
) -> None:
    for address in (postgres_url, f"sqlite:///{tmp_path / 'node.db'}"):
        with pytest.raises(Reject):
            await perform(
                CTX, sql("create table t (x int); insert into u values (1)"), address, 10.0
            )
        await perform(CTX, sql("create table t (x int)"), address, 10.0)


async def test_sql_that_was_rolled_back_for_others_sake_may_be_tried_again(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_nodes, "CONNECT_SECONDS_MAX", 0.1)
    with closing(sqlite3.connect(tmp_path / "n.db", isolation_level=None)) as lite:
        lite.execute("begin immediate")
        with pytest.raises(NothingDone, match="locked"):
            await perform(CTX, sql("create table t (x int)"), f"sqlite:///{tmp_path}/n.db", 10.0)
    other = await asyncpg.connect(postgres_url)
    await other.execute("create table t (x int)")
    async with other.transaction():
        await other.execute("lock table t")
        impatient = sql("set local lock_timeout = '50ms'; insert into t values (1)")
        monkeypatch.undo()
        with pytest.raises(NothingDone, match="lock timeout"):
            await perform(CTX, impatient, postgres_url, 10.0)
    await other.close()


async def test_sql_is_ended_at_its_timeout(postgres_url: str, tmp_path: Path) -> None:
    long = "with recursive r(n) as (select 1 union all select n + 1 from r) select max(n) from r"
    for address, text in (
        (postgres_url, "select pg_sleep(60)"),
        (f"sqlite:///{tmp_path}/n.db", long),
    ):
        with pytest.raises(TimeoutError, match=r"longer than 0\.3 s"):
            await perform(CTX, sql(text), address, 0.3)

    async def is_alone() -> bool:
        running = "select count(*) from pg_stat_activity where query like '%pg_sleep(60)%'"
        return bool(await value_of(postgres_url, f"{running} and pid <> pg_backend_pid()") == 0)

    await until(is_alone)


async def test_what_a_worker_runs_ends_when_it_is_killed(postgres_url: str, tmp_path: Path) -> None:
    """Its statements on PostgreSQL, and its programs with all they started."""
    script = f"""
import asyncio
from inturn import command, sql
from inturn.groups.perform import perform
class Ctx: id = "0199"
async def main():
    statement = perform(Ctx(), sql("select pg_sleep(601)"), {postgres_url!r}, None, step="s")
    program = perform(Ctx(), command("sh", "-c", "echo $$ > {tmp_path}/pid; sleep 601"), None, None)
    await asyncio.gather(statement, program)
asyncio.run(main())
"""
    running = "select count(*) from pg_stat_activity where query = 'select pg_sleep(601)'"
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", script)

    async def runs() -> bool:
        return bool(await value_of(postgres_url, running)) and (tmp_path / "pid").exists()

    await until(runs)
    await until((tmp_path / "pid").read_text)
    worker.kill()
    await worker.wait()

    async def is_over() -> bool:
        has_program_ended = has_ended((tmp_path / "pid").read_text().strip())
        return has_program_ended and await value_of(postgres_url, running) == 0

    await until(is_over)


async def test_sql_waits_for_what_an_attempt_before_still_runs(postgres_url: str) -> None:
    """And its node says that it runs."""
    do = sql("select 1")
    step = Step(name="s", node="n", do=do, attempts=1, undo_attempts=1)
    await perform(CTX, sql("create table t (x int)"), postgres_url, 10.0, step="g 0")
    slowly = sql("select pg_sleep(1); insert into t values (1)")
    first = asyncio.create_task(perform(CTX, slowly, postgres_url, 10.0, step="g 0"))
    await until(lambda: still_runs(step, postgres_url, "g 0"))
    assert not await still_runs(step, postgres_url, "g 1")
    await perform(CTX, sql("delete from t"), postgres_url, 10.0, step="g 0")
    await first
    assert await value_of(postgres_url, "select count(*) from t") == 0


async def test_an_index_that_was_made_concurrently_may_be_there_in_part(postgres_url: str) -> None:
    await perform(
        CTX, sql("create table t as select 1 as x from generate_series(1, 2)"), postgres_url, 10.0
    )
    with pytest.raises(ActionFailed, match="duplicated"):
        await perform(CTX, sql("create unique index concurrently i on t (x)"), postgres_url, 10.0)


async def test_a_node_that_cannot_be_reached_has_nothing_applied(tmp_path: Path) -> None:
    with pytest.raises(NothingDone):
        await perform(CTX, sql("select 1"), "postgresql://nobody@127.0.0.1:1/x", 10.0)
    with pytest.raises(NothingDone):
        await perform(CTX, sql("select 1"), f"sqlite:///{tmp_path}/no/such/folder/n.db", 10.0)
    with pytest.raises(NothingDone):
        await perform(CTX, request("GET", "http://127.0.0.1:1/"), None, 10.0)
    with pytest.raises(NothingDone):
        await perform(CTX, command("no-such-program"), None, 10.0)


# HTTP


async def test_a_request_is_done_verified_and_undone(app: App, jobs: Jobs) -> None:
    async with serving() as (served, url):
        app.node("web", url)
        async with app.group("http") as group:
            put = group.step(
                "put",
                node="web",
                do=request("PUT", "/users/7", json={"name": ODD}),
                undo=request("DELETE", "/users/7"),
                verify=request("GET", "/users/7"),
            )
            group.step(
                "bad", node="web", do=request("GET", "/nobody"), irreversible=True, after=[put]
            )
        result = await jobs.result(group)
        assert result.state is GroupState.STUCK  # past an irreversible step
        assert "HTTP 404" in str(result.reason)
        assert served.users != {}
        assert served.asked == ["PUT /users/7", "GET /users/7", "GET /nobody"]
        assert [bool(key) for key in served.keys] == [True, False, True]  # a verify does nothing


async def test_a_url_is_read_where_the_worker_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER_ID", "7")
    async with serving() as (served, url):
        await perform(CTX, request("PUT", f"{url}/users/${{USER_ID}}"), None, 10.0)
        assert served.asked == ["PUT /users/7"]


async def test_what_a_status_says() -> None:
    async with serving() as (served, url):
        for status, effect in (
            (200, "applied"), (204, "applied"), (202, "running"), (404, "not_applied"),
            (410, "not_applied"), (500, "cannot_tell"), (301, "cannot_tell"),
        ):  # fmt: skip
            served.next = [status]
            assert (await ask(CTX, request("GET", "/x"), url, 10.0)).effect == effect
        for status, error in (
            (400, Reject),
            (409, ActionFailed),
            (500, ActionFailed),
            (202, ActionFailed),
        ):
            served.next = [status]
            with pytest.raises(error):
                await perform(CTX, request("POST", "/x"), url, 10.0)
        served.next = [404]
        await perform(CTX, request("DELETE", "/x"), url, 10.0)  # repeated: it is gone already


# Programs


async def test_a_program_answers_by_its_exit_code() -> None:
    for code, effect in ((0, "applied"), (1, "not_applied"), (2, "running"), (3, "cannot_tell")):
        program = command(sys.executable, "-c", f"raise SystemExit({code})")
        assert (await ask(CTX, program, None, 30.0)).effect == effect
    failing = command(sys.executable, "-c", "import sys; print('oh no'); sys.exit(3)")
    with pytest.raises(ActionFailed, match="exit code 3: oh no"):
        await perform(CTX, failing, None, 30.0)


async def test_a_program_is_killed_at_its_timeout_with_all_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"sleep 600 & echo $! > {pid}; wait"
    with pytest.raises(TimeoutError):
        await perform(CTX, command("sh", "-c", script), None, 1.0)
    await until(lambda: has_ended(pid.read_text().strip()))


# Addresses


def test_an_address_is_read_where_the_worker_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PG_PASSWORD", "s3cret")
    (tmp_path / "host").write_text("db.example\n")
    address = f"postgresql://me:${{PG_PASSWORD}}@${{file:{tmp_path / 'host'}}}/x"
    assert resolved(address) == "postgresql://me:s3cret@db.example/x"
    with pytest.raises(NothingDone, match="NO_SUCH_NAME"):
        resolved("postgresql://${NO_SUCH_NAME}/x")


async def test_an_error_says_nothing_of_a_password() -> None:
    """One that is not written as an address needs it."""
    for action, address in (
        (sql("select 1"), "postgresql://me:s3/cret@db/x"),
        (request("GET", "/x"), "http://me:s3/cret@web"),
    ):
        with pytest.raises(NothingDone, match="written %40, %2F") as caught:
            await perform(CTX, action, address, 10.0)
        assert "s3" not in str(caught.value)


async def test_the_record_keeps_an_address_as_it_was_written(
    app: App, jobs: Jobs, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    monkeypatch.setenv("NODE_ADDRESS", postgres_url)
    app.node("pg", "${NODE_ADDRESS}")
    async with app.group("kept") as group:
        group.step("a", node="pg", do=sql("create table t (x int)"), undo=sql("drop table t"))
    assert (await jobs.result(group)).state is GroupState.DONE
    _, _, [node] = await app.groups.rows_of("kept")
    assert node.address == "${NODE_ADDRESS}"
