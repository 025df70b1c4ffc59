"""Groups on both stores, with jobs of the app as actions."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from inturn import App, BadInput, Effect, GroupRefused, Reject, Worker, command
from inturn.groups import records
from inturn.groups.files import read_text
from inturn.groups.model import CONCURRENCY_DEFAULT, GroupState, Node, Step
from inturn.store.queries import statement
from tests.groups.conftest import SECONDS_MAX, Jobs, Nodes, states, until


async def test_a_group_needs_no_second_connection_while_it_holds_its_lock(
    migrated_url: str, nodes: Nodes
) -> None:
    """Else many steps that wait for the lock would keep whoever holds it from going on."""
    app = App(f"{migrated_url}{'&' if '?' in migrated_url else '?'}connections_max=1")
    jobs = Jobs(app, nodes)
    nodes.fail = {"do b": ["late"], "do c": [Reject("no")]}
    nodes.answers = {"b": [Effect.RUNNING]}
    async with app.group("narrow") as group:
        a = jobs.step(group, "a")
        b = jobs.step(group, "b", verified=True, after=[a])
        c = jobs.step(group, "c", after=[b])
        jobs.step(group, "d", after=[c])
    # The store would wait 30 s for a second connection.
    async with asyncio.timeout(20), jobs.working():
        assert (await group.result()).state is GroupState.UNDONE
    await app.close()


async def test_ends_of_steps_are_written_by_their_keys_in_a_young_table(postgres_url: str) -> None:
    """What PostgreSQL does not know of a table that was just filled must not have it read whole."""
    app = App(postgres_url)
    await app.migrate()
    jobs = Jobs(app, Nodes())
    async with app.group("wide") as group:
        for number in range(10_000):
            jobs.step(group, str(number))
    rows = [{"group_id": group.id, "number": number, "token": 1} for number in range(25)]
    ends = statement(records.STEPS_APPLIED, "postgres")
    given = ends.values(records.STEPS_APPLIED, {"rows": json.dumps(rows)})
    connection = await asyncpg.connect(postgres_url)
    found = await connection.fetch(f"explain {ends.text}", *given.values())
    await connection.close()
    await app.close()
    assert "step_pkey" in str(found), found


async def test_a_chain_across_nodes_runs_in_order(app: App, jobs: Jobs, nodes: Nodes) -> None:
    """A to B to C (000-02)."""
    async with app.group("chain") as group:
        a = jobs.step(group, "a", "n1")
        b = jobs.step(group, "b", "n2", after=[a])
        jobs.step(group, "c", "n3", after=[b])
    result = await jobs.result(group)
    assert result.state is GroupState.DONE
    assert nodes.done == ["do a", "do b", "do c"]


async def test_a_step_waits_for_every_step_it_comes_after(
    app: App, jobs: Jobs, nodes: Nodes
) -> None:
    """Whichever of them ends last (000-01)."""
    nodes.fail = {"do p1": [0.3], "do p2": [0.05]}
    async with app.group("barrier") as group:
        parallel = [jobs.step(group, name) for name in ("p1", "p2", "p3")]
        jobs.step(group, "last", after=parallel)
    result = await jobs.result(group)
    assert result.state is GroupState.DONE
    assert nodes.done[-1] == "do last"
    ends = [step.ended_at for step in result.steps[:3] if step.ended_at is not None]
    assert result.steps[3].began_at is not None
    assert result.steps[3].began_at >= max(ends)


async def test_what_depends_on_a_failed_step_never_runs_and_what_was_applied_is_undone(
    app: App, jobs: Jobs, nodes: Nodes
) -> None:
    """Transitively, in reverse order, by itself (000-03) (000-08) (000-09) (000-11) (000-20)."""
    nodes.fail = {"do c": [Reject("no room")]}
    async with app.group("failing") as group:
        a = jobs.step(group, "a", "n1")
        b = jobs.step(group, "b", "n2", after=[a])
        c = jobs.step(group, "c", "n3", after=[b])
        d = jobs.step(group, "d", "n1", after=[c])
        jobs.step(group, "e", "n2", after=[d])
    result = await jobs.result(group)
    assert result.state is GroupState.UNDONE
    assert nodes.done == ["do a", "do b", "do c", "undo b", "undo a"]
    assert states(result) == {
        "a": "undone", "b": "undone", "c": "not_applied", "d": "cancelled", "e": "cancelled",
    }  # fmt: skip
    assert "no room" in str(result.reason)
    assert nodes.there == set()
    counted = (await app.groups.get("failing")).percent
    assert counted == 100
    ended = {job.job.kind: job for job in (await (await app.lend()).jobs()).rows}
    assert ended["groups.advance"].state in ("done", "cancelled")


async def test_undo_goes_on_past_an_error_and_says_what_could_not_be_undone(
    app: App, jobs: Jobs, nodes: Nodes
) -> None:
    """As (000-08) says; a person retries one, and skips another (000-25)."""
    nodes.fail = {"do d": [Reject("no")]} | {f"undo {n}": [Reject("stuck")] for n in "bc"}
    async with app.group("stuck") as group:
        a = jobs.step(group, "a", "n1")
        b = jobs.step(group, "b", "n2", after=[a])
        c = jobs.step(group, "c", "n2", after=[a])
        jobs.step(group, "d", "n3", after=[b, c])
    result = await jobs.result(group)
    assert result.state is GroupState.STUCK
    assert sorted(result.not_undone) == ["b", "c"]
    assert "undo a" in nodes.done
    assert nodes.there == {"b", "c"}
    await app.groups.retry("stuck", "b")
    await app.groups.skip("stuck", "c", why="it was removed by hand")
    with pytest.raises(GroupRefused):
        await app.groups.skip("stuck", "a", why="no need")
    result = await jobs.result(group)
    assert result.state is GroupState.UNDONE
    assert result.not_undone == ("c",)
    assert states(result)["b"] == "undone"
    assert nodes.there == {"c"}


async def test_undo_covers_the_step_that_may_have_been_applied(
    app: App, jobs: Jobs, nodes: Nodes
) -> None:
    """The half-applied one, that failed (000-10)."""
    nodes.fail = {"do b": ["late"]}
    async with app.group("half") as group:
        a = jobs.step(group, "a")
        jobs.step(group, "b", after=[a])  # no verify: nobody can tell
    result = await jobs.result(group)
    assert result.state is GroupState.UNDONE
    assert nodes.done == ["do a", "do b", "undo b", "undo a"]
    assert nodes.there == set()


async def test_timed_out_but_applied_counts_as_done(app: App, jobs: Jobs, nodes: Nodes) -> None:
    """The verify says so, and nothing runs again (000-18)."""
    nodes.fail = {"do a": ["late"]}
    async with app.group("late") as group:
        jobs.step(group, "a", verified=True)
    result = await jobs.result(group)
    assert result.state is GroupState.DONE
    assert nodes.done == ["do a", "verify a"]
    assert result.steps[0].answer == "applied"


async def test_still_running_is_looked_at_again_and_uses_no_attempt(
    app: App, jobs: Jobs, nodes: Nodes
) -> None:
    """However long a sync takes (000-19)."""
    nodes.fail = {"do a": ["late"]}
    nodes.answers = {"a": [Effect.RUNNING, Effect.RUNNING]}
    async with app.group("sync") as group:
        jobs.step(group, "a", verified=True, attempts=1)
    result = await jobs.result(group)
    assert result.state is GroupState.DONE
    assert nodes.done == ["do a", "verify a", "verify a", "verify a"]
    assert result.steps[0].attempts == 1


async def test_what_is_not_applied_is_tried_again_with_an_attempt_used(
    app: App, jobs: Jobs, nodes: Nodes
) -> None:
    nodes.fail = {"do a": [OSError("away"), OSError("away")]}
    async with app.group("again") as group:
        jobs.step(group, "a", verified=True, attempts=3)
    result = await jobs.result(group)
    assert result.state is GroupState.DONE
    assert nodes.effects() == ["do a"] * 3
    assert result.steps[0].attempts == 3


async def test_a_step_whose_attempts_are_spent_fails(app: App, jobs: Jobs, nodes: Nodes) -> None:
    """A real failure fails (000-20)."""
    nodes.fail = {"do b": [OSError("away")] * 3}
    async with app.group("spent") as group:
        a = jobs.step(group, "a")
        jobs.step(group, "b", verified=True, after=[a])
    result = await jobs.result(group)
    assert result.state is GroupState.UNDONE
    assert states(result) == {"a": "undone", "b": "not_applied"}
    assert nodes.effects() == ["do a", "do b", "do b", "do b", "undo a"]


async def test_a_step_whose_worker_died_is_explained(app: App, jobs: Jobs, nodes: Nodes) -> None:
    """Nobody can tell how far it came, for it has no verify."""
    async with app.group("died") as group:
        jobs.step(group, "a")
    async with app.transaction() as t:
        begun = {"state": "running", "attempts": 1, "token": 0, "now": None}
        await t.run(records.BEGIN_STEP, id=group.id, number=0, **begun)
    said = await app.groups.explain("died", "a")
    assert "is running, attempt 1 of 3; if its worker dies, nobody can tell" in said
    assert "No living worker serves node 'n1': start one" in said
    result = await jobs.result(group)
    died = "its worker died, and nobody can tell how far it came"
    assert (result.state, result.reason) == ("undone", f"step 'a' failed: {died}")
    assert result.steps[0].error == died
    assert nodes.done == ["undo a"]


async def test_an_idempotent_step_is_tried_again_when_nobody_can_tell(
    app: App, jobs: Jobs, nodes: Nodes
) -> None:
    nodes.fail = {"do a": ["late"]}
    async with app.group("idempotent") as group:
        jobs.step(group, "a", idempotent=True)
    result = await jobs.result(group)
    assert result.state is GroupState.DONE
    assert nodes.done == ["do a", "do a"]


async def test_before_an_irreversible_step_what_it_comes_after_is_verified_once_more(
    app: App, jobs: Jobs, nodes: Nodes
) -> None:
    """The copy was lost meanwhile: the source is not dropped (000-16) (000-24)."""
    async with app.group("move") as group:
        copy = jobs.step(group, "copy", verified=True)
        jobs.step(group, "drop", irreversible=True, after=[copy])
    nodes.answers = {"copy": [Effect.NOT_APPLIED]}
    result = await jobs.result(group)
    assert result.state is GroupState.UNDONE
    assert "do drop" not in nodes.done
    assert states(result) == {"copy": "undone", "drop": "not_applied"}
    assert "'copy', which it comes after, is not applied" in str(result.reason)


async def test_past_an_irreversible_step_a_group_only_goes_forward(
    app: App, jobs: Jobs, nodes: Nodes
) -> None:
    """What fails then is stuck; a person retries it, and nothing was undone."""
    nodes.fail = {"do clean": [Reject("locked")]}
    async with app.group("pivot") as group:
        copy = jobs.step(group, "copy", verified=True)
        drop = jobs.step(group, "drop", irreversible=True, after=[copy])
        clean = jobs.step(group, "clean", after=[drop])
        jobs.step(group, "tell", after=[clean])
    result = await jobs.result(group)
    assert result.state is GroupState.STUCK
    assert states(result)["clean"] == "not_applied"
    with pytest.raises(GroupRefused, match="only goes forward"):
        await app.groups.undo("pivot")
    store = await app.lend()
    dead = [letter.job.id for letter in (await store.dead_letters()).rows]
    assert len(await store.dead_retry(dead)) == 1  # not the way: it is buried once more
    async with jobs.working():

        async def is_buried() -> bool:
            return bool((await store.dead_letters()).rows)

        await until(is_buried)
    assert nodes.effects() == ["do copy", "do drop", "do clean"]
    await app.groups.retry("pivot", "clean")
    result = await jobs.result(group)
    assert result.state is GroupState.DONE
    assert nodes.effects() == ["do copy", "do drop", "do clean", "do clean", "do tell"]
    assert result.reason is None


async def test_a_step_past_an_irreversible_one_can_be_skipped(
    app: App, jobs: Jobs, nodes: Nodes
) -> None:
    nodes.fail = {"do clean": [Reject("locked")]}
    async with app.group("skip") as group:
        drop = jobs.step(group, "drop", irreversible=True)
        clean = jobs.step(group, "clean", after=[drop])
        jobs.step(group, "tell", after=[clean])
    assert (await jobs.result(group)).state is GroupState.STUCK
    await app.groups.skip("skip", "clean", why="cleaned by hand")
    result = await jobs.result(group)
    assert result.state is GroupState.DONE
    assert states(result) == {"drop": "applied", "clean": "skipped", "tell": "applied"}
    assert result.steps[1].why == "cleaned by hand"


async def stuck_group(app: App, jobs: Jobs, nodes: Nodes) -> None:
    """Run a group that is stuck past an irreversible step, with two more behind it."""
    nodes.fail = {"do clean": [Reject("locked")]}
    async with app.group("stuck") as group:
        drop = jobs.step(group, "drop", irreversible=True)
        clean = jobs.step(group, "clean", after=[drop])
        tell = jobs.step(group, "tell", after=[clean])
        jobs.step(group, "last", after=[tell])
    assert (await jobs.result(group)).state is GroupState.STUCK


@pytest.mark.parametrize("verb", ["retry", "skip"])
async def test_a_stuck_group_goes_on_although_its_dead_letters_were_dropped(
    app: App, jobs: Jobs, nodes: Nodes, verb: str
) -> None:
    await stuck_group(app, jobs, nodes)
    store = await app.lend()
    async with jobs.working():
        while dead := (await store.dead_letters()).rows:
            await store.dead_drop([one.job.id for one in dead], by="a test")

        async def is_seen() -> bool:
            waiting = await store.jobs(queue="groups", finished=False)
            return all(one.state == "blocked" for one in waiting.rows)

        await until(is_seen)
        if verb == "retry":
            await app.groups.retry("stuck", "clean")
        else:
            await app.groups.skip("stuck", "clean", why="cleaned by hand")

        async def has_ended() -> bool:
            return (await app.groups.get("stuck")).state is GroupState.DONE

        await until(has_ended)
    skipped = ["do drop", "do clean", "do tell", "do last"]
    assert nodes.done == (skipped if verb == "skip" else [*skipped[:2], *skipped[1:]])
    assert (await store.dead_letters()).rows == ()


async def test_a_step_is_retried_without_what_comes_after_it(
    app: App, jobs: Jobs, nodes: Nodes
) -> None:
    await stuck_group(app, jobs, nodes)
    await app.groups.retry("stuck", "clean", following=False)
    async with jobs.working():

        async def is_applied() -> bool:
            return (await app.groups.steps("stuck"))[1].state == "applied"

        await until(is_applied)
        await asyncio.sleep(0.3)
        assert nodes.done == ["do drop", "do clean", "do clean"]
        assert (await app.groups.get("stuck")).paused_by == "retry of clean"
        await app.groups.resume("stuck")

        async def has_ended() -> bool:
            return (await app.groups.get("stuck")).state is GroupState.DONE

        await until(has_ended)
    with pytest.raises(GroupRefused, match="is done, and not paused"):
        await app.groups.resume("stuck")


async def test_an_undo_is_retried_although_its_group_is_paused_for_others(
    app: App, jobs: Jobs, nodes: Nodes
) -> None:
    nodes.fail = {"do b": [Reject("no")], "undo a": [Reject("stuck")]}
    async with app.group("back") as group:
        jobs.step(group, "b", after=[jobs.step(group, "a")])
    assert (await jobs.result(group)).state is GroupState.STUCK
    await app.groups.retry("back", "a", following=False)
    assert (await jobs.result(group)).state is GroupState.UNDONE


async def test_a_done_group_is_undone_when_a_person_asks(
    app: App, jobs: Jobs, nodes: Nodes
) -> None:
    async with app.group("done") as group:
        a = jobs.step(group, "a")
        jobs.step(group, "b", after=[a])
    assert (await jobs.result(group)).state is GroupState.DONE
    await app.groups.undo("done", why="it was a test")
    result = await jobs.result(group)
    assert result.state is GroupState.UNDONE
    assert nodes.done == ["do a", "do b", "undo b", "undo a"]
    assert result.reason == "it was a test"


async def test_a_group_that_runs_is_undone_when_a_person_asks(
    app: App, jobs: Jobs, nodes: Nodes
) -> None:
    nodes.fail = {"do b": [1.0]}
    async with app.group("asked") as group:
        a = jobs.step(group, "a")
        b = jobs.step(group, "b", after=[a])
        jobs.step(group, "c", after=[b])
    async with jobs.working():
        await until(lambda: "do b" in nodes.done)
        await app.groups.undo("asked")
        result = await group.result(timeout=SECONDS_MAX)
    assert result.state is GroupState.UNDONE
    assert nodes.done == ["do a", "do b", "undo b", "undo a"]  # b was waited for


async def test_a_paused_group_waits_and_goes_on(app: App, jobs: Jobs, nodes: Nodes) -> None:
    async with app.group("paused") as group:
        a = jobs.step(group, "a")
        jobs.step(group, "b", after=[a])
    await app.groups.pause("paused", by="a test")
    async with jobs.working():
        await asyncio.sleep(0.3)
        assert nodes.done == []
        assert (await app.groups.get("paused")).paused_by == "a test"
        await app.groups.resume("paused")
        result = await group.result(timeout=SECONDS_MAX)
    assert result.state is GroupState.DONE


async def test_a_dead_step_and_a_slow_node_stop_their_own_group_only(
    app: App, jobs: Jobs, nodes: Nodes
) -> None:
    """Others use the node meanwhile, and nobody waits behind an abandoned group (000-26)."""
    nodes.fail = {"do a1": [Reject("no")], "undo a0": [Reject("no")]}
    async with app.group("broken") as broken:
        a0 = jobs.step(broken, "a0", "n1")
        jobs.step(broken, "a1", "n1", after=[a0])
    assert (await jobs.result(broken)).state is GroupState.STUCK
    async with app.group("other") as other:
        jobs.step(other, "b", "n1")
    assert (await jobs.result(other)).state is GroupState.DONE


async def test_a_node_that_hangs_leaves_others_their_turn(app: App, jobs: Jobs) -> None:
    """Its steps take no more of a worker's slots than it may run at once (000-26)."""
    hang = asyncio.Event()

    @app.job
    async def wait() -> None:
        await hang.wait()

    async with app.group("hung") as hung:
        for number in range(30):
            hung.step(str(number), node="n1", do=wait.call(), irreversible=True)
    async with jobs.working(concurrency=20):

        async def is_full() -> bool:
            rows = await app.groups.of_node("n1")
            return sum(row.state == "running" for row in rows) == CONCURRENCY_DEFAULT

        await until(is_full)
        async with app.group("other") as other:
            jobs.step(other, "b", "n2")
        assert (await other.result(timeout=SECONDS_MAX)).state is GroupState.DONE
        assert (await app.groups.get("hung")).state is GroupState.RUNNING
        hang.set()
        assert (await hung.result(timeout=SECONDS_MAX)).state is GroupState.DONE


async def test_a_dead_step_of_an_undone_group_does_nothing_when_it_is_retried(
    app: App, jobs: Jobs, nodes: Nodes
) -> None:
    nodes.fail = {"do b": [Reject("no")]}
    async with app.group("retried") as group:
        a = jobs.step(group, "a")
        jobs.step(group, "b", after=[a])
    assert (await jobs.result(group)).state is GroupState.UNDONE
    before = list(nodes.done)
    store = await app.lend()
    [letter] = (await store.dead_letters()).rows
    await store.dead_retry([letter.job.id])
    async with jobs.working():

        async def is_done() -> bool:
            return (await store.job(letter.job.id)).state == "done"

        await until(is_done)
    assert nodes.done == before
    assert "undone" in str(await store.result(letter.job.id))


async def test_a_step_whose_job_a_person_cancels_stops_its_group(
    app: App, jobs: Jobs, nodes: Nodes
) -> None:
    """However a step's job ended, the group hears of it (000-25)."""
    async with app.group("cancelled") as group:
        a = jobs.step(group, "a")
        b = jobs.step(group, "b", after=[a])
        jobs.step(group, "c", after=[b])
    steps = await app.groups.steps("cancelled")
    await (await app.lend()).cancel(UUID(steps[1].job), by="a test")
    result = await jobs.result(group)
    assert result.state is GroupState.UNDONE
    assert nodes.there == set()


async def test_two_workers_for_one_node_run_a_step_once(app: App, jobs: Jobs, nodes: Nodes) -> None:
    """As (000-22) says."""
    async with app.group("twice") as group:
        first = [jobs.step(group, f"a{number}") for number in range(20)]
        for number in range(20):
            jobs.step(group, f"b{number}", after=first)
    async with jobs.working(), jobs.working():
        result = await group.result(timeout=SECONDS_MAX)
    assert result.state is GroupState.DONE
    assert len(nodes.done) == len(set(nodes.done)) == 40


async def test_a_group_whose_block_fails_is_never_stored(app: App, jobs: Jobs) -> None:
    """Nothing of it runs before it is committed whole (000-13) (000-14)."""

    async def begin() -> None:
        async with app.group("broken off") as group:
            jobs.step(group, "a")
            raise RuntimeError("its producer fails")

    with pytest.raises(RuntimeError):
        await begin()
    assert await app.groups.list() == []
    assert (await (await app.lend()).jobs()).rows == ()


async def test_a_group_whose_submitter_is_killed_leaves_nothing(
    app: App, jobs: Jobs, nodes: Nodes
) -> None:
    """With all of it written, and not committed; nothing of it runs (000-13) (000-14)."""
    await app.migrate()
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "tests.groups.dying_submitter"],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"INTURN_STORE": app.url},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    async with app.group("other") as group:  # the name, the node, the queue are not held up
        jobs.step(group, "a")
    assert (await jobs.result(group)).state is GroupState.DONE
    assert [one.name for one in await app.groups.list()] == ["other"]
    assert nodes.done == ["do a"]


async def test_a_name_stands_for_one_group_that_is_under_way(app: App, jobs: Jobs) -> None:
    async with app.group("mine") as group:
        jobs.step(group, "a")
    again = app.group("mine")
    jobs.step(again, "a")
    with pytest.raises(BadInput, match="'mine' is running"):
        await again.submit()
    await jobs.result(group)
    async with app.group("mine") as again:
        jobs.step(again, "a")
    assert again.id != group.id


async def test_what_is_refused_leaves_the_queues_of_nodes_as_they_are(app: App, jobs: Jobs) -> None:
    async with app.group("mine") as group:
        jobs.step(group, "a")
    nodes = {"n1": Node(name="n1", concurrency=7)}
    with pytest.raises(BadInput, match="'mine' is running"):
        await app.groups.submit(group.definition(), nodes=nodes)
    assert (await (await app.lend()).settings())["node:n1"].running_max == CONCURRENCY_DEFAULT
    assert (await jobs.result(group)).state is GroupState.DONE


async def test_a_worker_serves_nodes_that_came_after_it_began(app: App) -> None:
    """Also the first of the store, which has not had the tables of groups before."""
    early = App(app.url)
    worker = Worker(early, sweep_seconds=0.1)
    working = asyncio.create_task(worker.run())

    async def has_begun() -> bool:
        return bool(await early.run(lambda store: store.workers()))

    await until(has_begun)
    app.node("new")
    step = Step(name="a", node="new", do=command("true"), attempts=1, undo_attempts=1)
    [said] = await app.groups.unserved([step])
    assert said.startswith("No living worker serves node 'new' yet; one of all queues will within")
    async with app.group("first") as group:
        group.step("a", node="new", do=command("true"), irreversible=True)
    assert (await group.result(timeout=SECONDS_MAX)).state is GroupState.DONE
    worker.stop()
    await working
    await early.close()


MOVED = "{group: third, steps: {a: {node: moved, do: {run: [x]}, irreversible: true}}}"


async def test_a_node_keeps_its_address_while_a_group_uses_it(
    app: App, jobs: Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that declares another one works on; what is paused or stuck holds no address."""
    app.node("moved", "sqlite:///here.db")
    async with app.group("user") as group:
        jobs.step(group, "a", "moved")
    later = App(app.url)
    later.node("moved", "sqlite:///there.db")
    late = Jobs(later, Nodes())
    again = later.group("again")
    late.step(again, "a", "moved")
    with pytest.raises(BadInput, match="has another address in this store, which group 'user'"):
        await again.submit()
    worker = Worker(later, sweep_seconds=0.5)  # it works on all the same, where the group is
    working = asyncio.create_task(worker.run())
    assert (await jobs.result(group)).state is GroupState.DONE
    worker.stop()
    await working
    assert [node.address for node in (await app.groups.rows_of("user"))[2]] == ["sqlite:///here.db"]
    assert "node 'moved' keeps the address it has in the store, for group 'user'" in caplog.text
    await again.submit()
    await later.groups.pause("again")
    last = App(app.url)
    last.node("moved", "sqlite:///elsewhere.db")
    await app.groups.submit(read_text(MOVED).definition, nodes=last.groups.nodes)
    assert (await app.groups.rows_of("again"))[2][0].address == "sqlite:///elsewhere.db"
    await later.close()
    await last.close()


async def test_a_worker_without_the_job_of_a_step_leaves_it_to_others(
    app: App, jobs: Jobs, nodes: Nodes
) -> None:
    other = App(app.url)
    other.node("n1")
    async with app.group("elsewhere") as group:
        jobs.step(group, "a", "n1")
    worker = Worker(other, sweep_seconds=0.5)
    running = asyncio.create_task(worker.run())

    async def is_left() -> bool:
        return "No living worker has the job 'do'" in await app.groups.explain("elsewhere", "a")

    await until(is_left)
    assert nodes.done == []
    assert (await jobs.result(group)).state is GroupState.DONE
    assert nodes.done == ["do a"]
    assert (await app.groups.steps("elsewhere"))[0].attempts == 1
    worker.stop()
    await running
    await other.close()


async def test_a_local_node_is_served_by_workers_that_name_it(
    app: App, jobs: Jobs, nodes: Nodes
) -> None:
    app.node("disk", local=True)
    async with app.group("local") as group:
        jobs.step(group, "a", "disk")
    async with jobs.working():
        await asyncio.sleep(0.5)
        assert nodes.done == []
        assert "disk" in await app.groups.explain("local", "a")
        async with jobs.working(nodes=["disk"]):
            result = await group.result(timeout=SECONDS_MAX)
    assert result.state is GroupState.DONE


async def test_a_node_runs_as_many_steps_at_once_as_it_may(app: App, jobs: Jobs) -> None:
    running = most = 0

    @app.job
    async def busy() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.05)
        running -= 1

    app.node("small", concurrency=2)
    async with app.group("busy") as group:
        for number in range(12):
            group.step(str(number), node="small", do=busy.call(), undo=busy.call())
    async with jobs.working(), jobs.working():
        assert (await group.result(timeout=SECONDS_MAX)).state is GroupState.DONE
    assert most == 2


async def test_what_can_be_asked_about_groups(app: App, jobs: Jobs, nodes: Nodes) -> None:
    """Depth, durations, failures, a chain and percent (000-27)."""
    nodes.fail = {"do b": [Reject("no")]}
    async with app.group("first") as group:
        a = jobs.step(group, "a", "n1")
        b = jobs.step(group, "b", "n2", after=[a])
        jobs.step(group, "c", "n2", after=[b])
    assert await app.groups.depth_by_node() == {"n1": 1, "n2": 2}
    assert [step.name for step in await app.groups.pending()] == ["a", "b", "c"]
    assert [step.name for step in await app.groups.of_node("n2")] == ["b", "c"]
    assert [step.name for step in await app.groups.chain("first", "c")] == ["a", "b", "c"]
    assert (await app.groups.get("first")).percent == 0
    assert await app.groups.mean_seconds() is None
    await jobs.result(group)
    assert await app.groups.depth_by_node() == {}
    assert await app.groups.mean_seconds() is not None
    assert await app.groups.failure_rate() == 0.5
