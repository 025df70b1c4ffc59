"""The report: what a run did, counted from its history, and what it found, in plain words."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from inturn.model.job import JobState
from inturn.verify.faults import KINDS
from inturn.verify.final import Final
from inturn.verify.history import read_all
from inturn.verify.ledger import Ledger
from inturn.verify.recovery import Recovery, recoveries
from inturn.verify.rules import RULES, Violation, judge

SHOWN_PER_RULE = 5


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did and found."""

    store: str  # which sort
    seed: int
    seconds: float
    is_drained: bool
    is_interrupted: bool
    workers: int
    producers: int
    jobs: int  # accepted
    done: int
    dead: int
    cancelled: int
    other: int  # in any other state
    attempts: int  # handlers that began
    batches: int
    keys: int
    rounds: int  # opened
    faults: dict[str, int]
    handlers: dict[str, int]  # runs of handlers that are there to make trouble
    untried: list[str]  # faults that were wanted, and never came
    left_out: list[str]  # faults that were wanted, and lack what they need
    is_alone: bool  # one fault was wanted, and no other
    failures: list[str]  # faults that could not be made, and why
    stale: int  # settlements that were refused, as they had to be
    lost_answers: int  # calls of which nobody knows whether they happened
    recovery_seconds_max: float | None
    recovery_seconds_bound: float | None
    violations: list[Violation]
    folder: str | None = None

    @property
    def is_good(self) -> bool:
        """Whether every promise was kept, and what was to go wrong could be made to, and did."""
        return not self.violations and not self.failures and self.missed is None

    @property
    def missed(self) -> str | None:
        """The fault that was wanted alone and never came, so that the run proves nothing.

        Of several, some may never come: then the others are what was tried.
        """
        if not self.is_alone or self.is_interrupted:
            return None
        return next(iter([*self.untried, *self.left_out]), None)

    def lines(self) -> list[str]:
        """Return the report as text."""
        recovery = "no worker was lost with jobs in hand"
        if self.recovery_seconds_max is not None:
            recovery = (
                f"at most {self.recovery_seconds_max:.1f} s "
                f"(bound {self.recovery_seconds_bound:.1f} s)"
            )
        found = [
            f"store      {self.store}, seed {self.seed}, {self.seconds:.0f} s, "
            f"{many(self.workers, 'worker')}, {many(self.producers, 'producer')}",
            f"jobs       {self.jobs:,} accepted in {self.batches:,} batches under {self.keys:,} "
            f"keys; {self.done:,} done, {self.dead:,} dead, {self.cancelled:,} cancelled"
            + (f", {self.other:,} not finished" if self.other else ""),
            f"attempts   {self.attempts:,} handlers began; {self.rounds:,} gates opened",
            f"faults     {_listed(self.faults)}",
            f"handlers   {_listed(self.handlers)}",
            *self._untried(),
            *(f"failed     {failure}" for failure in self.failures),
            f"fenced     {self.stale:,} settlements of lost leases were refused; of "
            f"{self.lost_answers:,} calls the answer was lost",
            f"recovery   {recovery}",
        ]
        if self.is_interrupted:
            found.append("stopped    before its end: what there was is checked")
        return [*found, "", *self._verdict()]

    def _untried(self) -> list[str]:
        """Say what the run proves nothing about."""
        lines = []
        if self.untried:
            why = "the run was too short for these, or they found nothing to strike"
            lines.append(f"untried    {', '.join(self.untried)}: {why}")
        needs = {kind.name: kind.needs for kind in KINDS}
        return lines + [f"left out   {name}: it needs {needs[name]}" for name in self.left_out]

    def _verdict(self) -> list[str]:
        if self.is_good:
            promises = len({name for name, _ in RULES.values() if name.startswith("P")})
            return [f"every promise was kept: {len(RULES) + 1} rules over {promises} promises"]
        if not self.violations and self.failures:
            return ["no promise was broken, but not all that was to go wrong could be made to"]
        if not self.violations:
            return [
                f"no promise was broken, but {self.missed} never came: nothing is proved about it"
            ]
        lines = [many(len(self.violations), "violation")]
        for rule, count in Counter(one.rule for one in self.violations).items():
            some = [one for one in self.violations if one.rule == rule]
            lines.append(f"  {some[0].promise} {rule}: {count:,}")
            lines += [f"    {one.text}" for one in some[:SHOWN_PER_RULE]]
            if count > SHOWN_PER_RULE:
                lines.append(f"    … and {count - SHOWN_PER_RULE:,} more")
        return lines


def many(count: int, noun: str) -> str:
    """Say how many there are of something."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _listed(counts: dict[str, int]) -> str:
    if not counts:
        return "none"
    named = ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))
    return f"{sum(counts.values()):,}: {named}"


def report_of(folder: Path) -> Report:
    """Read what was kept in a folder, judge it, and report."""
    final = Final.read(folder)
    ledger = Ledger(read_all(folder), final)
    recovered = list(recoveries(ledger))
    return _counted(ledger, recovered, [*judge(ledger), *late(recovered)])


def late(recovered: list[Recovery]) -> list[Violation]:
    """Return the recoveries that took longer than they may."""
    return [
        Violation(
            promise="P6",
            rule="recovery",
            text=f"job {one.job} of {one.worker}, which was lost ({one.how}), was given out again "
            f"{one.seconds:.1f} s after {one.since}, and {one.seconds_max:.1f} s is the most",
        )
        for one in recovered
        if one.seconds > one.seconds_max
    ]


def slowest_of(recovered: list[Recovery]) -> Recovery | None:
    """Return the recovery that took longest, which has a bound of its own."""
    return max(recovered, key=lambda one: one.seconds, default=None)


def _counted(ledger: Ledger, recovered: list[Recovery], violations: list[Violation]) -> Report:
    final = ledger.final
    faults = Counter(fault.name for fault in ledger.faults)
    handlers = _faulty_handlers(ledger)
    states = Counter(ledger.state(job) for job in ledger.accepted_at)
    ended = (JobState.DONE, JobState.DEAD, JobState.CANCELLED)
    slowest = slowest_of(recovered)
    return Report(
        store=final.store,
        seed=final.settings.seed,
        seconds=final.seconds,
        is_drained=final.is_drained,
        is_interrupted=final.is_interrupted,
        workers=final.settings.workers,
        producers=final.settings.producers,
        jobs=len(ledger.accepted_at),
        done=states[JobState.DONE],
        dead=states[JobState.DEAD],
        cancelled=states[JobState.CANCELLED],
        other=sum(count for state, count in states.items() if state not in ended),
        attempts=len(ledger.runs),
        batches=sum(one.places is not None for one in ledger.submissions),
        keys=len({(one.queue, one.key) for one in ledger.planned.values() if one.key is not None}),
        rounds=len(ledger.gates),
        faults=dict(faults),
        handlers=dict(handlers),
        untried=sorted(set(final.faults) - set(faults) - set(handlers)),
        left_out=sorted(final.left_out),
        is_alone=len(final.faults) + len(final.left_out) == 1,
        failures=_failures(ledger),
        stale=sum(one.is_taken is False for one in ledger.settles),
        lost_answers=ledger.lost_answers,
        recovery_seconds_max=None if slowest is None else slowest.seconds,
        recovery_seconds_bound=None if slowest is None else slowest.seconds_max,
        violations=violations,
    )


def _failures(ledger: Ledger) -> list[str]:
    """Say which faults could not be made, why, and how often."""
    counts = Counter((one.name, one.error) for one in ledger.failed)
    return [
        f"{name}, which could not be made: {error}" + (f" ({count:,} times)" if count > 1 else "")
        for (name, error), count in sorted(counts.items())
    ]


def _faulty_handlers(ledger: Ledger) -> Counter[str]:
    """Count the runs of handlers that are there to make trouble."""
    names = {
        "flaky": "handler-raises",
        "hopeless": "handler-raises",
        "exits": "handler-exits",
        "blocks": "handler-blocks",
        "eats": "handler-eats-memory",
    }
    kinds = (ledger.planned[run.job].kind for run in ledger.runs if run.job in ledger.planned)
    return Counter(names[kind] for kind in kinds if kind in names)
