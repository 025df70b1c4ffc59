"""Commands that look: each shows what the store holds, to people and as JSON."""

from __future__ import annotations

import re
from datetime import datetime
from uuid import UUID

import pytest

from inturn.model.job import NewJob
from inturn.model.lane import QueueSettings
from inturn.model.worker import WorkerView
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done, Release, Retry
from inturn.store.protocol import Store
from tests.cli.support import Cli, bury, halt_lane, settle_next


def test_status_shows_every_queue_with_depth_age_gate_pause_bounds_and_halts(cli: Cli) -> None:
    async def seed(store: Store) -> None:
        await halt_lane(store)
        await store.configure("mail", QueueSettings(depth_max=1000, lane_depth_max=10))
        await store.enqueue([NewJob(kind="send", queue="mail") for _ in range(4)])
        await settle_next(store, "mail", Retry(600, "later"), Bury("no address"))
        await store.enqueue([NewJob(kind="send", queue="mail", delay_seconds=900)])
        await store.pause("mail", by="ann")
        await store.open_gate("mail", 3)

    cli.store(seed)
    document = cli.json("status")
    assert datetime.fromisoformat(document["at"]).tzinfo is not None
    mail, orders = document["queues"]
    states = ("waiting", "running", "scheduled", "retrying", "blocked", "dead")
    assert [mail[state] for state in states] == [2, 0, 1, 1, 0, 1]
    assert (mail["name"], mail["gate"], mail["paused_by"]) == ("mail", 3, "ann")
    assert (mail["depth_max"], mail["lane_depth_max"], mail["on_dead"]) == (1000, 10, "skip")
    assert datetime.fromisoformat(mail["oldest_at"]) <= datetime.fromisoformat(document["at"])
    assert (orders["name"], orders["halted"], orders["on_dead"]) == ("orders", 1, "halt")

    head, *rows = cli("status").lines
    assert head.split()[:7] == ["queue", *states]
    assert [row.split()[:7] for row in rows] == [
        ["mail", "2", "0", "1", "1", "0", "1"],
        ["orders", "2", "0", "0", "0", "0", "1"],
    ]
    assert rows[0].endswith("paused by ann, gate at round 3, at most 1,000 jobs, at most 10 a lane")
    assert rows[1].endswith("1 lane halted")


def test_an_empty_store_says_so(sqlite_cli: Cli) -> None:
    assert sqlite_cli("status").out == "No queues yet: nothing was ever submitted.\n"
    assert sqlite_cli("jobs", "list").out == "No such jobs.\n"
    assert sqlite_cli("dead", "list").out == "No dead letters.\n"
    assert sqlite_cli("queues", "list").out == "No queues yet.\n"
    assert sqlite_cli("workers").out == "No worker was heard of lately.\n"
    assert sqlite_cli.json("jobs", "list") == {"jobs": [], "cursor": None}


def test_jobs_are_listed_by_state_queue_kind_and_key(cli: Cli) -> None:
    ids = cli.store(halt_lane)
    mails = cli.store(lambda store: bury(store, 2))

    def listed(*filters: str) -> list[UUID]:
        return [UUID(job["id"]) for job in cli.json("jobs", "list", *filters)["jobs"]]

    assert listed() == [*ids, *mails]
    assert listed("--state", "dead") == [ids[0], *mails]
    assert listed("--queue", "orders") == ids
    assert listed("--kind", "send") == mails
    assert listed("--key", "c-7", "--state", "waiting") == ids[1:]
    table = cli("jobs", "list", "--queue", "orders").lines
    assert [line.split()[:5] for line in table[1:]] == [
        [str(id), state, "orders", "order", "c-7"]
        for id, state in zip(ids, ("dead", "waiting", "waiting"), strict=True)
    ]
    assert "HTTP 400: unknown SKU" in table[1]


def test_a_list_says_what_waiting_jobs_wait_for(cli: Cli) -> None:
    jobs = [
        NewJob(kind="given-back", queue="q"),
        NewJob(kind="first", queue="q", key="c-7"),
        NewJob(kind="second", queue="q", key="c-7"),
        NewJob(kind="open", queue="q", round=3),
        NewJob(kind="gated", queue="q", round=4),
        NewJob(kind="paused", queue="shut"),
    ]

    async def seed(store: Store) -> None:
        await store.enqueue(jobs)
        await store.open_gate("q", 3)
        await store.pause("shut", by="ann")
        [claim] = await store.claim("q", jobs_max=1, worker="w1", kinds=["given-back"])
        outcome = Outcome(claim.jobs[0], Release())
        await store.settle([Settlement(claim.lease, [outcome])], worker="w1")

    cli.store(seed)
    head, *rows = cli("jobs", "list").lines
    at = head.index("what")
    assert [row[at:] for row in rows] == [
        "ready",
        "first in line",
        "behind 1",
        "first in line",
        "held until round 4",
        "queue paused by ann",
    ]


def test_a_list_goes_on_at_its_cursor(cli: Cli) -> None:
    jobs = [NewJob(kind="k", queue="q") for _ in range(5)]
    cli.store(lambda store: store.enqueue(jobs))
    first = cli.json("jobs", "list", "--limit", "3")
    rest = cli.json("jobs", "list", "--limit", "3", "--cursor", first["cursor"])
    assert [UUID(job["id"]) for job in first["jobs"] + rest["jobs"]] == [job.id for job in jobs]
    assert (len(first["jobs"]), rest["cursor"]) == (3, None)
    shown = cli("jobs", "list", "--limit", "3")
    assert len(shown.lines) == 4
    assert shown.err == f"There is more: the same with --cursor {first['cursor']}\n"
    assert cli("jobs", "list", "--limit", "5").err == ""


def test_a_long_list_comes_in_pages_under_one_header(sqlite_cli: Cli) -> None:
    jobs = [NewJob(kind="k", queue="q") for _ in range(1_100)]
    sqlite_cli.store(lambda store: store.enqueue(jobs))
    lines = sqlite_cli("jobs", "list", "--limit", "1050").lines
    assert len(lines) == 1_051
    assert [line for line in lines if line.startswith("job ")] == [lines[0]]
    document = sqlite_cli.json("jobs", "list", "--limit", "3000")
    assert [UUID(job["id"]) for job in document["jobs"]] == [job.id for job in jobs]
    assert document["cursor"] is None


def test_a_job_is_shown_with_its_payload_errors_and_result(cli: Cli) -> None:
    job = NewJob(
        kind="k", payload='{"price": 10.50, "big": 12345678901234567890123}', timeout_seconds=90
    )

    async def seed(store: Store) -> None:
        await store.enqueue([job])
        await settle_next(store, "default", Retry(0, "boom\nand more"), Done(result='{"ok": true}'))

    cli.store(seed)
    ran = cli("jobs", "show", str(job.id), "--json")
    assert '"price": 10.50' in ran.out
    assert '"big": 12345678901234567890123' in ran.out
    document = ran.document
    assert (document["id"], document["state"]) == (str(job.id), "done")
    assert document["result"] == {"ok": True}
    shown = cli("jobs", "show", str(job.id)).out
    assert f"job       {job.id}\nstate     done\n" in shown
    assert "timeout   1m30s\n" in shown
    assert 'result    {"ok": true}\n' in shown


def test_a_result_that_was_lost_is_shown_as_lost(cli: Cli) -> None:
    job = NewJob(kind="k")

    async def seed(store: Store) -> None:
        await store.enqueue([job])
        await settle_next(store, "default", Done(result_lost="it is no JSON."))

    cli.store(seed)
    document = cli.json("jobs", "show", str(job.id))
    assert (document["result"], document["result_lost"]) == (None, "it is no JSON.")
    assert "result    could not be kept: it is no JSON.\n" in cli("jobs", "show", str(job.id)).out


def test_a_failure_is_shown_with_where_it_failed(cli: Cli) -> None:
    trace = 'Traceback (most recent call last):\n  File "shop.py", line 7, in pay\nKeyError: 1'
    job = NewJob(kind="k")

    async def seed(store: Store) -> None:
        await store.enqueue([job])
        await settle_next(
            store, "default", Retry(0, "KeyError: 1", traceback=trace), Retry(0, "killed")
        )

    def shown(*command: str) -> None:
        errors = cli.json(*command, str(job.id))["errors"]
        assert [error["traceback"] for error in errors[:2]] == [trace, None]
        out = cli(*command, str(job.id)).out
        assert 'File "shop.py", line 7, in pay' in out
        assert out.count("Traceback") == sum(error["traceback"] is not None for error in errors)

    cli.store(seed)
    shown("jobs", "show")
    cli.store(lambda store: settle_next(store, "default", Bury("no", traceback=trace)))
    shown("dead", "show")


def test_a_running_job_is_shown_with_how_far_it_is(cli: Cli) -> None:
    job = NewJob(kind="k")

    async def seed(store: Store) -> None:
        await store.enqueue([job])
        [claim] = await store.claim("default", jobs_max=1, worker="w1")
        await store.progress(claim.lease, job.id, fraction=0.4, note="copying")

    cli.store(seed)
    shown = cli("jobs", "show", str(job.id))
    assert "progress     40% copying, said 20" in shown.out
    document = cli.json("jobs", "show", str(job.id))["progress"]
    assert (document["fraction"], document["note"]) == (0.4, "copying")


def test_only_a_job_with_a_key_is_shown_behind_others(cli: Cli) -> None:
    def shown(key: str | None) -> tuple[str, str]:
        jobs = [NewJob(kind="k", queue="q", key=key) for _ in range(3)]
        cli.store(lambda store: store.enqueue(jobs))
        one = cli("jobs", "show", str(jobs[2].id)).out
        listed = cli("jobs", "list", "--queue", "q").lines[-1]
        [place] = [line for line in one.splitlines() if line.startswith("place")]
        return place, listed

    place, listed = shown("c-7")
    assert re.search(r" 3 of lane \d+, behind 2$", place)
    assert listed.endswith(" behind 2")
    place, listed = shown(None)
    assert re.search(r" 3 of lane \d+, claimed after 2; it waits for none of them$", place)
    assert listed.endswith(" claimed after 2")


def test_a_job_is_explained(cli: Cli) -> None:
    first, second, _ = cli.store(halt_lane)
    said = cli("jobs", "explain", str(second)).out
    assert said.startswith(f"It waits in lane 'c-7' behind 1 job, the first of them {first}")
    document = cli.json("jobs", "explain", str(second))
    assert document == {"job": str(second), "explanation": said.rstrip("\n")}


def test_lanes_are_listed_by_state_and_key(cli: Cli) -> None:
    first, *_ = cli.store(halt_lane)
    cli.store(lambda store: store.enqueue([NewJob(kind="order", queue="orders", key="c-8")]))
    cli.store(lambda store: store.enqueue([NewJob(kind="order", queue="orders")]))
    lanes = cli.json("lanes", "list", "orders")["lanes"]
    assert [(lane["key"], lane["state"]) for lane in lanes] == [
        ("c-7", "halted"),
        ("c-8", "ready"),
        (None, "ready"),
    ]
    [halted] = cli.json("lanes", "list", "orders", "--state", "halted")["lanes"]
    assert (halted["halted_job"], halted["depth"]) == (str(first), 3)
    [ready] = cli.json("lanes", "list", "orders", "--key", "c-8")["lanes"]
    assert ready["key"] == "c-8"
    [row] = cli("lanes", "list", "orders", "--state", "ready", "--limit", "1").lines[1:]
    assert row.split()[:2] == ["c-8", "ready"]
    assert "(open)" in cli("lanes", "list", "orders").out


@pytest.mark.parametrize("state", ["halted", "leased", "sleeping", "ready", "paused", "idle"])
def test_a_lane_is_explained_by_the_job_that_keeps_it(cli: Cli, state: str) -> None:
    async def seed(store: Store) -> None:
        if state == "halted":
            await halt_lane(store)
            return
        await store.enqueue([NewJob(kind="order", queue="orders", key="c-7")])
        if state == "leased":
            await store.claim("orders", jobs_max=1, worker="w1")
        elif state == "sleeping":
            await settle_next(store, "orders", Retry(600, "later"))
        elif state == "paused":
            await store.pause("orders", key="c-7", by="ann")
        elif state == "idle":
            await settle_next(store, "orders", Done())

    cli.store(seed)
    said = cli("lanes", "explain", "orders", "c-7").lines
    assert said[0].startswith(f"Lane 'c-7' of queue 'orders' is {state}; ")
    telling = {
        "halted": "It is dead since",
        "leased": "It is running on worker w1",
        "sleeping": "It waits to retry at",
        "ready": "It is ready, but no live worker",
        "paused": "It is held: lane 'c-7' was paused by ann",
    }
    assert state == "idle" or telling[state] in said[1]
    assert len(said) == {"idle": 1, "halted": 3}.get(state, 2)
    assert cli.json("lanes", "explain", "orders", "c-7")["state"] == state


def test_the_hint_for_a_halted_lane_can_be_pasted(sqlite_cli: Cli) -> None:
    sqlite_cli.store(lambda store: halt_lane(store, key="it's -x"))
    assert (
        "`inturn lanes retry orders 'it'\"'\"'s -x'`"
        in sqlite_cli("lanes", "explain", "orders", "it's -x").out
    )


def test_dead_letters_are_listed_and_shown(cli: Cli) -> None:
    first, second, _ = cli.store(halt_lane)
    mails = cli.store(lambda store: bury(store, 2))
    listed = cli.json("dead", "list")["dead"]
    assert [UUID(letter["id"]) for letter in listed] == [first, *mails]
    assert (listed[0]["reason"], listed[0]["payload"]) == ("HTTP 400: unknown SKU", {"n": 1})
    assert [error["worker"] for error in listed[0]["errors"]] == ["w1"]
    assert len(cli.json("dead", "list", "--queue", "mail", "--kind", "send")["dead"]) == 2
    assert len(cli.json("dead", "list", "--key", "c-7")["dead"]) == 1
    assert cli("dead", "list", "--limit", "1").lines[1].startswith(str(first))
    shown = cli.json("dead", "show", str(first))
    assert {name: shown[name] for name in listed[0]} == listed[0]
    assert "HTTP 400: unknown SKU" in cli("dead", "show", str(first)).out
    alive = cli("dead", "show", str(second))
    assert (alive.code, alive.out) == (1, "")
    assert alive.err == (
        f"inturn: job {second} is not a dead letter: it is waiting.\n"
        f"Look with `inturn jobs show {second}`.\n"
    )


def test_workers_and_their_figures_are_shown(cli: Cli) -> None:
    async def seed(store: Store) -> None:
        await store.beat(
            WorkerView(id="w1", host="h", pid=7, version="1", queues=("mail",), kinds=("send",))
        )
        await store.enqueue([NewJob(kind="send", queue="mail") for _ in range(3)])
        await settle_next(store, "mail", Done(), Done(), Bury("no"))

    cli.store(seed)
    [worker] = cli.json("workers")["workers"]
    assert (worker["id"], worker["pid"], worker["queues"]) == ("w1", 7, ["mail"])
    assert worker["silent"] is False
    assert cli("workers").lines[1].split()[:1] == ["w1"]
    stats = cli.json("stats", "mail", "--minutes", "5")
    assert sum(stat["done"] for stat in stats["stats"]) == 2
    assert sum(stat["buried"] for stat in stats["stats"]) == 1
    assert cli("stats", "mail").lines[0].split()[:3] == ["minute", "kind", "done"]


def test_a_worker_that_died_is_silent_since_it_was_seen_and_one_that_left_is_not_listed(
    cli: Cli,
) -> None:
    async def seed(store: Store) -> None:
        for name in ("dead", "left", "lives"):
            await store.beat(WorkerView(id=name, host="h", pid=7, version="1", running=3))
        await store.leave("left")
        is_postgres = cli.url.startswith("postgres")
        long_ago = "seen_at - interval '5 minutes'" if is_postgres else "seen_at - 300000000"
        async with store.transaction() as transaction:
            await transaction.execute(
                f"update {'inturn.' * is_postgres}worker set seen_at = {long_ago} where id = 'dead'"
            )

    cli.store(seed)
    found = cli.json("workers")["workers"]
    assert [(one["id"], one["silent"]) for one in found] == [("lives", False), ("dead", True)]
    _, lives, dead = cli("workers").lines
    assert lives.split()[0] == "lives"
    assert dead.split()[:4] == ["dead", "silent", "since", "5m"]


def test_the_store_says_where_it_is_and_what_it_holds(cli: Cli) -> None:
    cli.store(halt_lane)
    document = cli.json("store", "info")
    assert (document["store"], document["named_by"]) == (cli.url, "--store")
    assert (document["queues"], document["waiting"], document["dead"]) == (1, 2, 1)
    assert "waiting         2\n" in cli("store", "info").out


def test_control_characters_are_spelled_out(sqlite_cli: Cli) -> None:
    async def seed(store: Store) -> None:
        await store.enqueue([NewJob(kind="k", queue="q", key="a\x1b[2Jb")])
        await settle_next(store, "q", Bury("no\x1b]0;title\x07\nsecond\tline"))

    sqlite_cli.store(seed)
    [id] = [job["id"] for job in sqlite_cli.json("jobs", "list")["jobs"]]
    for arguments in (
        ("jobs", "list"),
        ("jobs", "show", id),
        ("jobs", "explain", id),
        ("dead", "list"),
        ("lanes", "list", "q"),
        ("lanes", "explain", "q", "a\x1b[2Jb"),
        ("lanes", "retry", "q", "a\x1b[2Jb"),
    ):
        ran = sqlite_cli(*arguments)
        assert (ran.out + ran.err).replace("\n", "").isprintable()
        assert "\\x1b" in ran.out + ran.err
    assert sqlite_cli.json("jobs", "show", id)["key"] == "a\x1b[2Jb"


def test_names_are_shown_exactly(sqlite_cli: Cli) -> None:
    jobs = [NewJob(kind="k", queue="q", key=key) for key in ("a  b", "a\nb", "a\\nb")]
    sqlite_cli.store(lambda store: store.enqueue(jobs))
    shown = sqlite_cli("lanes", "list", "q").lines[1:]
    assert [line.partition("  ready")[0].rstrip() for line in shown] == ["a  b", "a\\nb", "a\\nb"]
    assert "key       a\\nb\n" in sqlite_cli("jobs", "show", str(jobs[1].id)).out


def test_what_looks_like_markup_is_printed_as_it_is(sqlite_cli: Cli) -> None:
    job = NewJob(kind="[red]k[/red]", queue="q", key=":smile: [/]")
    sqlite_cli.store(lambda store: store.enqueue([job]))
    assert "[red]k[/red]  :smile: [/]" in sqlite_cli("jobs", "list").out
    assert "[red]k[/red]" in sqlite_cli("jobs", "show", str(job.id)).out
