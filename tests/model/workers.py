"""What workers do: claim, settle, take a turn, take back leases that ran out, and die.

Each step stands for a statement of a SQL function.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model import claims, reclaims, settles, transactions
from tests.model.database import Move, commit, with_worker
from tests.model.rules import Bounds, Rules
from tests.model.state import Held, State, Worker


def moves(state: State, number: int, rules: Rules, bounds: Bounds) -> Iterator[Move]:
    """Return what a worker can do now."""
    worker = state.workers[number]
    who = f"worker {number + 1}"
    match worker.step:
        case "idle" if worker.held is None:
            yield from claims.begin(state, number, who, rules)
            yield from reclaims.reclaim(state, number, who, rules, bounds)
        case "idle":
            yield from settles.begin(state, number, who, rules, bounds)
        case "claiming":
            yield from claims.take(state, number, who, rules, bounds)
        case "found empty":
            yield from claims.rest(state, number, who, rules)
        case "settled within":
            yield from transactions.reserve(state, number, who)
        case "looking":
            yield from transactions.look(state, number, who)
        case "waking":
            yield from transactions.wake(state, number, who)
        case "settled":
            yield from claims.begin(state, number, who, rules)
            yield from _commit(state, number, who, bounds)
        case "burying":
            yield from settles.bury(state, number, who)
        case "committing":
            yield from _commit(state, number, who, bounds)
        case verdict:
            yield from settles.settle(state, number, who, verdict, rules, bounds)
    if bounds.crashes and worker != Worker():
        died = with_worker(state, number, Worker())
        yield Move(who, "dies and is replaced", died, is_fault=True)


def _commit(state: State, number: int, who: str, bounds: Bounds) -> Iterator[Move]:
    worker = state.workers[number]
    held: Held | None = next((one[1] for one in worker.changes if one[0] == "holds"), None)
    after = Worker(held=held, unburied=worker.unburied)
    if worker.unburied is not None:
        after = after._replace(step="burying")
    yield Move(who, "commits", commit(with_worker(state, number, after), worker.changes))
    if bounds.stalls and worker.held is not None:
        # The answer was lost: it will say the same again, and knows of no new lease.
        unheard = with_worker(state, number, Worker(held=worker.held))
        does = "commits and does not hear so"
        yield Move(who, does, commit(unheard, worker.changes), is_fault=True)
