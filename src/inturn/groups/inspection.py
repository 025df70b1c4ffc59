"""What can be asked about the groups of an app."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Any
from uuid import UUID

from inturn.groups import records
from inturn.groups.errors import UnknownGroup, UnknownStep
from inturn.groups.explain import explained
from inturn.groups.model import (
    QUEUE,
    GroupState,
    GroupView,
    JobCall,
    Node,
    Step,
    StepView,
    queue_of,
)
from inturn.groups.plan import chain
from inturn.groups.records import SCHEMA, GroupRow, StepRow
from inturn.model.errors import UnknownJob
from inturn.queue.extensions import Extension
from inturn.store.queries import Query, Row

ROWS_MAX = 10_000


class GroupsInspection(Extension):
    """The groups of an app, as far as they are looked at."""

    async def read(self, query: Query[Row], **parameters: Any) -> list[Row]:
        """Run a query that only reads."""
        await self.ready()
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
        return row.view(counted.ended, counted.not_undone)

    async def list(
        self, *, state: GroupState | None = None, before: str = "", rows_max: int = 100
    ) -> list[GroupView]:
        """Return groups, the newest first. ``before``: those older than the one of this id."""
        rows = await self.read(records.GROUPS, state=state or "", before=before, rows_max=rows_max)
        return [row.view(row.ended, row.not_undone) for row in rows]

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
            raise unknown_step(group, step)
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
            raise unknown_step(row.name, step)
        names = {one.number: one.name for one in rows}
        steps = [one.view(names) for one in rows]
        job = found.undo_job if found.state.is_being_undone else found.job
        assert job is not None
        try:
            why = await self.app.run(lambda store: store.explain(UUID(job)))
        except UnknownJob:
            why = None
        unserved = await self.unserved([found.step])
        return explained(
            view,
            steps[found.number],
            steps,
            has_verify=found.has_verify,
            idempotent=found.idempotent,
            job=why,
            unserved=unserved,
        )

    async def unserved(self, steps: Sequence[Step]) -> Sequence[str]:
        """Say which jobs and which nodes of steps no living worker serves."""
        wanted = {
            action.kind
            for step in steps
            for action in (step.do, step.undo, step.verify)
            if isinstance(action, JobCall)
        }
        workers = await self.app.run(lambda store: store.workers())
        is_first = all(QUEUE not in worker.queues for worker in workers)
        settings = await self.app.run(lambda store: store.settings())
        served = {queue for worker in workers for queue in worker.queues}
        said = []
        if missing := sorted(wanted - {kind for worker in workers for kind in worker.kinds}):
            said.append(f"No living worker has the job {' or '.join(map(repr, missing))}.")
        for node in sorted({step.node for step in steps}):
            queue = queue_of(node)
            is_local = queue in settings and settings[queue].local
            # A worker of groups serves every other node as soon as it has heard of it.
            if queue not in served and (is_local or QUEUE not in served):
                start = f"inturn work MODULE:APP{f' --node {quote(node)}' if is_local else ''}"
                soon = " yet; one of all queues will within 5 s. If there is none,"
                yet = soon if workers and is_first and not is_local else ":"
                said.append(f"No living worker serves node {node!r}{yet} start one by `{start}`.")
        return said

    async def ready(self) -> None:
        await self.app.run(lambda store: store.ensure(SCHEMA))


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def unknown_step(group: str, step: str) -> UnknownStep:
    """Return the error for a step that a group does not have."""
    return UnknownStep(
        f"group {group!r} has no step {step!r}. See its steps: `inturn groups show {quote(group)}`."
    )
