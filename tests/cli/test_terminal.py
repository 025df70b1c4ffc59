"""On a real terminal: tables that fit, colour that can be turned off, questions, watching."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from inturn.cli.sheet import Column, Sheet
from inturn.cli.status import SILENT_SECONDS
from inturn.model.job import NewJob
from inturn.model.lane import QueueSettings
from inturn.store.protocol import Store
from tests.cli.support import (
    INHERITED,
    Cli,
    Terminal,
    bury,
    halt_lane,
    on_store,
    start,
    without_colour,
)

OpenTerminal = Callable[..., Terminal]


async def seed(store: Store) -> None:
    await halt_lane(store, key="customer-7")
    await store.configure("a-queue-with-a-rather-long-name", QueueSettings(depth_max=100_000))
    await bury(store, 1, queue="a-queue-with-a-rather-long-name", kind="newsletter.send")
    await store.pause("orders", by="somebody@a-machine.example.org")


@pytest.mark.parametrize("columns", [80, 160])
@pytest.mark.parametrize("command", ["status", "jobs list", "dead list", "lanes list orders"])
def test_a_table_fits_its_terminal_and_keeps_ids_whole(
    sqlite_url: str, command: str, columns: int, open_terminal: OpenTerminal
) -> None:
    on_store(sqlite_url, seed)
    terminal = open_terminal(*command.split(), "--store", sqlite_url, columns=columns)
    code, shown = terminal.finish()
    assert code == 0
    lines = without_colour(shown).splitlines()
    assert max(map(cell_len, lines)) <= columns
    first, *_ = on_store(sqlite_url, lambda store: store.jobs()).rows
    assert command == "status" or str(first.job.id) in without_colour(shown)
    assert command == "dead list" or "\x1b[31m" in shown  # what is dead or halted is red
    if command == "status":
        assert ("lanes  notes" in lines[0]) == (columns == 160)
        assert "paused by somebody@a-machine.example.org" in without_colour(shown)
        assert "at most 100,000 jobs" in without_colour(shown)


def test_a_long_key_leaves_the_id_that_a_lane_waits_for_whole(
    sqlite_url: str, open_terminal: OpenTerminal
) -> None:
    on_store(sqlite_url, lambda store: halt_lane(store, key="customer-" + "7" * 50))
    terminal = open_terminal("lanes", "list", "orders", "--store", sqlite_url, columns=80)
    code, shown = terminal.finish()
    head, row, *_ = without_colour(shown).splitlines()
    [lane] = on_store(sqlite_url, lambda store: store.lanes("orders")).rows
    assert (code, row.split()[-1]) == (0, str(lane.halted_job))
    assert "7…" in row
    assert max(map(cell_len, (head, row))) <= 80


@pytest.mark.parametrize(
    ("columns", "heads"),
    [
        (60, "queue waiting running scheduled retrying dead oldest"),
        (57, "queue waiting running retrying dead oldest"),
        (40, "queue waiting running dead oldest"),
        (20, "queue waiting dead"),
    ],
)
def test_status_leaves_columns_out_rather_than_break_its_rows(
    sqlite_url: str, columns: int, heads: str, open_terminal: OpenTerminal
) -> None:
    on_store(sqlite_url, lambda store: halt_lane(store, queue="orders-of-customers"))
    terminal = open_terminal("status", "--store", sqlite_url, columns=columns)
    code, shown = terminal.finish()
    head, row, *_ = without_colour(shown).splitlines()
    assert (code, head.split()) == (0, heads.split())
    assert (row[0], "…" in row, row.split()[1]) == ("o", True, "2")
    assert row.split()[heads.split().index("dead")] == "1"
    assert max(cell_len(line) for line in (head, row)) <= columns


def test_no_color_is_respected(sqlite_url: str, open_terminal: OpenTerminal) -> None:
    on_store(sqlite_url, halt_lane)
    _, shown = open_terminal("jobs", "list", "--store", sqlite_url, NO_COLOR="1").finish()
    assert "dead" in shown
    assert "\x1b[3" not in shown  # bold may stay: it is not a colour


def test_a_terminal_that_can_nothing_gets_plain_text(
    sqlite_url: str, open_terminal: OpenTerminal
) -> None:
    on_store(sqlite_url, halt_lane)
    _, shown = open_terminal("jobs", "list", "--store", sqlite_url, TERM="dumb").finish()
    assert "dead" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("typed", "code", "said", "left"),
    [
        ("y\n", 0, "2 dead letters put back.", 0),
        ("n\n", 1, "nothing was done.", 2),
        ("\n", 1, "nothing was done.", 2),
        ("\x03", 130, "nothing was done.", 2),
    ],
)
def test_all_dead_letters_are_put_back_when_a_person_agrees(
    sqlite_url: str, typed: str, code: int, said: str, left: int, open_terminal: OpenTerminal
) -> None:
    on_store(sqlite_url, lambda store: bury(store, 2))
    terminal = open_terminal("dead", "retry", "--all", "--store", sqlite_url)
    terminal.read_until("Put back 2 dead letters? [y/N]: ")
    terminal.interrupt() if typed == "\x03" else terminal.type(typed)
    ended, shown = terminal.finish()
    assert (ended, said in shown) == (code, True)
    [status] = on_store(sqlite_url, lambda store: store.queues())
    assert status.dead == left


def test_nothing_to_put_back_is_not_asked_about(
    sqlite_url: str, open_terminal: OpenTerminal
) -> None:
    code, shown = open_terminal("dead", "drop", "--all", "--store", sqlite_url).finish()
    assert (code, shown) == (0, "0 dead letters dropped.\n")


def test_status_is_watched_until_ctrl_c(sqlite_url: str, open_terminal: OpenTerminal) -> None:
    job = NewJob(kind="k", queue="before")
    on_store(sqlite_url, lambda store: store.enqueue([job]))
    terminal = open_terminal("status", "--watch", "--store", sqlite_url)
    terminal.read_until("before")
    on_store(sqlite_url, lambda store: store.enqueue([NewJob(kind="k", queue="since")]))
    terminal.read_until("since")
    terminal.type("\x03")
    started = time.monotonic()
    code, shown = terminal.finish()
    assert code == 0
    assert "Traceback" not in shown
    assert shown.rstrip().endswith("\x1b[?25h")  # the cursor is given back
    assert time.monotonic() - started < 60


def test_programs_watch_a_document_a_line(sqlite_url: str) -> None:
    on_store(sqlite_url, lambda store: store.enqueue([NewJob(kind="k", queue="before")]))
    watching = start("status", "--watch", "--json", "--store", sqlite_url)
    assert watching.stdout is not None
    assert watching.stderr is not None
    try:
        first = json.loads(watching.stdout.readline())
        on_store(sqlite_url, lambda store: store.enqueue([NewJob(kind="k", queue="since")]))
        while len((last := json.loads(watching.stdout.readline()))["queues"]) < 2:
            pass
        assert [queue["name"] for queue in first["queues"]] == ["before"]
        assert [queue["name"] for queue in last["queues"]] == ["before", "since"]
        assert first["at"] < last["at"]
        watching.send_signal(signal.SIGINT)
        assert (watching.wait(120), watching.stderr.read()) == (0, "")
    finally:
        watching.kill()
        watching.communicate()


# The command on a store that does not answer the second time, until there is a file "back". It
# ends if nobody wants it back: then the test waits for what never comes.
SILENT = """
import asyncio, os, signal
from inturn.cli import main
from inturn.store.sqlite.store import SqliteStore

answer, asked = SqliteStore.queues, []
signal.alarm(100)

async def queues(store):
    asked.append(store)
    while len(asked) == 2 and not os.path.exists("back"):
        await asyncio.sleep(0.01)
    return await answer(store)

SqliteStore.queues = queues
main.main()
"""


def test_who_watches_is_told_when_the_store_does_not_answer(
    sqlite_url: str, tmp_path: Path, open_terminal: OpenTerminal
) -> None:
    on_store(sqlite_url, lambda store: store.enqueue([NewJob(kind="k", queue="before")]))
    command = (sys.executable, "-c", SILENT)
    terminal = open_terminal("status", "--watch", "--store", sqlite_url, command=command)
    terminal.read_until("before")
    terminal.read_until("The store has not answered for 2 s.")
    assert terminal.seen.count("before") > 1  # what was known stays in sight
    terminal.read_until("The store has not answered for 4 s.")
    on_store(sqlite_url, lambda store: store.enqueue([NewJob(kind="k", queue="since")]))
    (tmp_path / "back").touch()
    terminal.read_until("since")
    terminal.type("\x03")
    assert terminal.finish()[0] == 0


def test_where_lines_follow_lines_silence_is_told_once(sqlite_url: str, tmp_path: Path) -> None:
    watching = subprocess.Popen(
        [sys.executable, "-c", SILENT, "status", "--watch", "--store", sqlite_url],
        env=INHERITED,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert watching.stdout is not None
    try:
        lines = [watching.stdout.readline() for _ in range(3)]
        assert lines[1:] == [
            "No queues yet: nothing was ever submitted.\n",
            "The store has not answered for 2 s.\n",
        ]
        time.sleep(SILENT_SECONDS * 1.5)
        (tmp_path / "back").touch()
        watching.stdout.readline()
        assert watching.stdout.readline() == lines[1]
    finally:
        watching.kill()
        watching.communicate()


def printed(columns: list[Column], *pages: list[list[str | Text]], width: int) -> list[str]:
    console = Console(force_terminal=True, width=width, color_system=None, record=True)
    sheet = Sheet(columns, console)
    with console.capture() as capture:
        for page in pages:
            sheet.print(page)
    return [line.rstrip() for line in without_colour(capture.get()).splitlines()]


def test_the_longest_is_shortened_first_and_never_what_must_be_whole() -> None:
    columns = [Column("id"), Column("a", shrinks=True), Column("b", shrinks=True)]
    rows: list[list[str | Text]] = [["0123456789", "short", "x" * 30]]
    assert printed(columns, rows, width=60)[1] == f"0123456789  short  {'x' * 30}"
    assert printed(columns, rows, width=30)[1] == f"0123456789  short  {'x' * 10}…"
    assert printed(columns, rows, width=20)[1] == "0123456789  sh…  xx…"


def test_pages_stand_in_the_columns_of_the_first_under_one_header() -> None:
    columns = [Column("a", shrinks=True), Column("n", right=True)]
    lines = printed(columns, [["long-word", "1"]], [["w", "22"], ["much-longer", "3"]], width=40)
    assert lines == ["a          n", "long-word  1", "w          22", "much-lon…  3"]


def test_columns_for_wide_terminals_are_left_out_of_narrow_ones() -> None:
    columns = [Column("a"), Column("b", wide=True), Column("c")]
    rows: list[list[str | Text]] = [["1", "2", "3"]]
    assert printed(columns, rows, width=109) == ["a  c", "1  3"]
    assert printed(columns, rows, width=110) == ["a  b  c", "1  2  3"]


def test_what_goes_elsewhere_is_neither_shortened_nor_padded(sqlite_cli: Cli) -> None:
    key = "k" * 500
    jobs = [NewJob(kind="k", queue="q", key=key), NewJob(kind="k", queue="q")]
    sqlite_cli.store(lambda store: store.enqueue(jobs))
    lines = sqlite_cli("jobs", "list").lines
    assert key in lines[1]
    assert [line for line in lines if line != line.rstrip()] == []
    assert "\x1b" not in "".join(lines)
