"""What a drain leaves behind in PostgreSQL: log, commits, and row versions that died."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

ROWS = """
select coalesce(sum(n_tup_upd + n_tup_del), 0), coalesce(sum(n_dead_tup), 0)
from pg_stat_user_tables
"""
COMMITS = "select xact_commit from pg_stat_database where datname = current_database()"


@dataclass(frozen=True, slots=True)
class Footprint:
    """What is counted; of the server as a whole, which only one side uses at a time."""

    wal_bytes: int
    commits: int
    died: int  # row versions that an update or a delete made useless
    dead: int  # those that vacuum has not removed

    def since(self, before: Footprint, jobs: int) -> dict[str, float]:
        """Return what came to be since then, for each job."""
        return {
            "wal_bytes": (self.wal_bytes - before.wal_bytes) / jobs,
            "commits": (self.commits - before.commits) / jobs,
            "died": (self.died - before.died) / jobs,
            "dead": self.dead / jobs,
        }


def footprint(url: str) -> Footprint:
    """Ask the server; a process tells of its commits when it ends, so that those of the workers
    are all there only then.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        wal = _numbers(connection, "select pg_current_wal_insert_lsn() - '0/0'")
        died, dead = _numbers(connection, ROWS)
        return Footprint(wal[0], _numbers(connection, COMMITS)[0], died, dead)


def _numbers(connection: psycopg.Connection, question: str) -> list[int]:
    row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return [int(number) for number in row]
