"""What a person does to a group: undo, pause, resume; retry and skip a step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from inturn.groups import group_decisions, records, step_decisions
from inturn.groups.errors import GroupRefused
from inturn.groups.group_job import ADVANCE, carry_out, ended_jobs, payload_of
from inturn.groups.inspection import GroupsInspection, unknown_step
from inturn.groups.model import QUEUE, GroupState
from inturn.groups.step_attempt import save_group
from inturn.model.admissible import check_by, check_name
from inturn.model.errors import BadInput
from inturn.model.job import JobState, NewJob
from inturn.queue.job import Call

RunQuery = Callable[..., Awaitable[list[Any]]]
"""Runs a query, inside a transaction or outside."""


class GroupsOperations(GroupsInspection):
    """The groups of an app, as far as a person acts on them."""

    async def undo(self, group: str, *, why: str = "a person asked for it") -> None:
        """Undo a group: one that runs, or a done one unless an irreversible step began."""
        row = await self.row(group)
        async with self.app.transaction() as t:
            [row] = await t.run(records.LOCK_GROUP, id=row.id)
            refused = step_decisions.why_not_undo(row.facts)
            if refused is not None:
                raise GroupRefused(f"group {row.name!r} cannot be undone: {refused}.")
            if row.state is GroupState.DONE:
                await self.check_name_is_free(t.run, row.name)
            await save_group(t, row, GroupState.STOPPING, reason=why)
            await t.run(records.PAUSE, id=row.id, by=None, but=None, now=None)
            new = NewJob(kind=ADVANCE, payload=payload_of(row.id), queue=QUEUE)
            await t.submit(Call(new, None, self.app))

    async def pause(self, group: str, *, by: str = "its owner") -> None:
        """Begin nothing more of a group, forward or back. What runs goes on."""
        check_by(by)
        row = await self.row(group)
        if row.state in (GroupState.DONE, GroupState.UNDONE):
            raise GroupRefused(f"group {row.name!r} is {row.state}: there is nothing to pause.")
        async with self.app.transaction() as t:
            await t.run(records.PAUSE, id=row.id, by=by, but=None, now=None)

    async def resume(self, group: str) -> None:
        """Let a paused group go on."""
        row = await self.row(group)
        if row.paused_by is None:
            raise GroupRefused(f"group {row.name!r} is {row.state}, and not paused.")
        async with self.app.transaction() as t:
            await t.run(records.PAUSE, id=row.id, by=None, but=None, now=None)

    async def retry(self, group: str, step: str, *, following: bool = True) -> None:
        """Try a step again on which the group is stuck, with fresh attempts.

        ``following``: what comes after it goes on by itself when it has worked; False: the group is
        paused, but for this step, and goes on when it is resumed.
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
        ended = await ended_jobs(self.app, row.id)
        async with self.app.transaction() as t:
            [row] = await t.run(records.LOCK_GROUP, id=row.id)
            rows = await t.run(records.FACTS, id=row.id)
            found = next((one for one in rows if one.name == step), None)
            if found is None:
                raise unknown_step(row.name, step)
            verb = step_decisions.retried if why is None else step_decisions.skipped
            facts = verb(row.facts, found.facts)
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
            steps = [one.facts for one in rows]
            steps[found.number] = facts
            after = [one.after for one in rows]
            change = group_decisions.decided(row.facts, steps, after, found.number)
            await carry_out(self.app, t, row, rows, change, ended=ended)
            if not following:
                by, but = f"retry of {step}", found.number
                await t.run(records.PAUSE, id=row.id, by=by, but=but, now=None)
        dead = [UUID(rows[number].job) for number in {found.number, *change.jobs}]
        dead = [job for job in dead if ended.get(job) is JobState.DEAD]
        if dead:  # they have new jobs, or need none
            await self.app.run(lambda store: store.dead_drop(dead, by=f"retry of {step}"))

    async def check_name_is_free(self, run: RunQuery, name: str) -> None:
        """Refuse a name that a group under way has."""
        for row in await run(records.NEWEST_GROUP, name=name):
            if row.state not in (GroupState.DONE, GroupState.UNDONE):
                raise BadInput(
                    f"group {name!r} is {row.state} since {row.created_at:%Y-%m-%d %H:%M}: a name "
                    f"stands for one group that is under way. Name this one otherwise."
                )
