"""Commands that look: what they show to people, and to programs as JSON."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from inturn.cli.jobs import _not_kept, _why
from inturn.cli.text import short_id
from inturn.model import worker_events
from inturn.model.job import AttemptError, NewJob
from inturn.model.lane import QueueSettings
from inturn.model.worker import WorkerView
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done, Retry
from inturn.store.store import Store
from tests.cli.support import Cli, bury, halt_lane, settle_next
from tests.poll.declared import declared_app, fire_once

SHAPES = Path(__file__).parents[2] / "docs/reference/json.md"


async def seed(store: Store) -> None:
    """Make jobs in most states: a halted lane in orders; retrying, dead and scheduled mails."""
    await halt_lane(store)
    await store.configure("mail", QueueSettings(depth_max=1000, lane_depth_max=10))
    await store.enqueue([NewJob(kind="send", queue="mail") for _ in range(4)])
    await settle_next(store, "mail", Retry(600, "later"), Bury("no address"))
    await store.enqueue([NewJob(kind="send", queue="mail", delay_seconds=900)])


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


# Status and workers


def test_status_counts_jobs_and_says_what_holds_them_up(cli: Cli) -> None:
    cli.store(seed)
    cli.store(lambda store: store.pause("mail", by="ann"))
    cli.store(lambda store: store.open_gate("mail", 3))
    head, mail, orders, blank, *notes = cli("status").lines
    assert head.split() == [
        "queue", "waiting", "running", "scheduled", "retrying", "dead", "oldest", "done/hour",
    ]  # fmt: skip
    assert mail.split()[:6] == ["mail", "2", "0", "1", "1", "1"]
    assert orders.split()[:6] == ["orders", "2", "0", "0", "0", "1"]
    assert (blank, notes) == (
        "",
        [
            "mail: paused by ann, 1 dead job (`inturn dead list --queue mail`), open up to "
            "round 3, at most 1,000 jobs, at most 10 of one key",
            "orders: 1 lane halted (`inturn lanes list orders --state halted`)",
            "No worker is running. Start one: `inturn work MODULE:APP`",
        ],
    )


def test_status_names_the_queues_that_no_worker_serves(sqlite_cli: Cli) -> None:
    sqlite_cli.store(seed)
    worker = WorkerView(id="w1", host="h", pid=1, version="1", queues=("mail",), kinds=("send",))
    sqlite_cli.store(lambda store: store.beat(worker))
    said = "No worker takes jobs from orders. Start one: `inturn work MODULE:APP`"
    assert sqlite_cli("status").lines[-1] == said
    sqlite_cli.store(lambda store: store.enqueue([NewJob(kind="k", queue="node:press 1")]))
    sqlite_cli.store(lambda store: store.declare({"node:press 1": {"local": True}}))
    there = (
        "No worker takes jobs from node:press 1. Start one there: "
        "`inturn work MODULE:APP --node 'press 1'`"
    )
    assert sqlite_cli("status").lines[-2:] == [there, said]


def test_status_counts_what_was_done_within_the_hour(sqlite_cli: Cli) -> None:
    async def work(store: Store) -> None:
        await store.enqueue([NewJob(kind="k")])
        [claim] = await store.claim("default", jobs_max=1, worker="w1")
        outcome = Outcome(claim.jobs[0], Done(), seconds=0.1)
        await store.settle([Settlement(claim.lease, [outcome])], worker="w1")

    sqlite_cli.store(work)
    assert sqlite_cli("status").lines[1].split() == ["default", "0", "0", "0", "1"]


def test_workers_are_listed_with_those_that_fell_silent(
    sqlite_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sqlite_cli("workers").out == "No workers. Start one: `inturn work MODULE:APP`\n"
    worker = WorkerView(id="w1", host="h", pid=1, version="1", queues=("mail",), kinds=("send",))
    sqlite_cli.store(lambda store: store.beat(worker))
    assert rows(sqlite_cli("workers").out)[1][0] == "w1"
    assert sqlite_cli.json("workers")["workers"][0]["silent"] is False
    monkeypatch.setattr("inturn.cli.status.WORKER_SEEN_SECONDS", -1.0)
    assert " ago " in sqlite_cli("workers").out
    assert sqlite_cli.json("workers")["workers"][0]["silent"] is True
    sqlite_cli.store(lambda store: store.hold("sweep", worker="w1", seconds=60))
    heads, row = rows(sqlite_cli("workers").out)
    assert (heads[-1], row[-1]) == ("duties", "sweep")


# Jobs


def test_jobs_that_are_finished_are_listed_only_when_asked_for(cli: Cli) -> None:
    cli.store(seed)
    cli.store(lambda store: store.enqueue([NewJob(kind="done", queue="d")]))
    cli.store(lambda store: settle_next(store, "d", Done()))
    [cancelled] = cli.store(lambda store: store.enqueue([NewJob(kind="gone", queue="d")]))
    cli.store(lambda store: store.cancel(cancelled.id, by="ann"))
    kinds = {row[2] for row in rows(cli("jobs", "list").out)[1:]}
    assert kinds == {"orders", "mail"}
    assert len(cli.json("jobs", "list")["jobs"]) == 8
    assert len(cli.json("jobs", "list", "--all")["jobs"]) == 10
    [done] = cli.json("jobs", "list", "--state", "done")["jobs"]
    assert done["kind"] == "done"
    assert cli("jobs", "list", "--queue", "d").out == "No unfinished jobs. For all: --all.\n"


def test_a_list_of_jobs_says_what_each_waits_for(sqlite_cli: Cli) -> None:
    sqlite_cli.store(seed)
    limited = NewJob(kind="call", queue="api", key="k")
    sqlite_cli.store(lambda store: store.enqueue([limited]))
    sqlite_cli.store(lambda store: settle_next(store, "api", Retry(600, "429", counted=False)))
    said = sqlite_cli("jobs", "list").out
    assert re.search(r"waiting +api +call +k .+ in (9m|10m): 429", said)
    assert re.search(r"retrying +mail +send +\S+ +1/5 +in (9m|10m): later", said)
    assert re.search(r"dead +mail +send +\S+ +1/5 +no address", said)
    assert re.search(r"scheduled +mail +send +\S+ +in 1[45]m", said)
    assert re.search(r"waiting +orders +order +c-7 +\S+ +behind 1", said)


def test_a_job_of_a_key_that_asked_to_come_later_says_when(sqlite_cli: Cli) -> None:
    sqlite_cli.store(lambda store: store.enqueue([NewJob(kind="send", key="c-7")]))
    later = Retry(600, "HTTP 429", counted=False)
    sqlite_cli.store(lambda store: settle_next(store, "default", later))
    assert re.search(r"waiting .* in (9|10)m: HTTP 429", sqlite_cli("jobs", "list").out)


def test_a_retry_that_is_overdue_is_due_now(sqlite_cli: Cli) -> None:
    sqlite_cli.store(lambda store: store.enqueue([NewJob(kind="send", queue="mail")]))
    sqlite_cli.store(lambda store: settle_next(store, "mail", Retry(0.001, "later")))
    time.sleep(0.01)
    assert re.search(r"retrying .* now: later", sqlite_cli("jobs", "list").out)


def test_a_list_goes_on_where_it_ended(sqlite_cli: Cli) -> None:
    sqlite_cli.store(seed)
    first = sqlite_cli.json("jobs", "list", "--limit", "5")
    assert f"--cursor {first['cursor']}" in sqlite_cli("jobs", "list", "--limit", "5").out
    rest = sqlite_cli.json("jobs", "list", "--cursor", first["cursor"])
    ids = [job["id"] for job in first["jobs"] + rest["jobs"]]
    assert (len(first["jobs"]), len(set(ids)), rest["cursor"]) == (5, 8, None)


def test_a_job_is_shown_and_explained_by_the_end_of_its_id(cli: Cli) -> None:
    cli.store(seed)
    job = cli.json("jobs", "list", "--queue", "orders", "--state", "dead")["jobs"][0]
    for name in (job["id"], job["id"][-8:], job["id"][-12:].upper()):
        shown = dict(line.split(maxsplit=1) for line in cli("jobs", "show", name).lines[:5])
        assert (shown["job"], shown["state"]) == (job["id"], "dead")
        assert shown["reason"] == "HTTP 400: unknown SKU"
    assert "HTTP 400: unknown SKU" in cli("jobs", "explain", job["id"][-8:]).out


def test_an_id_that_is_nobodys_or_two_jobs_is_refused(cli: Cli) -> None:
    def alike(number: int) -> NewJob:
        return NewJob(kind="k", id=UUID(f"01a1f099-102b-7103-935{number}-623c432480c2"))

    cli.store(lambda store: store.enqueue([alike(8), alike(9)]))
    both = cli("jobs", "show", "432480c2")
    assert (both.code, both.out) == (2, "")
    assert str(alike(8).id) in both.err
    assert str(alike(9).id) in both.err
    assert cli("jobs", "show", "9-623c432480c2").code == 0
    nobody = cli("jobs", "show", "00000000")
    assert (nobody.code, "no job's id ends with 00000000" in nobody.err) == (1, True)
    for wrong in ("432480c", "orders-1", "x" * 32):
        assert "Give all of it, or the last 8 characters" in cli("jobs", "show", wrong).err


def test_a_result_is_shown_and_text_from_outside_cannot_move_the_cursor(sqlite_cli: Cli) -> None:
    async def work(store: Store) -> None:
        await store.enqueue([NewJob(kind="k", key="\x1b[2J")])
        [claim] = await store.claim("default", jobs_max=1, worker="w1")
        outcome = Outcome(claim.jobs[0], Done(result='{"sum": 3}', result_seconds=60.0))
        await store.settle([Settlement(claim.lease, [outcome])], worker="w1")

    sqlite_cli.store(work)
    [job] = sqlite_cli.json("jobs", "list", "--all")["jobs"]
    assert sqlite_cli.json("jobs", "show", job["id"])["result"] == {"sum": 3}
    said = sqlite_cli("jobs", "show", job["id"]).out
    assert 'result     {"sum": 3}' in said
    assert ("\\x1b[2J" in said, "\x1b" in said) == (True, False)


def test_dead_jobs_are_listed(cli: Cli) -> None:
    mails = cli.store(lambda store: bury(store, 2))
    cli.store(halt_lane)
    head, *found = rows(cli("dead", "list").out)
    assert head == ["job", "queue", "kind", "key", "died", "tries", "reason"]
    assert {row[0] for row in found} > {short_id(job) for job in mails}
    [order] = cli.json("dead", "list", "--queue", "orders")["dead"]
    assert (order["reason"], order["state"]) == ("HTTP 400: unknown SKU", "dead")


def test_a_dead_job_is_listed_with_its_last_error_and_not_with_how_often_it_failed() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    error = AttemptError(attempt=3, at=at, worker="w", error="ValueError: no cents")
    assert _why("failed 3 times, the last time: ValueError: no cents", [error]) == error.error
    assert _why("what it waits for was dropped", [error]) == "what it waits for was dropped"
    assert _why(None, []) == ""


def test_a_dead_job_says_how_many_errors_were_not_kept() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    error = AttemptError(attempt=14, at=at, worker="w", error="boom", number=14)
    assert _not_kept([error]) == ["13 earlier ones were not kept"]
    assert _not_kept([msgspec.structs.replace(error, number=1)]) == _not_kept([]) == []


# Lanes and queues


def test_lanes_are_listed_with_what_they_wait_for(cli: Cli) -> None:
    first, *_ = cli.store(halt_lane)
    head, row = cli("lanes", "list", "orders").lines
    assert head.split() == ["key", "state", "waiting", "next", "kind", "round", "note"]
    assert row.split()[:2] == ["c-7", "halted"]
    assert row.endswith(f"on dead job {short_id(first)}")
    assert cli("lanes", "list", "orders", "--state", "ready").out == "No lanes.\n"
    assert cli.json("lanes", "list", "orders")["lanes"][0]["halted_job"] == str(first)


def test_an_unknown_queue_is_refused(sqlite_cli: Cli) -> None:
    for command in (("jobs", "list", "--queue"), ("dead", "list", "--queue"), ("lanes", "list")):
        ran = sqlite_cli(*command, "mial")
        assert (ran.code, ran.out) == (1, "")
        assert ran.err == (
            "inturn: there is no queue 'mial': nothing was ever submitted to it. "
            "List queues: `inturn queues list`. Make it: `inturn queues set mial`.\n"
        )


def test_an_empty_store_says_so(sqlite_cli: Cli) -> None:
    assert sqlite_cli("status").out == "No jobs were ever submitted to this store.\n"
    assert sqlite_cli("jobs", "list", "--all").out == "No jobs.\n"
    assert sqlite_cli("dead", "list").out == "No dead jobs.\n"
    assert sqlite_cli("queues", "list").out == "No queues yet.\n"
    assert sqlite_cli.json("jobs", "list") == {"jobs": [], "cursor": None}


# The page that promises the shapes of JSON


def _shape(value: Any) -> Any:
    """Return the fields of a document, and of the first document in each list in it."""
    match value:
        case dict():
            return {name: _shape(one) for name, one in value.items()}
        case [dict() as first, *_]:
            return [_shape(first)]
        case _:
            return None


def _answers(cli: Cli) -> dict[str, Callable[[], Any]]:
    first, *_ = cli.store(halt_lane)
    job = str(cli.store(lambda store: bury(store, 1))[0])
    worker = WorkerView(id="w1", host="h", pid=1, version="1", queues=("mail",), kinds=("send",))
    cli.store(lambda store: store.beat(worker))
    cli("queues", "set", "gone")
    fire_once(declared_app(cli.url))
    file = Path(cli.url.removeprefix("sqlite:///")).with_name("group.json")
    step = {"node": "left", "do": {"sql": "select 1"}, "undo": {"sql": "select 1"}}
    nodes = {"left": "sqlite:///left.db"}
    file.write_text(json.dumps({"group": "files", "nodes": nodes, "steps": {"one": step}}))
    calls = {
        "groups plan": ("groups", "plan", str(file)),
        "groups apply": ("groups", "apply", str(file)),
        "groups list": ("groups", "list"),
        "groups show": ("groups", "show", "files"),
        "groups explain": ("groups", "explain", "files", "one"),
        "submit": ("submit", "k"),
        "status": ("status",),
        "workers": ("workers",),
        "jobs list": ("jobs", "list", "--state", "dead", "--queue", "orders"),
        "jobs show": ("jobs", "show", str(first)),
        "jobs explain": ("jobs", "explain", job),
        "dead list": ("dead", "list", "--queue", "orders"),
        "lanes list": ("lanes", "list", "orders"),
        "lanes pause": ("lanes", "pause", "orders", "c-7", "--by", "ann"),
        "lanes retry": ("lanes", "retry", "orders", "c-7"),
        "queues list": ("queues", "list"),
        "queues set": ("queues", "set", "mail"),
        "queues pause": ("queues", "pause", "mail", "--by", "ann"),
        "queues open-gate": ("queues", "open-gate", "mail", "2"),
        "queues drop": ("queues", "drop", "gone"),
        "jobs retry": ("jobs", "retry", job),
        "jobs cancel": ("jobs", "cancel", job, "--by", "ann"),
        "schedules list": ("schedules", "list"),
        "schedules run": ("schedules", "run", "report"),
        "schedules pause": ("schedules", "pause", "report", "--by", "ann"),
        "schedules resume": ("schedules", "resume", "report"),
        "poll list": ("poll", "list"),
        "poll status": ("poll", "status", "consignments"),
        "poll run": ("poll", "run", "consignments"),
        "poll reconcile": ("poll", "reconcile", "consignments"),
        "poll reset": ("poll", "reset", "consignments"),
        "store migrate": ("store", "migrate"),
        "store check": ("store", "check"),
        "store prune": ("store", "prune"),
    }
    return {name: partial(cli.json, *call) for name, call in calls.items()}


def test_every_shape_of_json_is_as_the_page_promises(sqlite_cli: Cli) -> None:
    page = SHAPES.read_text(encoding="utf-8")
    promised = {
        name: json.loads(text)
        for name, text in re.findall(r"^### `([^`]+)`.*?```json\n(.*?)```", page, re.S | re.M)
    }
    answers = _answers(sqlite_cli)
    assert set(promised) == set(answers)
    for name, answer in answers.items():
        assert _shape(answer()) == _shape(promised[name]), name


def test_every_event_of_a_worker_is_as_the_page_promises() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", SHAPES.read_text(encoding="utf-8"), re.M)
    promised = {name: set(re.findall(r"`(\w+)`", fields)) for name, fields in rows}
    events = [one for one in vars(worker_events).values() if isinstance(one, type)]
    printed = {
        str(one.__struct_config__.tag): set(one.__struct_fields__) - {"worker"}
        for one in events
        if issubclass(one, worker_events.WorkerEvent) and not one.__subclasses__()
    }
    printed["stopped"] |= set(worker_events.Counts.__struct_fields__)
    assert promised == printed
