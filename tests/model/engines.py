"""Real engines with one rule taken out, and the schedule on which each of them goes wrong.

The model says of a variant what it breaks; here the SQL functions are spoilt in the same way, and
must do the same. Rules that are woven through a whole function are left to the model.
"""

from __future__ import annotations

from dataclasses import dataclass

from inturn.store.postgres.sql import FUNCTIONS
from inturn.store.postgres.store import PostgresStore
from tests.model import promises
from tests.model.rules import Batch, Bounds
from tests.model.worlds import OLD, ONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine without a rule: what to replace in which function, and how it shows."""

    rule: str
    patches: tuple[tuple[str, str, str], ...]  # function, text, what it is replaced by
    producers: tuple[tuple[Batch, ...], ...] = ((ONE,), (ONE,))
    schedule: tuple[str, ...]
    breaks: str

    def __str__(self) -> str:
        return f"{self.breaks} without {self.rule}"

    @property
    def bounds(self) -> Bounds:
        return Bounds(producers=self.producers)


async def spoil(store: PostgresStore, engine: Engine) -> None:
    """Replace parts of the SQL functions of a database."""
    async with store.transaction() as transaction:
        for function, text, other in engine.patches:
            found = f"select pg_get_functiondef('{FUNCTIONS}.{function}'::regproc)"
            [[source]] = await transaction.execute(found)
            assert text in source, f"inturn.{function} no longer says {text!r}"
            await transaction.execute(source.replace(text, other))


TAIL_WRITTEN = "update inturn.tail set last = last where lane = any({});"

ACCEPTED = ("producer 1: enqueue", "producer 1: commit")
CLAIMED = ("worker 1: claim", "worker 1: commit")
SETTLED = ("worker 1: settle done", "worker 1: commit")

ENGINES = (
    Engine(
        rule="rests_write_the_tail",
        patches=(
            ("rest", TAIL_WRITTEN.format("p_lanes"), ""),
            ("rest_leased", TAIL_WRITTEN.format("p_idle"), ""),
        ),
        producers=((ONE,), (OLD,)),
        schedule=(
            *ACCEPTED,
            "producer 2: begin",
            *CLAIMED,
            *SETTLED,
            "producer 2: enqueue => open",
            "producer 2: commit",
        ),
        breaks=promises.STRANDED,
    ),
    Engine(
        rule="tokens_new",
        patches=(
            ("lease_lanes", "nextval('inturn.token')", "1"),
            ("claim_suspects", "nextval('inturn.token')", "1"),
        ),
        schedule=(
            *ACCEPTED,
            *CLAIMED,
            "worker 2: reclaim",
            "worker 2: commit",
            "worker 2: claim",
            "worker 2: commit",
            "worker 1: settle done => open",
            "worker 1: commit",
        ),
        breaks=promises.FENCE,
    ),
)
