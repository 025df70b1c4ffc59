"""Every query that runs often finds its rows by an index, and none walks a table.

Promise P14 of ARCHITECTURE.md.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from importlib.resources import files

import pytest

from inturn.store.sqlite import queries
from inturn.store.sqlite.check import add_functions
from inturn.store.sqlite.migrate import migrate
from inturn.store.sqlite.queries import query

# Queries that look at everything of a sort, and why that is right.
WALKS = {
    "check_": "a check of everything",
    "ids_running": "as many rows as there are leases",
    "ids_waiting": "as many rows as there are active lanes",
    "ids_retrying": "as many rows as there are active lanes",
    "prune_cancelled": "as many rows as there are queues",
    "lane": "the caller adds which",
}

# What may be walked: arguments, subqueries, a table as small as the number of leases, and an index.
SMALL = re.compile(
    r"SCAN (json_each|runs|settled|held|lease$|\d|due|\(|CONSTANT|open_lane|slice|"
    r".* USING (COVERING )?INDEX)"
)


@pytest.fixture(scope="module")
def connection() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, 0)
    add_functions(connection)
    yield connection
    connection.close()


def names() -> list[str]:
    return sorted(
        file.name.removesuffix(".sql")
        for file in files(queries).iterdir()
        if file.name.endswith(".sql")
    )


def plan(connection: sqlite3.Connection, text: str) -> list[str]:
    named = dict.fromkeys(re.findall(r":([a-z_]+)", text))
    numbers = [int(number) for number in re.findall(r"\?(\d+)", text)]
    count = max(numbers, default=text.count("?"))
    arguments = named or [None] * count
    return [row[3] for row in connection.execute(f"explain query plan {text}", arguments)]


@pytest.mark.parametrize("name", names())
def test_a_query_walks_no_table(connection: sqlite3.Connection, name: str) -> None:
    steps = plan(connection, query(name))
    if any(name.startswith(start) for start in WALKS if start.endswith("_")) or name in WALKS:
        return
    walks = [step for step in steps if step.startswith("SCAN") and not SMALL.match(step)]
    assert not walks, "\n".join(steps)


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("claimable_lanes", "lane_claimable"),
        ("suspect_lanes", "lane_suspect"),
        ("claimable_parked", "parked_claimable"),
        ("suspect_parked", "parked_suspect"),
        ("due_parked", "parked_due"),
        ("dead_letters", "dead_age"),
        ("dead_letters_of_queue", "dead_list"),
    ],
)
def test_a_query_reads_an_index_in_its_order(
    connection: sqlite3.Connection, name: str, index: str
) -> None:
    steps = plan(connection, query(name))
    assert any(index in step for step in steps), "\n".join(steps)
    assert not any("TEMP B-TREE" in step for step in steps), "\n".join(steps)


def test_a_run_is_read_as_one_range(connection: sqlite3.Connection) -> None:
    steps = plan(connection, query("jobs_of_runs"))
    wanted = "SEARCH job USING PRIMARY KEY (lane=? AND position>? AND position<?)"
    assert wanted in steps, "\n".join(steps)


def test_a_plan_that_walks_a_table_would_be_seen(connection: sqlite3.Connection) -> None:
    assert plan(connection, "select * from job where payload = ?") == ["SCAN job"]
