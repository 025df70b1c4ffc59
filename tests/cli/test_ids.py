"""Ids of jobs on the command line: whole, or as much of the beginning as only one job has."""

from __future__ import annotations

from uuid import UUID

import pytest

from inturn.model.job import NewJob
from tests.cli.support import Cli, bury

FIRST = UUID("01900000-0000-7000-8000-00000000000a")
SECOND = UUID("01900000-0000-7000-9000-00000000000b")
OTHER = UUID("01900001-0000-7000-8000-00000000000c")


@pytest.fixture(autouse=True)
def jobs(cli: Cli) -> None:
    jobs = [NewJob(kind="k", id=id) for id in (FIRST, SECOND, OTHER)]
    cli.store(lambda store: store.enqueue(jobs))


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("01900001", OTHER),
        ("0190000000007000-9", SECOND),
        ("01900000-0000-7000-8", FIRST),
        (str(FIRST).upper()[:-1], FIRST),
        (str(OTHER), OTHER),
        (OTHER.hex, OTHER),
        ("01900001…", OTHER),  # as where a text was shortened
        (f"{OTHER}…", OTHER),
    ],
)
def test_a_beginning_that_only_one_id_has_will_do(cli: Cli, typed: str, meant: UUID) -> None:
    assert cli.json("jobs", "show", typed)["id"] == str(meant)
    assert cli.json("jobs", "explain", typed)["job"] == str(meant)
    assert cli("jobs", "cancel", typed).out == f"{meant} is cancelled.\n"
    states = {job["id"]: job["state"] for job in cli.json("jobs", "list")["jobs"]}
    assert [id for id, state in states.items() if state == "cancelled"] == [str(meant)]


def test_a_beginning_that_two_ids_have_is_refused(cli: Cli) -> None:
    for typed in ("01900000", "01900000-0000-7"):
        ran = cli("jobs", "cancel", typed)
        assert (ran.code, ran.out) == (2, "")
        assert f"{FIRST} and {SECOND} both begin with {typed.replace('-', '')}." in ran.err
    assert cli.json("jobs", "list", "--state", "cancelled")["jobs"] == []


def test_a_beginning_that_no_id_has_is_told(cli: Cli) -> None:
    for typed in ("01900002", "00000000", "ffffffff"):
        ran = cli("jobs", "show", typed)
        assert (ran.code, ran.out) == (1, "")
        assert f"no job here whose id begins with {typed}" in ran.err


@pytest.mark.parametrize("typed", ["0190000x", "0x01", "01900001-0000-7000-8000-00000000000c0"])
def test_what_is_no_id_is_refused(cli: Cli, typed: str) -> None:
    ran = cli("jobs", "show", typed)
    assert (ran.code, ran.out) == (2, "")
    assert f"'{typed}' is not the id of a job" in ran.err


@pytest.mark.parametrize("typed", ["0190000", "0190-000", "0199…", "abc", ""])
def test_what_is_too_short_is_told_how_much_is_needed(cli: Cli, typed: str) -> None:
    for command in (("jobs", "show", typed), ("submit", "k", "--after", typed)):
        ran = cli(*command)
        assert (ran.code, ran.out) == (2, "")
        assert f"'{typed}' is not the id of a job" in ran.err
        assert "at least 8 characters are needed" in ran.err


def test_dead_letters_are_named_by_beginnings_too(cli: Cli) -> None:
    first, second = cli.store(lambda store: bury(store, 2))
    apart = next(at for at in range(36) if str(first)[at] != str(second)[at]) + 1
    short = [str(first)[:apart], str(second)[:apart]]
    assert cli.json("dead", "show", short[0])["id"] == str(first)
    ran = cli("dead", "retry", short[0], "01900002")
    assert (ran.code, ran.out) == (1, "")  # nothing is done if one of them is not found
    assert cli.json("dead", "retry", short[0], str(first))["retried"] == [str(first)]
    assert cli.json("dead", "drop", short[1])["dropped"] == [str(second)]
    ran = cli("dead", "retry", "01900001", "--json")
    assert (ran.code, ran.document) == (1, {"retried": [], "not_dead": [str(OTHER)]})


def test_a_job_waits_for_others_that_are_named_by_beginnings(cli: Cli) -> None:
    typed = ("01900001", "01900000-0000-7000-9", str(SECOND))
    after = cli.json("submit", "k", *(word for one in typed for word in ("--after", one)))["id"]
    assert cli.json("jobs", "show", after)["waits_for"] == [str(SECOND), str(OTHER)]


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [("01900000", 2, "both begin with 01900000."), ("01900002", 1, "id begins with 01900002.")],
)
def test_nothing_is_submitted_after_a_beginning_that_names_no_one_job(
    cli: Cli, typed: str, code: int, said: str
) -> None:
    ran = cli("submit", "k", "--after", typed)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert len(cli.json("jobs", "list")["jobs"]) == 3
