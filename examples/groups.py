"""Move a table from one database to another: a worker is killed, a step fails, all is undone."""

import asyncio
import sqlite3
import subprocess
import sys
import textwrap
import time

import inturn

app = inturn.App("sqlite:///work.db")
app.node("west", "sqlite:///west.db")
app.node("east", "sqlite:///east.db", concurrency=2)
app.node("router", "sqlite:///router.db")


@app.job(timeout=60)
def copy() -> None:
    """Copy one row after the other. It may be killed anywhere, and run again."""
    with sqlite3.connect("west.db") as west, sqlite3.connect("east.db") as east:
        for row in west.execute("select id, name from users").fetchall():
            east.execute("insert or replace into users values (?, ?)", row)
            east.commit()
            time.sleep(0.05)


@app.job
def copied() -> inturn.Effect:
    """Say whether all rows are there; if some are, nobody can tell how it ended."""
    with sqlite3.connect("west.db") as west, sqlite3.connect("east.db") as east:
        [wanted] = west.execute("select count(*) from users").fetchone()
        [found] = east.execute("select count(*) from users").fetchone()
    if found == wanted:
        return inturn.Effect.APPLIED
    return inturn.Effect.CANNOT_TELL if found else inturn.Effect.NOT_APPLIED


def group_of_six_steps() -> inturn.Group:
    sql, group = inturn.sql, app.group("move-users")
    table = group.step(
        "table",
        node="east",
        do=sql("create table users (id integer primary key, name text)"),
        undo=sql("drop table if exists users"),
        verify=sql("select count(*) from sqlite_master where name = 'users'"),
    )
    rows = group.step(
        "rows",
        node="east",
        do=copy.call(),
        undo=sql("delete from users"),
        verify=copied.call(),
        idempotent=True,
        after=[table],
    )
    index = group.step(
        "index",
        node="east",
        do=sql("create index if not exists by_name on users (name)"),
        undo=sql("drop index if exists by_name"),
        idempotent=True,
        after=[rows],
    )
    switch = group.step(
        "switch",
        node="router",
        do=sql("update placement set node = 'east' where name = 'users'"),
        undo=sql("update placement set node = 'west' where name = 'users'"),
        verify=sql("select node = 'east' from placement where name = 'users'"),
        after=[index],
    )
    quota = group.step(
        "quota",
        node="router",
        do=sql("insert into quota select 'users', count(*) + 1 from quota"),  # it is full: it fails
        undo=sql("delete from quota where name = 'users'"),
        verify=sql("select count(*) from quota where name = 'users'"),
        after=[switch],
    )
    group.step("drop", node="west", do=sql("drop table users"), irreversible=True, after=[quota])
    return group


def make_databases() -> None:
    tables = {
        "west": "create table users (id integer primary key, name text);"
        + "".join(f"insert into users values ({n}, 'user {n}');" for n in range(20)),
        "east": "",
        "router": "create table placement (name text, node text);"
        "insert into placement values ('users', 'west');"
        "create table quota (name text, place integer check (place <= 3));"
        "insert into quota values ('orders', 1), ('mails', 2), ('carts', 3);",
    }
    for name, text in tables.items():
        with sqlite3.connect(f"{name}.db") as database:
            old = database.execute("select name from sqlite_master where type = 'table'").fetchall()
            database.executescript("".join(f"drop table {name};" for (name,) in old) + text)


def start_worker() -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "inturn.cli.main", "work", f"{__file__}:app", "--lease", "2s"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def until_rows_are_copied() -> None:
    while True:
        steps = {step.name: step for step in await app.groups.steps("move-users")}
        if steps["rows"].state != "pending":
            return await asyncio.sleep(0.3)
        await asyncio.sleep(0.05)


async def follow(group: inturn.Group) -> inturn.GroupResult:
    """Print what happens as it happens, until the group has ended."""
    result, told = None, set()
    while result is None:
        if (await app.groups.get(group.id)).state in ("done", "undone", "stuck"):
            result = await group.result()
        happened = []
        for step in await app.groups.steps(group.id):
            failed = step.state in ("not_applied", "possibly_applied")
            happened += [
                (step.ended_at, "failed" if failed else "applied", step.name, step.node),
                (step.undo_ended_at, "undone", step.name, step.node),
            ]
        for _, what, name, node in sorted(one for one in happened if one[0] is not None):
            if (what, name) not in told:
                told.add((what, name))
                print(f"  {name:8} on {node:8} {what}")
        await asyncio.sleep(0.05)
    return result


async def main() -> None:
    make_databases()
    async with app:
        group = await group_of_six_steps().submit()
        worker = start_worker()
        await until_rows_are_copied()
        worker.kill()
        print("a worker was killed while it copied; another goes on")
        worker = start_worker()
        try:
            async with asyncio.timeout(60):
                result = await follow(group)
        finally:
            worker.terminate()
            worker.wait()
    print(textwrap.fill(f"{group.name} is {result.state}: {result.reason}", 78))
    for name, query in {
        "west": "select count(*) || ' users' from users",
        "east": "select count(*) || ' tables' from sqlite_master",
        "router": "select name || ' are on ' || node from placement",
    }.items():
        with sqlite3.connect(f"{name}.db") as database:
            print(f"{name}: {database.execute(query).fetchone()[0]}")


if __name__ == "__main__":
    asyncio.run(main())
