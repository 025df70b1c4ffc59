"""What a verb touches, by PostgreSQL's own counters: they count what runs, and cannot drift."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

BIG = ("job", "lane", "tail", "lease", "run", "parked", "blocked", "waits", "dead", "dedupe")
"""The tables that grow; queue and worker are small, and may be read whole."""

FEW = 20

READ = """
select c.relname, pg_stat_get_xact_numscans(c.oid) as seq_scans,
       pg_stat_get_xact_tuples_returned(c.oid) as seq_rows,
       coalesce(sum(pg_stat_get_xact_numscans(i.indexrelid)), 0)::bigint as scans,
       coalesce(sum(pg_stat_get_xact_tuples_returned(i.indexrelid)), 0)::bigint as entries,
       pg_stat_get_xact_tuples_fetched(c.oid)::bigint as fetched
from pg_class c left join pg_index i on i.indrelid = c.oid
where c.relnamespace = 'inturn'::regnamespace and c.relkind = 'r'
group by c.oid, c.relname
"""


class Touched:
    """What was read of each table: by walking all of it, and by index."""

    def __init__(self) -> None:
        self.seq_scans: dict[str, int] = {}
        self.seq_rows: dict[str, int] = {}
        self.scans: dict[str, int] = {}
        self.entries: dict[str, int] = {}
        self.fetched: dict[str, int] = {}

    def walked(self) -> list[str]:
        """The big tables that were read row by row; a table that has few may be."""
        return [name for name in BIG if self.seq_rows[name] > FEW]

    def rows(self, table: str) -> int:
        """How many entries of a table's indexes, or rows of the table, were looked at."""
        return self.entries[table] + self.seq_rows[table]

    def all_rows(self) -> int:
        return sum(self.rows(table) for table in BIG)


@asynccontextmanager
async def counted(connection: Any, *, isolation: str | None = None) -> AsyncIterator[Touched]:
    """Count what the body touches, then undo what it wrote."""
    touched = Touched()
    transaction = connection.transaction(isolation=isolation)
    await transaction.start()
    try:
        before = {row["relname"]: row for row in await connection.fetch(READ)}
        yield touched
        after = await connection.fetch(READ)
        for row in after:
            name = row["relname"]
            for what in ("seq_scans", "seq_rows", "scans", "entries", "fetched"):
                getattr(touched, what)[name] = row[what] - before[name][what]
    finally:
        await transaction.rollback()
