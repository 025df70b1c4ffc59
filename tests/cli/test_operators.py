"""Commands that change something: each does what it says, and says what it did."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from uuid import UUID

import pytest

from inturn.cli.text import short_id
from inturn.model.job import JobState, NewJob
from inturn.model.lane import (
    LaneState,
    LaneView,
    OnDead,
    QueueSettings,
    QueueStatus,
    Replay,
    SuspectsRule,
)
from inturn.policy.verdict import Bury, Done
from inturn.store.store import Store
from tests.cli.support import NOWHERE, Cli, bury, halt_lane, settle_next


def lane(cli: Cli, key: str = "c-7", queue: str = "orders") -> LaneView:
    [found] = cli.store(lambda store: store.lanes(queue, key=key)).rows
    return found


def queue(cli: Cli, name: str) -> QueueStatus:
    [found] = [one for one in cli.store(lambda store: store.queues()) if one.name == name]
    return found


def state(cli: Cli, job: UUID) -> JobState:
    return cli.store(lambda store: store.job(job)).state


@pytest.mark.parametrize(
    ("verb", "said", "becomes"),
    [
        ("retry", "job {} runs again", JobState.WAITING),
        ("skip", "job {} stays dead", JobState.DEAD),
        ("drop", "job {} is cancelled", JobState.CANCELLED),
    ],
)
def test_a_halted_lane_is_unblocked(cli: Cli, verb: str, said: str, becomes: JobState) -> None:
    first, *_ = cli.store(halt_lane)
    ran = cli("lanes", verb, "orders", "c-7")
    text = f"Lane 'c-7' of queue 'orders' goes on; {said.format(short_id(first))}.\n"
    assert (ran.code, ran.out, ran.err) == (0, text, "")
    assert state(cli, first) is becomes
    assert lane(cli).state is LaneState.READY
    again = cli("lanes", verb, "orders", "c-7")
    assert (again.code, again.out) == (1, "")
    assert "is not halted" in again.err
    missing = cli("lanes", verb, "orders", "c-9")
    assert missing.err == (
        "inturn: queue 'orders' has no lane 'c-9'. List its lanes: `inturn lanes list orders`.\n"
    )


def test_a_lane_and_a_queue_are_paused_and_resumed(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "bo")
    monkeypatch.setattr("socket.gethostname", lambda: "ship")
    cli.store(lambda store: store.enqueue([NewJob(kind="k", queue="q", key="c-7")]))
    paused = cli("lanes", "pause", "q", "c-7", "--by", "ann").out
    assert paused == "Lane 'c-7' of queue 'q' is paused by ann.\n"
    assert lane(cli, queue="q").paused_by == "ann"
    assert cli("lanes", "resume", "q", "c-7").out == "Lane 'c-7' of queue 'q' is not paused.\n"
    assert lane(cli, queue="q").paused_by is None
    assert cli("queues", "pause", "q").out == "Queue 'q' is paused by bo@ship.\n"
    assert queue(cli, "q").paused_by == "bo@ship"
    assert cli("queues", "resume", "q").out == "Queue 'q' is not paused.\n"
    assert queue(cli, "q").paused_by is None


def test_set_changes_what_is_named_and_nothing_else(cli: Cli) -> None:
    made = cli.json("queues", "set", "q", "--on-dead", "halt", "--depth-max", "50")
    assert (made["queue"], made["on_dead"], made["depth_max"]) == ("q", "halt", 50)
    cli("queues", "set", "q", "--depth-max", "none", "--lane-depth-max", "7")
    said = cli("queues", "set", "q", "--aging", "1m30s", "--keep-done", "30d").out
    assert queue(cli, "q").settings == QueueSettings(
        on_dead=OnDead.HALT,
        lane_depth_max=7,
        aging_seconds=90.0,
        keep_done_seconds=30 * 86_400.0,
    )
    assert "lane depth max  7\nkeep done       30d\naging           1m30s\n" in said
    shown = " ".join(cli("queues", "list").out.split())
    assert "q 0 on dead halt, lane depth max 7, keep done 30d, aging 1m30s" in shown


def test_limits_and_rules_are_set_and_shown(cli: Cli) -> None:
    cli("queues", "set", "q", "--running-max", "2", "--rate", "50/5m", "--replay", "none")
    cli("queues", "set", "q", "--suspects", "again", "--local")
    settings = QueueSettings(
        running_max=2,
        rate=50,
        rate_seconds=300.0,
        replay=Replay.NONE,
        suspects=SuspectsRule.AGAIN,
        local=True,
    )
    assert queue(cli, "q").settings == settings
    shown = " ".join(cli("queues", "list").out.split())
    assert "running max 2, rate 50/5m, replay none, suspects again, local yes" in shown
    cli("queues", "set", "q", "--running-max", "none", "--rate", "none", "--replay", "tail")
    cli("queues", "set", "q", "--suspects", "alone", "--no-local")
    assert queue(cli, "q").settings == QueueSettings()
    for wrong in ("50", "5m", "x/5m", "50/never"):
        assert cli("queues", "set", "q", "--rate", wrong).code == 2


def test_status_says_which_queue_is_at_its_limit(cli: Cli) -> None:
    cli("queues", "set", "q", "--running-max", "1")
    for _ in range(2):
        cli.store(lambda store: store.enqueue([NewJob(kind="k", queue="q")]))
    assert "limit" not in cli("status").out
    cli.store(lambda store: store.claim("q", jobs_max=5, worker="w1"))
    assert "q: at its limit: 1 of its jobs run, and at most 1 may" in cli("status").out


def test_a_queue_is_dropped_when_it_is_empty_or_all_is_to_go(cli: Cli) -> None:
    cli.store(lambda store: store.enqueue([NewJob(kind="k", queue="q")]))
    kept = cli("queues", "drop", "q")
    assert (kept.code, kept.out) == (1, "")
    assert "queue 'q' holds 1 unfinished jobs or dead letters" in kept.err
    assert "`inturn queues drop q --all`" in kept.err
    assert cli("queues", "drop", "q", "--all", "--by", "ann").out == "Queue 'q' is gone.\n"
    assert cli("queues", "list").out == "No queues yet.\n"
    assert cli("queues", "drop", "q").code == 1


def test_a_gate_is_opened(cli: Cli) -> None:
    cli.store(lambda store: store.enqueue([NewJob(kind="k", queue="walk", round=2)]))
    assert "until round 2 opens" in cli("jobs", "list").out
    said = "Queue 'walk' is open up to round 2.\n"
    assert cli("queues", "open-gate", "walk", "2").out == said
    assert cli("queues", "open-gate", "walk", "1").out == said, "a gate never closes"


def test_a_job_is_cancelled_unless_it_is_too_late(cli: Cli) -> None:
    waiting, running = NewJob(kind="k", queue="a"), NewJob(kind="k", queue="b")
    cli.store(lambda store: store.enqueue([waiting, running]))
    cli.store(lambda store: store.claim("b", jobs_max=1, worker="w1"))
    [dead] = cli.store(lambda store: bury(store, 1))
    said = cli("jobs", "cancel", short_id(waiting.id), "--by", "ann").out
    assert said == f"Job {short_id(waiting.id)} is cancelled.\n"
    assert cli.store(lambda store: store.job(waiting.id)).cancelled_by == "ann"
    for id, became, hint in ((running.id, "running", "jobs show"), (dead, "dead", "jobs drop")):
        late = cli("jobs", "cancel", str(id), "--json")
        assert (late.code, late.document) == (1, {"job": str(id), "state": became})
        assert f"too late to cancel job {short_id(id)}: it is {became}." in late.err
        assert f"`inturn {hint} {short_id(id)}`" in late.err


@pytest.mark.parametrize("group", ["dead", "jobs"])
@pytest.mark.parametrize(
    ("verb", "said", "becomes"),
    [("retry", "retried", JobState.WAITING), ("drop", "dropped", JobState.CANCELLED)],
)
def test_dead_jobs_are_decided_by_id_once(
    sqlite_cli: Cli, group: str, verb: str, said: str, becomes: JobState
) -> None:
    one, two, other = sqlite_cli.store(lambda store: bury(store, 3))
    ran = sqlite_cli(group, verb, short_id(one), str(two), str(one))
    assert (ran.code, ran.out, ran.err) == (0, f"2 dead jobs {said}.\n", "")
    assert [state(sqlite_cli, job) for job in (one, two, other)] == [becomes, becomes, "dead"]
    again = sqlite_cli(group, verb, str(one), str(NOWHERE))
    assert (again.code, again.out) == (1, f"0 dead jobs {said}.\n")
    assert again.err.splitlines()[0] == (
        f"inturn: job {short_id(one)} is not dead. See `inturn jobs explain {short_id(one)}`."
    )


def test_dead_jobs_are_decided_all_together_by_filter(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.model.bounds.PAGE_ROWS_MAX", 2)
    mails = cli.store(lambda store: bury(store, 3))
    texts = cli.store(lambda store: bury(store, 2, kind="text"))
    arguments = ("--all", "--queue", "mail", "--kind", "send", "--yes")
    assert sorted(map(UUID, cli.json("dead", "retry", *arguments)["retried"])) == mails
    assert {state(cli, job) for job in texts} == {JobState.DEAD}
    assert cli("dead", "drop", "--all", "-y").out == "2 dead jobs dropped.\n"


def test_dead_jobs_of_a_key_that_are_retried_together_keep_their_order(cli: Cli) -> None:
    async def die(store: Store) -> None:
        jobs = [NewJob(kind="order", queue="q", key="c-7", payload=str(n)) for n in range(3)]
        await store.enqueue(jobs)
        for _ in jobs:
            await settle_next(store, "q", Bury("no"))

    cli.store(die)
    cli("dead", "retry", "--all", "--yes")
    [claim] = cli.store(lambda store: store.claim("q", jobs_max=3, worker="w1"))
    assert [job.payload for job in claim.jobs] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name jobs, or pass --all: one of the two."),
        ((str(NOWHERE), "--all", "--yes"), "name jobs, or pass --all: one of the two."),
        ((str(NOWHERE), "--queue", "mail"), "--queue, --kind and --key go with --all."),
        (("--all",), "--all asks before it acts. Where nobody can answer, pass --yes."),
    ],
)
def test_dead_jobs_are_not_decided_by_accident(
    sqlite_cli: Cli, arguments: tuple[str, ...], said: str
) -> None:
    sqlite_cli.store(lambda store: bury(store, 1))
    ran = sqlite_cli("dead", "drop", *arguments)
    assert (ran.code, ran.out, ran.err) == (2, "", f"inturn: {said}\n")
    assert queue(sqlite_cli, "mail").dead == 1


def test_a_store_is_pruned(cli: Cli) -> None:
    async def seed(store: Store) -> None:
        await store.configure("q", QueueSettings(keep_done_seconds=0.0))
        await store.enqueue([NewJob(kind="k", queue="q", key="c-7") for _ in range(2)])
        await settle_next(store, "q", Done(), Done())

    cli.store(seed)
    assert cli("store", "prune").out.startswith("Deleted 2 done jobs")
    assert cli.json("jobs", "list", "--all")["jobs"] == []


def test_a_store_is_checked(cli: Cli) -> None:
    cli.store(halt_lane)
    assert cli("store", "check").out == "No problems.\n"

    async def corrupt(store: Store) -> None:
        prefix = "inturn." if cli.url.startswith("postgresql") else ""
        async with store.transaction() as transaction:
            await transaction.execute(f"delete from {prefix}dead")

    cli.store(corrupt)
    ran = cli("store", "check")
    assert (ran.code, ran.err, bool(ran.out)) == (1, "", True)


# Which store


def test_migrate_makes_a_store_and_may_be_repeated(sqlite_cli: Cli) -> None:
    for _ in range(2):
        ran = sqlite_cli("store", "migrate", store="sqlite:///new.db")
        assert ran.out.startswith("sqlite:///new.db has schema version ")
    assert sqlite_cli("submit", "k", store="sqlite:///new.db").code == 0


def test_a_file_that_is_not_there_or_empty_is_not_made(sqlite_cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    make = "`inturn store migrate --store sqlite:///{}`"
    for command in (("status",), ("submit", "k")):
        gone = sqlite_cli(*command, store="sqlite:///gone.db")
        assert (gone.code, gone.out) == (3, "")
        assert gone.err.startswith("inturn: the file gone.db is not there yet, or empty.")
        assert make.format("gone.db") in gone.err
        assert make.format("empty.db") in sqlite_cli(*command, store="sqlite:///empty.db").err
    assert not (tmp_path / "gone.db").exists()
    assert (tmp_path / "empty.db").stat().st_size == 0


def test_a_database_without_tables_says_to_migrate(sqlite_cli: Cli, postgres_url: str) -> None:
    with sqlite3.connect("other.db") as connection:
        connection.execute("create table mine (a)")
    connection.close()
    for url in ("sqlite:///other.db", postgres_url):
        ran = sqlite_cli("status", store=url)
        assert (ran.code, ran.out) == (3, "")
        assert "`inturn store migrate" in ran.err
        assert "no tables of inturn yet" in ran.err
        assert sqlite_cli("store", "migrate", store=url).code == 0
        assert sqlite_cli("status", store=url).code == 0


@pytest.mark.parametrize(
    ("store", "code", "said"),
    [
        ("sqlite:///:memory:", 2, "a store in memory ends with this command."),
        ("nonsense", 2, "is not the address of a store"),
        ("postgresql://nobody@localhost:1/x", 3, ""),
    ],
)
def test_a_store_that_cannot_be_used_is_explained(
    sqlite_cli: Cli, store: str, code: int, said: str
) -> None:
    ran = sqlite_cli("status", store=store)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert ran.err.startswith("inturn: ")


def test_without_a_store_both_ways_to_name_one_are_said(sqlite_cli: Cli) -> None:
    ran = sqlite_cli.bare("status")
    assert (ran.code, ran.out) == (2, "")
    for name in ("--app MODULE:APP", "--store URL", "INTURN_APP", "INTURN_STORE"):
        assert name in ran.err


APP = """
import inturn
print("imported")
app = inturn.App("sqlite:///shop.db")

@app.job(queue="tills", attempts=3, timeout=9.0)
async def pay(customer: int) -> None: ...
"""


def test_the_apps_store_is_used_and_another_that_is_named_comes_first(
    sqlite_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "till_app.py").write_text(APP)
    missing = sqlite_cli.bare("status", "-A", "till_app")
    assert (missing.code, "is made by the first job" in missing.err) == (3, True)
    ran = sqlite_cli.bare("submit", "pay", "--app", "till_app:app", "--payload", '{"customer": 7}')
    assert ran.code == 0, ran.err
    job = (
        Cli("sqlite:///shop.db", sqlite_cli._capsys)
        .store(lambda store: store.job(UUID(ran.out.strip())))
        .job
    )
    assert (job.queue, job.attempts_max, job.timeout_seconds) == ("tills", 3, 9.0)
    monkeypatch.setenv("INTURN_APP", "till_app:app")
    assert "Start one: `inturn work till_app:app`" in sqlite_cli.bare("status").out
    assert sqlite_cli.bare("status", "--json").document["queues"][0]["name"] == "tills"
    assert sqlite_cli.json("status")["queues"] == [], "--store comes before the app's own"
    monkeypatch.setenv("INTURN_STORE", sqlite_cli.url)
    assert sqlite_cli.bare("status", "--json").document["queues"] == []
    wrong = sqlite_cli.bare("submit", "payy", "-A", "till_app")
    assert (wrong.code, "has no job 'payy'. Did you mean pay?" in wrong.err) == (2, True)
    lost = sqlite_cli.bare("status", "-A", "no_such_app:app", "--store", "")
    assert (lost.code, "there is no module 'no_such_app'" in lost.err) == (2, True)
