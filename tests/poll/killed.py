"""A source whose worker is killed at a write: ``python -m tests.poll.killed [--seeds 200]``.

Each seed has a source of its own: 100 items on one page. One process begins to read it and is
killed at a statement, which one the seed says; meanwhile items are changed and deleted; another
process finishes. The change's handler writes its effect in the transaction that says that it is
done. Then the shadow must equal the source, and each change have had its effect once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import asyncpg

import inturn
from inturn.store.queries import Query
from tests.poll.outside import Item, Outside
from tests.postgres_server import PostgresServer

ITEMS = [f"i{number}" for number in range(100)]
KILLED = -signal.SIGKILL

_SHADOW = Query("inturn.poll", "shadows")
_WRITES = re.compile(r"(\s*--[^\n]*\n)*\s*(?!select|pragma|--)\w", re.IGNORECASE)


def app_of(url: str, seed: int, outside: Outside) -> inturn.App:
    app = inturn.App(url)
    mark = "?, ?, ?, ?" if url.startswith("sqlite") else "$1, $2, $3, $4"

    @app.source(f"items-{seed}", shadow=Item, deleted="deleted")
    async def items(cursor: str | None) -> inturn.Page[Item]:
        return outside.page(cursor)

    @items.on_change
    async def changed(ctx: inturn.Context, change: inturn.Change[Item]) -> None:
        async with ctx.transaction() as t:
            await t.execute(
                f"insert into effect (seed, key, version, kind) values ({mark})",
                *(seed, change.key, int(change.version), str(change.kind)),
            )

    return app


def outside_of(seed: int, *, is_later: bool) -> Outside:
    """Return the outside system as it is before or after the kill."""
    outside = Outside(page_size=len(ITEMS))
    outside.put(*ITEMS)
    if is_later:
        some = random.Random(seed)
        outside.put(*some.sample(ITEMS, 10), f"new-{seed}")
        outside.delete(*some.sample(ITEMS, 5))
    return outside


async def work(url: str, seed: int, *, is_later: bool) -> None:
    app = app_of(url, seed, outside_of(seed, is_later=is_later))
    async with app:
        await app.sources[f"items-{seed}"].run()
        await inturn.Worker(app, concurrency=10).run(until_empty=True)


# The kill


class Killer:
    """Kills this process at its n-th statement: as it is sent, or when it has been answered."""

    def __init__(self, at: int, *, is_after: bool) -> None:
        self.at, self.is_after, self.count = at, is_after, 0

    def sent(self) -> bool:
        """Count a statement, and say whether to kill when it was answered."""
        self.count += 1
        if self.count == self.at and not self.is_after:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.count == self.at

    def watch(self) -> None:
        connect = sqlite3.connect

        def connected(*arguments: Any, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*arguments, **options)
            connection.set_trace_callback(self._traced)
            return connection

        sqlite3.connect = connected  # type: ignore[assignment]
        for name in ("_do_execute", "execute"):
            setattr(asyncpg.Connection, name, self._watched(getattr(asyncpg.Connection, name)))

    def _traced(self, statement: str) -> None:
        """SQLite runs it right after this; so the next is sent when this one was answered."""
        if _WRITES.match(statement) and self.sent():
            self.at, self.is_after = self.count + 1, False

    def _watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(*arguments: Any, **options: Any) -> Any:
            is_last = self.sent()
            answer = await function(*arguments, **options)
            if is_last:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return watched


def forked(url: str, seed: int, *, is_later: bool, killer: Killer | None = None) -> int:
    """Work in a process of its own; return what it left with."""
    said, says = os.pipe()
    if (pid := os.fork()) == 0:
        code = 1
        try:
            if killer is not None:
                killer.watch()
            asyncio.run(work(url, seed, is_later=is_later))
            os.write(says, str(killer.count if killer else 0).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(says)
    _, status = os.waitpid(pid, 0)
    with os.fdopen(said) as pipe:
        count = pipe.read()
    if killer is not None and count:
        killer.count = int(count)
    return os.waitstatus_to_exitcode(status)


# What must be so


async def wrongs(url: str, seed: int) -> list[str]:
    outside = outside_of(seed, is_later=True)
    found: list[str] = []
    app = app_of(url, seed, outside)
    async with app:
        store = await app.lend()
        async with store.transaction() as t:
            effects = await t.execute(
                f"select key, version, kind from effect where seed = {seed} order by version"
            )
        rows = await store.read(_SHADOW, source=f"items-{seed}", keys=list(outside.items))
        if {row[0]: int(row[1]) for row in rows if not row[2]} != outside.living:
            found.append("the shadow is not as the source is")
        if len(effects) != len({(key, version) for key, version, _ in effects}):
            found.append("an effect happened twice")
        for key, item in outside.items.items():
            kinds = [kind for of, _, kind in effects if of == key]
            versions = [version for of, version, _ in effects if of == key]
            ends = "deleted" if item.deleted else "created" if len(kinds) == 1 else "updated"
            was_never_seen = item.deleted and not kinds
            if not was_never_seen and (kinds[-1:], versions[-1:]) != ([ends], [item.version]):
                found.append(f"{key} is {item}, and its effects were {kinds} {versions}")
        status = await app.sources[f"items-{seed}"].status()
        if status.changes != len(effects):
            found.append(f"{status.changes} changes had {len(effects)} effects")
        found += await store.check()
    return [f"seed {seed}: {one}" for one in found]


async def prepare(url: str) -> None:
    app = inturn.App(url)
    await app.migrate()
    async with app, app.transaction() as t:
        await t.execute("create table effect (seed integer, key text, version integer, kind text)")


def run(url: str, seeds: Sequence[int]) -> tuple[int, list[str]]:
    """Return how many processes were killed, and what was wrong. Forks: call it on one thread."""
    in_child(lambda: asyncio.run(prepare(url)))
    killer = Killer(0, is_after=False)
    assert forked(url, -1, is_later=False, killer=killer) == 0
    killed, found = 0, []
    for seed in seeds:
        some = random.Random(seed)
        one = Killer(some.randrange(1, killer.count), is_after=some.random() < 0.5)
        killed += forked(url, seed, is_later=False, killer=one) == KILLED
        if (code := forked(url, seed, is_later=True)) != 0:
            found.append(f"seed {seed}: who finished left with {code}")
        found += in_child(lambda seed=seed: asyncio.run(wrongs(url, seed)))  # type: ignore[misc]
    return killed, found


def in_child(work: Callable[[], list[str] | None]) -> list[str]:
    """Call a function in a process of its own, so that this one has no thread when it forks."""
    said, says = os.pipe()
    if (pid := os.fork()) == 0:
        code = 1
        try:
            os.write(says, "\n".join(work() or []).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(says)
    with os.fdopen(said) as pipe:
        lines = pipe.read().splitlines()
    _, status = os.waitpid(pid, 0)
    return lines if status == 0 else [*lines, f"a process left with {status}"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.poll.killed", description=__doc__)
    parser.add_argument("--url", help="of an empty store; by default one of each sort")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    chosen = parser.parse_args()
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    if chosen.url:
        return told(chosen.url, seeds)
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as server:
        server.create_database("killed")
        urls = f"sqlite:///{folder}/work.db?synchronous=normal", server.url("killed")
        return max(told(url, seeds) for url in urls)


def told(url: str, seeds: Sequence[int]) -> int:
    killed, found = run(url, seeds)
    print(f"{url.partition(':')[0]}: {killed} of {len(seeds)} were killed, {len(found)} wrongs")
    print("\n".join(found[:20]))
    return int(bool(found) or killed < len(seeds) / 2)


if __name__ == "__main__":
    sys.exit(main())
