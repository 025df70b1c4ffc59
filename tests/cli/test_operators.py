"""Commands that change something: each does what its verb promises, says so, and once."""

from __future__ import annotations

from uuid import UUID

import pytest

from inturn.model.job import JobState, NewJob
from inturn.model.lane import LaneState, LaneView, OnDead, QueueSettings, QueueStatus
from inturn.policy.verdict import Done
from inturn.store.protocol import Store
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
        ("retry", "Lane 'c-7' runs job {} again.\n", JobState.WAITING),
        ("skip", "Lane 'c-7' goes on; job {} stays a dead letter.\n", JobState.DEAD),
        ("drop", "Lane 'c-7' goes on; job {} is cancelled.\n", JobState.CANCELLED),
    ],
)
def test_a_halted_lane_is_led_on(cli: Cli, verb: str, said: str, becomes: JobState) -> None:
    first, *_ = cli.store(halt_lane)
    ran = cli("lanes", verb, "orders", "c-7")
    assert (ran.code, ran.out, ran.err) == (0, said.format(first), "")
    assert state(cli, first) is becomes
    assert lane(cli).state is LaneState.READY
    again = cli("lanes", verb, "orders", "c-7")
    assert (again.code, again.out) == (1, "")
    assert "is not halted" in again.err
    missing = cli("lanes", verb, "orders", "c-9")
    assert (missing.code, missing.out) == (1, "")
    assert missing.err.startswith("inturn: queue 'orders' has no lane 'c-9'.\n")


def test_a_lane_is_led_on_with_a_document(sqlite_cli: Cli) -> None:
    first, *_ = sqlite_cli.store(halt_lane)
    document = sqlite_cli.json("lanes", "drop", "orders", "c-7", "--by", "ann")
    assert document == {"queue": "orders", "key": "c-7", "job": str(first)}
    assert sqlite_cli.store(lambda store: store.job(first)).cancelled_by == "ann"


def test_a_lane_is_paused_and_resumed(cli: Cli) -> None:
    cli.store(lambda store: store.enqueue([NewJob(kind="k", queue="orders", key="c-7")]))
    said = cli("lanes", "pause", "orders", "c-7", "--by", "ann").out
    assert said == "Lane 'c-7' of queue 'orders' is paused by ann.\n"
    assert lane(cli).paused_by == "ann"
    document = cli.json("lanes", "resume", "orders", "c-7")
    assert document == {"queue": "orders", "key": "c-7", "paused_by": None}
    assert lane(cli).state is LaneState.READY
    cli("lanes", "pause", "orders", "c-7", "--by", "ann")
    resume = ("lanes", "resume", "orders", "c-7")
    assert cli(*resume).out == "Lane 'c-7' of queue 'orders' goes on.\n"
    assert cli(*resume).out == "Lane 'c-7' of queue 'orders' was not paused.\n"


def test_who_pauses_is_the_user_at_this_machine(
    sqlite_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "bo")
    monkeypatch.setattr("socket.gethostname", lambda: "ship")
    sqlite_cli.store(lambda store: store.enqueue([NewJob(kind="k", queue="q")]))
    assert sqlite_cli.json("queues", "pause", "q")["paused_by"] == "bo@ship"
    assert queue(sqlite_cli, "q").paused_by == "bo@ship"


def test_a_queue_is_paused_and_resumed(cli: Cli) -> None:
    cli.store(lambda store: store.enqueue([NewJob(kind="k", queue="q")]))
    assert cli("queues", "pause", "q", "--by", "ann").out == "Queue 'q' is paused by ann.\n"
    assert queue(cli, "q").paused_by == "ann"
    assert cli("queues", "list").lines[1].endswith("ann")
    assert cli("queues", "resume", "q").out == "Queue 'q' goes on.\n"
    assert cli("queues", "resume", "q").out == "Queue 'q' was not paused.\n"
    assert queue(cli, "q").paused_by is None


def test_configure_changes_what_is_named_and_nothing_else(cli: Cli) -> None:
    made = cli.json("queues", "configure", "q", "--on-dead", "halt", "--depth-max", "50")
    assert (made["queue"], made["on_dead"], made["depth_max"]) == ("q", "halt", 50)
    arguments = ("--depth-max", "none", "--lane-depth-max", "7", "--aging-seconds", "60")
    cli.json("queues", "configure", "q", *arguments)
    assert queue(cli, "q").settings == QueueSettings(
        on_dead=OnDead.HALT, depth_max=None, lane_depth_max=7, aging_seconds=60.0
    )
    cli.json("queues", "configure", "q", "--keep-done-seconds", "2h", "--aging-seconds", "1m30s")
    settings = queue(cli, "q").settings
    assert (settings.keep_done_seconds, settings.aging_seconds) == (7_200.0, 90.0)
    said = cli("queues", "configure", "q", "--keep-done-seconds", "30d").out
    assert "keep done       30d\naging           1m30s\n" in said
    assert "  30d  1m30s  " in cli("queues", "list").out
    assert "lane depth max  7\n" in cli("queues", "configure", "q").out
    assert queue(cli, "q").settings.lane_depth_max == 7


def test_a_gate_is_opened_and_advanced(cli: Cli) -> None:
    jobs = [NewJob(kind="k", queue="walk", round=round) for round in (0, 1, 4)]
    cli.store(lambda store: store.enqueue(jobs))
    stays = cli("queues", "advance-gate", "walk")
    assert (stays.code, stays.err) == (1, "")
    assert stays.out.endswith("as far as round 0: 1 job of the open rounds unfinished.\n")
    assert cli.json("queues", "open-gate", "walk", "1") == {"queue": "walk", "round": 1}
    cli.store(lambda store: settle_next(store, "walk", Done(), Done()))
    assert cli("queues", "advance-gate", "walk").out.endswith("as far as round 4 now.\n")
    cli.store(lambda store: settle_next(store, "walk", Done()))
    over = cli("queues", "advance-gate", "walk", "--json")
    assert over.code == 1
    assert over.document == {
        "queue": "walk",
        "round": 4,
        "advanced": False,
        "unfinished": 0,
        "exhausted": True,
    }


def test_a_job_is_cancelled_unless_it_is_too_late(cli: Cli) -> None:
    waiting, running = NewJob(kind="k", queue="a"), NewJob(kind="k", queue="b")
    cli.store(lambda store: store.enqueue([waiting, running]))
    cli.store(lambda store: store.claim("b", jobs_max=1, worker="w1"))
    [dead] = cli.store(lambda store: bury(store, 1))
    assert cli("jobs", "cancel", str(waiting.id), "--by", "ann").code == 0
    assert cli.store(lambda store: store.job(waiting.id)).cancelled_by == "ann"
    assert cli.json("jobs", "cancel", str(waiting.id))["state"] == "cancelled"
    for id, became, hint in (
        (running.id, "running", f"`inturn jobs show {running.id}`"),
        (dead, "dead", f"`inturn dead drop {dead}`"),
    ):
        late = cli("jobs", "cancel", str(id), "--json")
        assert (late.code, late.document) == (1, {"job": str(id), "state": became})
        assert late.err.startswith(f"inturn: too late to cancel job {id}.\n")
        assert hint in late.err


@pytest.mark.parametrize(
    ("verb", "said", "becomes"),
    [
        ("retry", "put back", JobState.WAITING),
        ("drop", "dropped", JobState.CANCELLED),
    ],
)
def test_dead_letters_are_decided_by_id_once(
    cli: Cli, verb: str, said: str, becomes: JobState
) -> None:
    one, two, other = cli.store(lambda store: bury(store, 3))
    ran = cli("dead", verb, str(one), str(two), str(one))
    assert (ran.code, ran.out, ran.err) == (0, f"2 dead letters {said}.\n", "")
    assert [state(cli, job) for job in (one, two, other)] == [becomes, becomes, JobState.DEAD]
    again = cli("dead", verb, str(one), str(NOWHERE))
    assert (again.code, again.out) == (1, f"0 dead letters {said}.\n")
    assert [line.split()[1] for line in again.err.splitlines()] == [str(NOWHERE), str(one)]


def test_dead_letters_are_decided_all_together_by_filter(cli: Cli) -> None:
    mails = cli.store(lambda store: bury(store, 3))
    texts = cli.store(lambda store: bury(store, 2, kind="text"))
    orders = cli.store(lambda store: bury(store, 1, queue="orders"))
    arguments = ("--all", "--queue", "mail", "--kind", "send", "--yes")
    document = cli.json("dead", "retry", *arguments)
    assert sorted(map(UUID, document["retried"])) == mails
    assert document["not_dead"] == []
    assert {state(cli, job) for job in texts + orders} == {JobState.DEAD}
    assert cli("dead", "drop", "--all", "-y").out == "3 dead letters dropped.\n"
    assert {state(cli, job) for job in texts + orders} == {JobState.CANCELLED}
    assert cli("dead", "drop", "--all", "-y").out == "0 dead letters dropped.\n"


def test_more_dead_letters_than_a_page_are_decided(
    sqlite_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqlite_cli.store(lambda store: bury(store, 7))
    monkeypatch.setattr("inturn.model.bounds.PAGE_ROWS_MAX", 3)
    assert sqlite_cli("dead", "retry", "--all", "--yes").out == "7 dead letters put back.\n"
    assert queue(sqlite_cli, "mail").dead == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name the ids of jobs, or pass --all, and not both."),
        ((str(NOWHERE), "--all", "--yes"), "name the ids of jobs, or pass --all, and not both."),
        ((str(NOWHERE), "--queue", "mail"), "--queue, --kind and --key go with --all"),
        (("--all",), "--all asks before it acts, and nobody is there to ask. Pass --yes."),
    ],
)
@pytest.mark.parametrize("verb", ["retry", "drop"])
def test_dead_letters_are_not_decided_by_accident(
    sqlite_cli: Cli, verb: str, arguments: tuple[str, ...], said: str
) -> None:
    sqlite_cli.store(lambda store: bury(store, 1))
    ran = sqlite_cli("dead", verb, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"inturn: {said}")
    assert queue(sqlite_cli, "mail").dead == 1


def test_a_store_is_pruned(cli: Cli) -> None:
    async def seed(store: Store) -> None:
        await store.configure("q", QueueSettings(keep_done_seconds=0.0))
        await store.enqueue([NewJob(kind="k", queue="q", key="c-7") for _ in range(2)])
        await settle_next(store, "q", Done(), Done())

    cli.store(seed)
    ran = cli("store", "prune")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Took away 2 done jobs")
    assert cli.json("jobs", "list")["jobs"] == []
    pruned = cli.json("store", "prune")
    assert (pruned["jobs"], set(pruned) > {"lanes", "results"}) == (0, True)


def test_a_sound_store_has_nothing_wrong(cli: Cli) -> None:
    cli.store(halt_lane)
    ran = cli("store", "check")
    assert (ran.code, ran.out, ran.err) == (0, "Nothing wrong.\n", "")
    assert cli.json("store", "check") == {"problems": []}


def test_a_broken_store_is_told_and_leaves_with_1(cli: Cli) -> None:
    cli.store(halt_lane)

    async def corrupt(store: Store) -> None:
        prefix = "inturn." if cli.url.startswith("postgresql") else ""
        async with store.transaction() as transaction:
            await transaction.execute(f"delete from {prefix}dead")

    cli.store(corrupt)
    ran = cli("store", "check")
    assert (ran.code, ran.err) == (1, "")
    assert len(ran.lines) >= 1
    told = cli("store", "check", "--json")
    assert (told.code, told.document) == (1, {"problems": ran.lines})


def test_migrate_makes_a_store_that_can_be_used_and_may_be_repeated(sqlite_cli: Cli) -> None:
    url = "sqlite:///new.db"
    for _ in range(2):
        ran = sqlite_cli("store", "migrate", store=url)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith("sqlite:///new.db has schema version ")
    assert sqlite_cli("submit", "k", store=url).code == 0
