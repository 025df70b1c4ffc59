"""``inturn schedules`` and ``inturn poll``: what they show, and what they do."""

from __future__ import annotations

from collections.abc import Callable

from inturn.model.job import JobState
from tests.cli.conftest import cli, empty_file, open_terminal, sqlite_url, url
from tests.cli.support import Cli, Terminal, without_colour
from tests.poll.declared import declared_app, fire_once, work_off

__all__ = ["cli", "empty_file", "open_terminal", "sqlite_url", "url"]


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def states(cli: Cli) -> list[JobState]:
    return [view.state for view in cli.store(lambda store: store.jobs()).rows]


def test_schedules_are_listed_run_paused_and_resumed(cli: Cli) -> None:
    assert cli("schedules", "list").out == "No schedules yet.\n"
    fire_once(declared_app(cli.url))
    head, consignments, report = rows(cli("schedules", "list").out)
    assert head == ["schedule", "fires", "next", "in", "last", "job", "state"]
    assert consignments[:3] == ["poll:consignments", "every", "5m"]
    assert report[:5] == ["report", "30", "2", "*", "*"]
    assert cli("schedules", "pause", "report", "--by", "ann").code == 0
    assert "paused by ann" in cli("schedules", "list").out
    assert cli("schedules", "resume", "report").code == 0
    assert "paused" not in cli("schedules", "list").out
    said = cli("schedules", "run", "report").out
    [_, document] = cli.json("schedules", "list")["schedules"]
    assert document["last_job"][-8:] in said
    assert states(cli) == [JobState.WAITING] * 2  # with the first read of the source
    missing = cli("schedules", "run", "nothing")
    assert (missing.code, missing.out) == (1, "")
    assert "there is no schedule 'nothing'" in missing.err


def test_a_source_is_listed_run_reconciled_and_reset(cli: Cli) -> None:
    assert cli("poll", "list").out == "No sources yet.\n"
    app = declared_app(cli.url)
    fire_once(app)
    assert "not read to its end yet" in cli("poll", "list").out
    assert cli("poll", "run", "consignments").code == 0
    work_off(app)
    assert "works" in cli("poll", "status", "consignments").out
    head, row = rows(cli("poll", "list").out)
    assert head == ["source", "items", "waiting", "dead", "lag", "success", "state"]
    assert row[:4] == ["consignments", "2", "0", "0"]
    shown = cli("poll", "status", "consignments").out
    assert "every 5m" in shown
    assert "2 of 1 page" in shown
    assert cli.json("poll", "reconcile", "consignments")["source"] == "consignments"
    work_off(app)
    assert "done, 0 items deleted" in cli("poll", "status", "consignments").out
    assert cli("poll", "reset", "consignments", "--forget").code == 0
    status = cli.json("poll", "status", "consignments")
    assert (status["cursor"], status["items"]) == (None, 0)
    assert cli("poll", "run", "nothing").code == 1


def test_a_list_fits_a_terminal_of_80_columns(
    sqlite_url: str, open_terminal: Callable[..., Terminal]
) -> None:
    app = declared_app(sqlite_url, name="consignments-of-all-outlets")
    fire_once(app)
    for group in ("schedules", "poll"):
        code, shown = open_terminal(group, "list", "--store", sqlite_url).finish()
        assert code == 0
        assert max(map(len, without_colour(shown).splitlines())) <= 80
