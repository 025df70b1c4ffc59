"""The job of a step's undo: as a step's own, with other decisions and other columns."""

from __future__ import annotations

from inturn.groups import records, step_decisions
from inturn.groups.model import Action
from inturn.groups.records import GroupRow, StepRow
from inturn.groups.step_attempt import Seen, StepAttempt
from inturn.groups.step_decisions import Move, Outcome, Then
from inturn.queue.transaction import AppTransaction


class UndoAttempt(StepAttempt):
    """One attempt at the undo of a step."""

    is_undo = True

    def job_of_row(self) -> str | None:
        return self.row.undo_job

    def next_move(self, group: GroupRow) -> Move:
        return step_decisions.next_undo(group.facts_of(self.number), self.row.facts)

    async def save_begun(self, t: AppTransaction) -> None:
        begun = step_decisions.undo_begun(self.row.facts)
        await t.run(
            records.BEGIN_UNDO,
            id=self.group,
            number=self.number,
            state=begun.state,
            attempts=begun.undo_attempts,
            token=self.ctx.token,
            now=None,
        )

    @property
    def action(self) -> Action:
        undo = self.row.step.undo
        assert undo is not None
        return undo

    @property
    def timeout(self) -> float | None:
        return self.row.step.undo_timeout

    def outcome(self, group: GroupRow | None, row: StepRow, seen: Seen) -> Outcome:
        return step_decisions.after_undo(row.facts, seen.happened)

    async def save(self, t: AppTransaction, outcome: Outcome, seen: Seen) -> None:
        facts = outcome.facts
        await t.run(
            records.SAVE_UNDO,
            id=self.group,
            number=self.number,
            state=facts.state,
            asks=facts.asks,
            answer=seen.answer,
            error=seen.error,
            has_ended=outcome.then is Then.DONE,
            now=None,
        )
