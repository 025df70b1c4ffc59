"""The groups of an app: nodes, submitting, looking, and what a person does to a group."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

from inturn.groups import decide, records
from inturn.groups.begins import Begins
from inturn.groups.build import check_nodes
from inturn.groups.decide import Turn
from inturn.groups.errors import GroupRefused, UnknownGroup, UnknownStep
from inturn.groups.explain import explained
from inturn.groups.forward import StepAttempt, UndoAttempt, save_group
from inturn.groups.group import Group
from inturn.groups.model import (
    CONCURRENCY_MAX,
    Definition,
    GroupState,
    GroupView,
    JobCall,
    Node,
    Step,
    StepView,
)
from inturn.groups.plan import chain, in_order
from inturn.groups.records import SCHEMA, GroupRow, StepRow, new_step
from inturn.groups.whole import (
    QUEUE,
    STEP,
    TURN,
    UNDO,
    carry_out,
    kind_of,
    look,
    queue_of,
    step_job,
    watching,
)
from inturn.model import bounds
from inturn.model.admissible import check_by, check_name, check_whole
from inturn.model.errors import BadInput, UnknownJob
from inturn.model.ids import new_id
from inturn.model.job import NewJob
from inturn.queue.app import App
from inturn.queue.context import Context
from inturn.queue.extensions import Extension
from inturn.queue.job import Call
from inturn.queue.transaction import AppTransaction
from inturn.store.queries import Query, Row
from inturn.store.store import Store

KEEP_SECONDS = 30 * 86_400.0  # how long a group that has ended stays readable
PRUNE_SECONDS = 600.0
PRUNED_GROUPS_MAX = 100  # at once
ROWS_MAX = 10_000


class Groups(Extension):
    """The groups of an app: ``app.groups``."""

    has_nodes = True

    def __init__(self, app: App) -> None:
        super().__init__(app)
        self.nodes: dict[str, Node] = {}
        self._begins_of: WeakKeyDictionary[asyncio.AbstractEventLoop, Begins] = WeakKeyDictionary()
        app.schema(SCHEMA)
        app.queue(QUEUE, suspects="again")

        async def turn(ctx: Context, group: str) -> None:
            await look(app, ctx, group)

        app.job(kind=TURN, queue=QUEUE, attempts=bounds.ATTEMPTS_MAX)(turn)
        self._declare()
        app.on_start(self._write_nodes)
        app.duty("groups.prune", _prune, every_seconds=PRUNE_SECONDS)

    def worker_begins(self) -> None:
        """Take the steps that call a job of this app, whose jobs are all declared by now."""
        for called in [*self.app.jobs]:
            if not called.startswith("groups."):
                self._declare(called)

    def _declare(self, called: str | None = None) -> None:
        """Declare the jobs of steps, and of their undos, that call a job, or none."""
        app = self.app

        async def step(
            ctx: Context, group: str, number: int, needs: tuple[str, ...] = ()
        ) -> str | None:
            return await StepAttempt(app, ctx, group, number).run_plainly(self._begins(), needs)

        async def undo(
            ctx: Context, group: str, number: int, needs: tuple[str, ...] = ()
        ) -> str | None:
            return await UndoAttempt(app, ctx, group, number).run()

        for kind, function in ((STEP, step), (UNDO, undo)):
            name = kind if called is None else kind_of(kind, called)
            if name not in app.jobs and len(name) <= bounds.KIND_CHARS_MAX:
                app.job(kind=name, queue=QUEUE, attempts=bounds.ATTEMPTS_MAX)(function)

    # Declaring and submitting

    def node(
        self,
        name: str,
        address: str | None = None,
        *,
        concurrency: int | None = None,
        local: bool = False,
    ) -> Node:
        """Declare a node: ``app.node("pg1", "postgresql://…", concurrency=2)``.

        Without an address where only jobs of the app run there. ``${NAME}`` in an address is read
        from the environment where the worker runs, ``${file:/path}`` from a file. ``concurrency``:
        how many steps run there at once, over all workers. ``local``: only workers that were
        started for it, ``inturn work --node NAME``, serve it.
        """
        check_name("node", name, bounds.QUEUE_CHARS_MAX - len(queue_of("")))
        if concurrency is not None:
            check_whole("concurrency", concurrency, 1, CONCURRENCY_MAX)
        node = Node(name=name, address=address, concurrency=concurrency, local=local)
        if self.nodes.setdefault(name, node) != node:
            raise BadInput(f"node {name!r} is declared twice, and not alike: rename one.")
        self.app.queue(queue_of(name), running_max=concurrency, local=local, suspects="again")
        return node

    def group(self, name: str) -> Group:
        """Begin a group: ``async with app.group("move-users-3") as group``."""
        return Group(self, name)

    async def submit(
        self, definition: Definition, *, nodes: Mapping[str, Node] | None = None
    ) -> str:
        """Accept a group whole, in one transaction, and return its id."""
        declared = self.nodes | dict(nodes or {})
        used = {step.node for step in definition.steps}
        await self._ready()
        known = {node.name: node for node in await self.read(records.NODES)}
        mine = {name: node for name, node in declared.items() if name in used}
        check_nodes(definition, known | declared)
        if nodes:
            settings = {
                queue_of(name): {
                    "running_max": node.concurrency,
                    "local": node.local,
                    "suspects": "again",
                }
                for name, node in mine.items()
                if name in nodes
            }
            await self.app.run(lambda store: store.declare(settings))
        group = str(new_id())
        finish, react = new_id(), new_id()
        after = [step.after for step in definition.steps]
        # Smaller ids go first where jobs are cancelled, and who waits for others must.
        ids = {number: new_id() for number in reversed(in_order(after))}
        awaited = {before for befores in after for before in befores}
        jobs = [
            step_job(
                STEP,
                group,
                number,
                step,
                step.do,
                after=frozenset(ids[before] for before in step.after),
                id=ids[number],
            )
            for number, step in enumerate(definition.steps)
        ]
        jobs += watching(
            group,
            finish,
            react,
            (id for number, id in ids.items() if number not in awaited),
            ids.values(),
        )
        async with self.app.transaction() as t:
            await self._put_nodes(t, mine)
            await self._check_name(t, definition.name)
            await t.run(
                records.ADD_GROUP,
                id=group,
                name=definition.name,
                steps=len(definition.steps),
                finish=str(finish),
                react=str(react),
                now=None,
            )
            await t.run_many(
                records.ADD_STEPS,
                [
                    new_step(group, number, step, str(ids[number]))
                    for number, step in enumerate(definition.steps)
                ],
            )
            await t.submit_many([Call(job, None, self.app) for job in jobs])
        return group

    async def _check_name(self, t: AppTransaction, name: str) -> None:
        for row in await t.run(records.NEWEST_GROUP, name=name):
            if row.state not in (GroupState.DONE, GroupState.UNDONE):
                raise BadInput(
                    f"group {name!r} is {row.state} since {row.created_at:%Y-%m-%d %H:%M}: a name "
                    f"stands for one group that is under way. Name this one otherwise."
                )

    async def _put_nodes(self, t: AppTransaction, nodes: Mapping[str, Node]) -> None:
        known = {node.name: node for node in await t.run(records.NODES)}
        for name, node in nodes.items():
            before = known.get(name)
            if before == node:
                continue
            if before is not None and before.address != node.address:
                for user in await t.run(records.NODE_USER, name=name):
                    raise BadInput(
                        f"node {name!r} has another address in this store, which group "
                        f"{user.name!r} uses and is {user.state}. Wait until that has ended, or "
                        f"name the new node otherwise."
                    )
            await t.run(
                records.PUT_NODE,
                name=name,
                address=node.address,
                concurrency=node.concurrency,
                local=node.local,
            )

    async def _write_nodes(self) -> None:
        """As a worker starts: write down the nodes that its app declares."""
        if self.nodes:
            await self._ready()
            async with self.app.transaction() as t:
                await self._put_nodes(t, self.nodes)

    def _begins(self) -> Begins:
        """Return what writes down the beginnings of steps on this loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._begins_of:
            self._begins_of[loop] = Begins(self.app)
        return self._begins_of[loop]

    async def _ready(self) -> None:
        await self.app.run(lambda store: store.ensure(SCHEMA))

    # Looking

    async def read(self, query: Query[Row], **parameters: Any) -> list[Row]:
        """Run a query that only reads."""
        await self._ready()
        return await self.app.run(lambda store: store.read(query, **parameters))

    async def row(self, group: str) -> GroupRow:
        """Return a group by its id, or by its name: the newest of that name."""
        found = await self.read(records.GROUP, id=group) if _is_id(group) else []
        found = found or await self.read(records.NEWEST_GROUP, name=group)
        if not found:
            raise UnknownGroup(group)
        return found[0]

    async def get(self, group: str) -> GroupView:
        """Return a group by its name (the newest) or its id."""
        row = await self.row(group)
        [counted] = await self.read(records.ENDED_STEPS, id=row.id)
        return row.view(counted.ended)

    async def list(
        self, *, state: GroupState | None = None, before: str = "", rows_max: int = 100
    ) -> list[GroupView]:
        """Return groups, the newest first. ``before``: those older than the one of this id."""
        rows = await self.read(records.GROUPS, state=state or "", before=before, rows_max=rows_max)
        return [row.view(row.ended) for row in rows]

    async def steps(self, group: str) -> Sequence[StepView]:
        """Return the steps of a group, in the order in which they were defined."""
        row = await self.row(group)
        rows = await self.read(records.STEPS, id=row.id)
        names = {step.number: step.name for step in rows}
        return [step.view(names) for step in rows]

    async def rows_of(self, group: str) -> tuple[GroupRow, Sequence[StepRow], Sequence[Node]]:
        """Return a group with its steps and nodes, as they are kept."""
        row = await self.row(group)
        steps = await self.read(records.STEPS, id=row.id)
        return row, steps, await self.read(records.NODES_OF_GROUP, id=row.id)

    async def pending(self, *, node: str = "", rows_max: int = ROWS_MAX) -> Sequence[StepView]:
        """Return the steps that have yet to run, or to be undone."""
        rows = await self.read(records.PENDING, node=node, rows_max=rows_max)
        return [row.view() for row in rows]

    async def of_node(self, name: str, *, rows_max: int = ROWS_MAX) -> Sequence[StepView]:
        """Return the steps of a node, of the newest groups first."""
        rows = await self.read(records.OF_NODE, node=name, rows_max=rows_max)
        return [row.view() for row in rows]

    async def chain(self, group: str, step: str) -> Sequence[StepView]:
        """Return all that a step comes after, directly or not, in order, and itself."""
        steps = await self.steps(group)
        numbers = {one.name: one.number for one in steps}
        if step not in numbers:
            raise _unknown_step(group, step)
        after = [[numbers[name] for name in one.after] for one in steps]
        return [steps[number] for number in chain(after, numbers[step])]

    async def depth_by_node(self) -> dict[str, int]:
        """Return how many steps have yet to run, or to be undone, on each node."""
        return {row.node: row.steps for row in await self.read(records.DEPTH_BY_NODE)}

    async def mean_seconds(self) -> float | None:
        """Return how long steps took on average, of the newest 100 groups; None: none has ended."""
        [found] = await self.read(records.DURATIONS, groups_max=100)
        return found.mean_seconds

    async def failure_rate(self) -> float:
        """Return what part of the steps that ran failed, of the newest 100 groups."""
        [found] = await self.read(records.DURATIONS, groups_max=100)
        return found.failed / found.ended if found.ended else 0.0

    async def explain(self, group: str, step: str) -> str:
        """Say why a step is where it is, and what it waits for."""
        view, (row, rows, _) = await self.get(group), await self.rows_of(group)
        found = next((one for one in rows if one.name == step), None)
        if found is None:
            raise _unknown_step(row.name, step)
        names = {one.number: one.name for one in rows}
        steps = [one.view(names) for one in rows]
        job = found.undo_job if found.state.is_being_undone else found.job
        assert job is not None
        try:
            why = await self.app.run(lambda store: store.explain(UUID(job)))
        except UnknownJob:
            why = None
        missing = await self.missing([found.step])
        return explained(view, steps[found.number], steps, job=why, missing=missing)

    async def missing(self, steps: Iterable[Step]) -> set[str]:
        """Return the kinds of jobs that steps call and no living worker has."""
        wanted = {
            action.kind
            for step in steps
            for action in (step.do, step.undo, step.verify)
            if isinstance(action, JobCall)
        }
        workers = await self.app.run(lambda store: store.workers())
        return wanted - {kind for worker in workers for kind in worker.kinds}

    # Acting

    async def undo(self, group: str, *, why: str = "a person asked for it") -> None:
        """Undo a group: one that runs, or a done one unless an irreversible step began."""
        row = await self.row(group)
        async with self.app.transaction() as t:
            [row] = await t.run(records.LOCK_GROUP, id=row.id)
            refused = decide.why_not_undo(row.standing)
            if refused is not None:
                raise GroupRefused(f"group {row.name!r} cannot be undone: {refused}.")
            if row.state is GroupState.DONE:
                await self._check_name(t, row.name)
            await save_group(t, row, GroupState.STOPPING, reason=why)
            await t.run(records.PAUSE, id=row.id, by=None, now=None)
            new = NewJob(kind=TURN, payload=payload_of_group(row.id), queue=QUEUE)
            await t.submit(Call(new, None, self.app))

    async def pause(self, group: str, *, by: str = "its owner") -> None:
        """Begin nothing more of a group, forward or back. What runs goes on."""
        check_by(by)
        row = await self.row(group)
        if row.state in (GroupState.DONE, GroupState.UNDONE):
            raise GroupRefused(f"group {row.name!r} is {row.state}: there is nothing to pause.")
        async with self.app.transaction() as t:
            await t.run(records.PAUSE, id=row.id, by=by, now=None)

    async def resume(self, group: str) -> None:
        """Let a paused group go on."""
        row = await self.row(group)
        async with self.app.transaction() as t:
            await t.run(records.PAUSE, id=row.id, by=None, now=None)

    async def retry(self, group: str, step: str, *, following: bool = True) -> None:
        """Try a step again on which the group is stuck, with fresh attempts.

        ``following``: what comes after it goes on by itself when it has worked; False: the group is
        paused then, and goes on when it is resumed.
        """
        await self._decide(group, step, None, following=following)

    async def skip(self, group: str, step: str, *, why: str) -> None:
        """Leave a step on which the group is stuck as it is, and go on without it."""
        check_name("reason", why, 1_000)
        await self._decide(group, step, why)

    async def _decide(
        self, group: str, step: str, why: str | None, *, following: bool = True
    ) -> None:
        row = await self.row(group)
        async with self.app.transaction() as t:
            [row] = await t.run(records.LOCK_GROUP, id=row.id)
            rows = await t.run(records.FACTS, id=row.id)
            found = next((one for one in rows if one.name == step), None)
            if found is None:
                raise _unknown_step(row.name, step)
            verb = decide.retried if why is None else decide.skipped
            facts = verb(row.standing, found.facts)
            if facts is None:
                raise GroupRefused(
                    f"step {step!r} of group {row.name!r} is {found.state}, and the group "
                    f"{row.state}: there is nothing to {'retry' if why is None else 'skip'}."
                )
            await t.run(
                records.SAVE_RETRY,
                id=row.id,
                number=found.number,
                state=facts.state,
                attempts=facts.attempts,
                undo_attempts=facts.undo_attempts,
                asks=facts.asks,
                why=why,
            )
            states = [one.state for one in rows]
            states[found.number] = facts.state
            if row.standing.has_begun_irreversible:
                failed = any(state.is_failed for state in states)
                await save_group(t, row, GroupState.STUCK if failed else GroupState.RUNNING)
            else:
                after = [one.after for one in rows]
                watch = [n for n, state in enumerate(states) if state.is_being_undone]
                again = decide.undo_anew(states, after, found.number) if why is None else {}
                turn = Turn(
                    state=decide.state_back(states),
                    steps={found.number: facts.state},
                    undo=again,
                    watch=watch,
                )
                await carry_out(self.app, t, row, rows, turn)
            if why is None and not following:
                await t.run(records.PAUSE, id=row.id, by=f"retry of {step}", now=None)
        if row.standing.has_begun_irreversible:
            await self._run_again(row, UUID(found.job))

    async def _run_again(self, group: GroupRow, job: UUID) -> None:
        """Put a step's job back, and have the group looked at if it dies unheard once more."""
        if not await self.app.run(lambda store: store.dead_retry([job])):
            return
        [react] = watching(group.id, None, new_id(), (), [job])
        async with self.app.transaction() as t:
            await t.submit(Call(react, None, self.app))


def payload_of_group(group: str) -> str:
    """Return the payload of a job that looks at a group."""
    return f'{{"group":"{group}"}}'


async def _prune(store: Store, held_until: datetime) -> float | None:
    """Forget groups that ended long ago."""
    await store.ensure(SCHEMA)
    before = await store.now() - timedelta(seconds=KEEP_SECONDS)
    rows = await store.read(records.PRUNE, before=before, rows_max=PRUNED_GROUPS_MAX)
    for row in rows:
        async with store.transaction() as t:
            await t.run(records.DROP_STEPS, id=row.id)
            await t.run(records.DROP_GROUP, id=row.id)
    return 0.0 if len(rows) == PRUNED_GROUPS_MAX else None


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def _unknown_step(group: str, step: str) -> UnknownStep:
    return UnknownStep(
        f"group {group!r} has no step {step!r}. See its steps: `inturn groups show`."
    )
