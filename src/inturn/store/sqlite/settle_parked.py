"""Settling a job that was leased from parked."""

from __future__ import annotations

from inturn.model.errors import LeaseLost
from inturn.policy.settlement import Settlement, buried_reason, outspoken
from inturn.policy.verdict import Bury, Done, Release, Retry
from inturn.store.sqlite import leases
from inturn.store.sqlite.bury import bury_parked
from inturn.store.sqlite.rows import rank
from inturn.store.sqlite.settler import Settler
from inturn.store.sqlite.times import Micros, micros_of_seconds


def settle_parked(settler: Settler, settlement: Settlement) -> None:
    """Take a parked job out, give it back, or let it wait to retry."""
    connection, token = settler.connection, settlement.lease.token
    [outcome] = settlement.outcomes
    row = connection.execute(
        "select id, queue, priority, attempts_max, attempt, errors, suspect "
        "from parked where token = ?",
        (token,),
    ).fetchone()
    if row is None:
        raise LeaseLost([token])
    id, queue, priority, attempts_max, attempt, errors, suspect = row
    if outspoken(settlement.outcomes):
        settler.check_job(token, outcome, id)
    leases.settled(connection, token, 1)
    verdict = outcome.verdict
    if type(verdict) is Done:
        connection.execute("delete from parked where id = ?", (id,))
        settler.keep_results([outcome])
        settler.job_done(id)
        return
    back = _GivenBack(settler, id, priority, settler.queue(queue).aging_seconds)
    if type(verdict) is Release:
        back.write(run_at=settler.now, attempt=attempt - 1, errors=errors, suspect=suspect)
        return
    assert isinstance(verdict, Retry | Bury)
    errors = settler.with_failure(errors, attempt, verdict)
    spent = type(verdict) is Retry and verdict.counted and attempt >= attempts_max
    if type(verdict) is Bury or spent:
        reason = buried_reason(attempt, verdict)
        bury_parked(connection, settler.now, id, errors=errors, reason=reason)
        return
    assert type(verdict) is Retry
    run_at = settler.now + micros_of_seconds(verdict.delay_seconds)
    counted = attempt if verdict.counted else attempt - 1
    back.write(run_at=run_at, attempt=counted, errors=errors, suspect=0)


class _GivenBack:
    """A parked job whose lease has ended."""

    def __init__(self, settler: Settler, id: bytes, priority: int, aging_seconds: float) -> None:
        self._settler, self._id = settler, id
        self._priority, self._aging_seconds = priority, aging_seconds

    def write(self, *, run_at: Micros, attempt: int, errors: str | None, suspect: int) -> None:
        due = run_at <= self._settler.now
        rank_at = rank(run_at, self._priority, self._aging_seconds) if due else None
        self._settler.connection.execute(
            "update parked set token = null, run_at = ?, attempt = ?, errors = ?, suspect = ?, "
            "rank_at = ? where id = ?",
            (run_at, attempt, errors, suspect, rank_at, self._id),
        )
