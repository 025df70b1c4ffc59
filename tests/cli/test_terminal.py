"""On a terminal of 80 columns: tables that fit, colours, questions, watching."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import pytest
from rich.cells import cell_len

from inturn.cli.text import short_id
from inturn.model.job import NewJob
from inturn.model.lane import QueueSettings
from inturn.policy.verdict import Bury
from inturn.store.store import Store
from tests.cli.support import (
    Cli,
    Terminal,
    bury,
    halt_lane,
    on_store,
    settle_next,
    start,
    without_colour,
)

OpenTerminal = Callable[..., Terminal]


async def seed(store: Store) -> None:
    await halt_lane(store, key="customer-" + "7" * 50)
    await store.configure("a-queue-with-a-rather-long-name", QueueSettings(depth_max=100_000))
    await bury(store, 1, queue="a-queue-with-a-rather-long-name", kind="newsletter.send")


@pytest.mark.parametrize(
    "command", ["status", "jobs list", "dead list", "lanes list orders", "queues list"]
)
def test_a_table_fits_its_terminal(
    sqlite_url: str, command: str, open_terminal: OpenTerminal
) -> None:
    on_store(sqlite_url, seed)
    limits = QueueSettings(depth_max=1000, running_max=5, rate=50, rate_seconds=60.0)
    on_store(sqlite_url, lambda store: store.configure("mail", limits))
    code, shown = open_terminal(*command.split(), "--store", sqlite_url).finish()
    lines = without_colour(shown).splitlines()
    table = lines[: lines.index("")] if "" in lines else lines
    assert code == 0
    assert max(map(cell_len, table)) <= 80
    if command == "jobs list":
        assert "    HTTP 400: unknown SKU" in table, "the reason has a line of its own"
    if command == "queues list":
        assert any(line.startswith("orders ") for line in table), "the name has room"
    if command == "status":
        assert "\x1b[31m" in shown, "dead jobs are red"


async def fail_notices(store: Store) -> None:
    """Bury a job of each of three keys, for reasons that begin alike, and block one behind them."""
    dead = [
        NewJob(kind="send_order_confirmation", queue="notifications", key=f"customer-{number}")
        for number in (1000, 1001, 1002)
    ]
    await store.enqueue(dead)
    for number in (1, 2, 3):
        await settle_next(
            store, "notifications", Bury(f"ConnectionError: no route to host {number}")
        )
    first = NewJob(kind="reserve_stock_in_warehouse", queue="notifications", key="customer-1003")
    behind = NewJob(
        kind="send_order_confirmation", queue="notifications", after=frozenset([first.id])
    )
    await store.enqueue([first, behind])


def test_keys_reasons_and_ids_that_are_alike_are_told_apart(
    sqlite_url: str, open_terminal: OpenTerminal
) -> None:
    on_store(sqlite_url, fail_notices)
    keys = [f"customer-{number}" for number in (1000, 1001, 1002)]
    for command in ("dead list", "jobs list", "dead list --queue notifications"):
        _, shown = open_terminal(*command.split(), "--store", sqlite_url).finish()
        lines = without_colour(shown).splitlines()
        assert max(map(cell_len, lines)) <= 80
        assert all(any(key in line for line in lines) for key in keys)
        assert all(
            f"    ConnectionError: no route to host {number}" in lines for number in (1, 2, 3)
        )
        assert ("queue" in lines[0]) is ("--queue" not in command), "a filter says it already"
        if command == "jobs list":
            jobs = on_store(sqlite_url, lambda store: store.jobs(finished=False)).rows
            [blocked] = [view for view in jobs if view.state == "blocked"]
            assert f"    after {short_id(blocked.waits_for[0])}" in lines


def test_what_goes_elsewhere_is_not_cut(sqlite_cli: Cli) -> None:
    sqlite_cli.store(seed)
    assert "customer-" + "7" * 50 in sqlite_cli("jobs", "list").out


def test_no_color_is_respected(sqlite_url: str, open_terminal: OpenTerminal) -> None:
    on_store(sqlite_url, halt_lane)
    _, shown = open_terminal("jobs", "list", "--store", sqlite_url, NO_COLOR="1").finish()
    assert "dead" in shown
    assert "\x1b[3" not in shown  # bold may stay: it is not a colour


@pytest.mark.parametrize(
    ("typed", "code", "said", "left"),
    [
        ("y\n", 0, "2 dead jobs retried.", 0),
        ("\n", 1, "nothing was done.", 2),
        ("\x03", 1, "Aborted", 2),
    ],
)
def test_all_dead_jobs_are_retried_when_a_person_agrees(
    sqlite_url: str, typed: str, code: int, said: str, left: int, open_terminal: OpenTerminal
) -> None:
    on_store(sqlite_url, lambda store: bury(store, 2))
    terminal = open_terminal("dead", "retry", "--all", "--store", sqlite_url)
    terminal.read_until("Retry 2 dead jobs? [y/N]: ")
    terminal.interrupt() if typed == "\x03" else terminal.type(typed)
    ended, shown = terminal.finish()
    assert (ended, said in shown) == (code, True)
    [status] = on_store(sqlite_url, lambda store: store.queues())
    assert status.dead == left


def test_status_is_watched_until_ctrl_c(sqlite_url: str, open_terminal: OpenTerminal) -> None:
    on_store(sqlite_url, lambda store: store.enqueue([NewJob(kind="k", queue="before")]))
    terminal = open_terminal("status", "--watch", "--store", sqlite_url)
    terminal.read_until("before")
    on_store(sqlite_url, lambda store: store.enqueue([NewJob(kind="k", queue="since")]))
    terminal.read_until("since")
    terminal.type("\x03")
    code, shown = terminal.finish()
    assert (code, "Traceback" in shown) == (0, False)


def test_programs_watch_a_document_a_line(sqlite_url: str) -> None:
    on_store(sqlite_url, lambda store: store.enqueue([NewJob(kind="k", queue="before")]))
    watching = start("status", "--watch", "--json", "--store", sqlite_url)
    assert watching.stdout is not None
    try:
        first, second = (json.loads(watching.stdout.readline()) for _ in range(2))
        assert [queue["name"] for queue in first["queues"]] == ["before"]
        assert first["at"] < second["at"]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(120) == 0
    finally:
        watching.kill()
        watching.communicate()
