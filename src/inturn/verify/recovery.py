"""How long it took until the work of a killed worker went on."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from inturn.verify.ledger import Ledger
from inturn.worker.quarantine import LOOK_SECONDS, PATIENCE_SECONDS

SLACK_SECONDS = 10.0  # for a claim, on a machine that has other things to do
DEATH_SECONDS = 5.0  # for each other worker that died meanwhile: a new one has to start


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """After one death: how long until the first of its jobs was given out again, and the bound.

    Time during which something stood still (the store, a process) is not counted.
    """

    worker: str
    how: str
    seconds: float
    seconds_max: float


def recoveries(ledger: Ledger) -> Iterator[Recovery]:
    """Return, for each worker that was killed with jobs in hand, how they came back."""
    settings = ledger.final.settings
    bound = (
        settings.lease_seconds
        + 1.25 * settings.sweep_seconds
        + LOOK_SECONDS
        + PATIENCE_SECONDS
        + SLACK_SECONDS
    )
    for died_at, who, how in ledger.deaths:
        found = _given_again_at(ledger, died_at, who)
        if found is None:
            continue
        others = sum(died_at < at < found for at, _, _ in ledger.deaths)
        still = ledger.seconds_still(died_at, found)
        yield Recovery(
            worker=who,
            how=how,
            seconds=found - died_at - still,
            seconds_max=bound + DEATH_SECONDS * others,
        )


def _given_again_at(ledger: Ledger, died_at: float, who: str) -> float | None:
    """Return when the first job that a worker had in hand was given out again.

    None if it had none, or only a suspect, which waits longer after each crash.
    """
    times: list[float] = []
    for lease in ledger.leases_of(who):
        if lease.alone:
            continue
        for job, _, _ in lease.jobs:
            if any(one.verdict.token == lease.token for one in ledger.settles_of[job]):
                continue
            later = [
                again.at
                for again, _ in ledger.claims_of[job]
                if again.token > lease.token and again.at > died_at
            ]
            times += later[:1]
    return min(times, default=None)
