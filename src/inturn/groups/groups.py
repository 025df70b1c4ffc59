"""The groups of an app: its nodes, its jobs, and how a group is submitted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from weakref import WeakKeyDictionary

import msgspec

from inturn.groups import records
from inturn.groups.builder import check_nodes
from inturn.groups.group import Group
from inturn.groups.group_job import (
    ADVANCE,
    STEP,
    UNDO,
    advance,
    kind_of,
    step_job,
    watcher_jobs,
)
from inturn.groups.model import (
    CONCURRENCY_DEFAULT,
    CONCURRENCY_MAX,
    QUEUE,
    Definition,
    Node,
    queue_of,
)
from inturn.groups.operations import GroupsOperations, RunQuery
from inturn.groups.plan import in_order
from inturn.groups.records import SCHEMA, GroupRow, new_step
from inturn.groups.step_attempt import StepAttempt, StepBegins
from inturn.groups.undo_attempt import UndoAttempt
from inturn.log import log_node_kept
from inturn.model import bounds
from inturn.model.admissible import check_name, check_whole
from inturn.model.errors import BadInput
from inturn.model.ids import new_id
from inturn.queue.app import App
from inturn.queue.context import Context
from inturn.queue.job import Call
from inturn.queue.transaction import AppTransaction
from inturn.store.store import Store

KEEP_SECONDS = 30 * 86_400.0  # how long a group that has ended stays readable
PRUNE_SECONDS = 600.0
PRUNED_GROUPS_MAX = 100  # at once


class Groups(GroupsOperations):
    """The groups of an app: ``app.groups``."""

    has_nodes = True

    def __init__(self, app: App) -> None:
        super().__init__(app)
        self.nodes: dict[str, Node] = {}
        self._begins_of: WeakKeyDictionary[asyncio.AbstractEventLoop, StepBegins] = (
            WeakKeyDictionary()
        )
        app.schema(SCHEMA)
        app.queue(QUEUE, suspects="again")

        async def advance_group(ctx: Context, group: str) -> None:
            await advance(app, ctx, group)

        app.job(kind=ADVANCE, queue=QUEUE, attempts=bounds.ATTEMPTS_MAX)(advance_group)
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
        concurrency: int | None = CONCURRENCY_DEFAULT,
        local: bool = False,
    ) -> Node:
        """Declare a node: ``app.node("pg1", "postgresql://…", concurrency=2)``.

        Without an address where only jobs of the app run there. ``${NAME}`` in an address is read
        from the environment where the worker runs, ``${file:/path}`` from a file. ``concurrency``:
        how many steps run there at once, over all workers; None: no limit. ``local``: only
        workers that were started for it, ``inturn work --node NAME``, serve it.
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
        mine = {name: node for name, node in declared.items() if name in used}
        known = {node.name: node for node in await self.read(records.NODES)}
        check_nodes(definition, known | declared)
        self._refuse_moves(await self._changed_nodes(self.read, mine))
        await self.check_name_is_free(self.read, definition.name)
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
        jobs += watcher_jobs(
            group,
            finish,
            react,
            (id for number, id in ids.items() if number not in awaited),
            ids.values(),
        )
        async with self.app.transaction() as t:
            changed = await self._changed_nodes(t.run, mine)
            self._refuse_moves(changed)
            await self._put_nodes(t, [node for node, _ in changed])
            await self.check_name_is_free(t.run, definition.name)
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

    async def _put_nodes(self, t: AppTransaction, nodes: Sequence[Node]) -> None:
        for node in nodes:
            await t.run(records.PUT_NODE, **msgspec.structs.asdict(node))

    async def _changed_nodes(
        self, run: RunQuery, nodes: Mapping[str, Node]
    ) -> list[tuple[Node, GroupRow | None]]:
        """Return the nodes that the store has otherwise, each with a group that is under way where
        it is now, if its address is another.
        """
        known = {node.name: node for node in await run(records.NODES)}
        changed: list[tuple[Node, GroupRow | None]] = []
        for name, node in nodes.items():
            before = known.get(name, node)
            moved = (
                await run(records.NODE_USER, name=name) if before.address != node.address else ()
            )
            if known.get(name) != node:
                changed.append((node, next(iter(moved), None)))
        return changed

    def _refuse_moves(self, changed: Sequence[tuple[Node, GroupRow | None]]) -> None:
        for node, user in changed:
            if user is not None:
                raise BadInput(
                    f"node {node.name!r} has another address in this store, which group "
                    f"{user.name!r} uses and is {user.state}. Wait until that has ended, pause it, "
                    f"or name the new node otherwise."
                )

    async def _write_nodes(self) -> None:
        """As a worker starts: write down the nodes that its app declares."""
        if not self.nodes:
            return
        await self.ready()
        async with self.app.transaction() as t:
            changed = await self._changed_nodes(t.run, self.nodes)
            await self._put_nodes(t, [node for node, user in changed if user is None])
        for node, user in changed:
            if user is not None:
                log_node_kept(node.name, user.name, user.state)

    def _begins(self) -> StepBegins:
        """Return what writes down the beginnings of steps on this loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._begins_of:
            self._begins_of[loop] = StepBegins(self.app)
        return self._begins_of[loop]


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
