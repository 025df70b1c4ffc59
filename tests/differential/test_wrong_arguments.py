"""Whatever a caller gives for an argument by mistake, both stores answer the same, in our words.

Promise P11 of ARCHITECTURE.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from inturn.model.admissible import shown
from inturn.model.errors import InturnError, StoreError
from inturn.model.job import NewJob
from inturn.model.lease import Claim
from inturn.store.protocol import Store
from tests.differential.arguments import NEED_A_LEASE, Call, calls, mistakes
from tests.differential.pair import Pair
from tests.postgres_server import DatabaseServer


@pytest.fixture(scope="module")
def pair(postgres_server: DatabaseServer) -> Iterator[Pair]:
    with postgres_server.fresh_database() as url:
        pair = Pair(url)
        yield pair
        pair.close()


@pytest.mark.parametrize("name", [name for name, _ in calls()])
def test_a_mistake_is_answered_the_same_by_both_stores(pair: Pair, name: str) -> None:
    pair.begin()
    call = dict(calls())[name]
    on_sqlite, on_postgres = pair.both(lambda store, _: answers(store, name, call))
    said = [
        f"{shown(value)}: on SQLite {one}, on PostgreSQL {other}"
        for value, one, other in zip(mistakes(), on_sqlite, on_postgres, strict=True)
        if one != other or not (one == "fine" or one.startswith("refused"))
    ]
    assert not said, "\n".join(said)


async def answers(store: Store, name: str, call: Call) -> list[str]:
    """Say how a store answers each mistake. A job that one of them settled is replaced."""
    claim = None
    said: list[str] = []
    for value in mistakes():
        if name.startswith(NEED_A_LEASE) and (claim is None or said[-1] == "fine"):
            claim = await claimed(store)
        said.append(await answer(store, call, value, claim))
    return said


async def answer(store: Store, call: Call, value: Any, claim: Claim | None) -> str:
    """Say how a store answers a mistake: a store's own trouble or a raw error is no answer."""
    try:
        await call(store, claim, value)
    except StoreError as error:
        return f"trouble: {error!r}"[:300]
    except InturnError as error:
        return f"refused: {type(error).__name__}"
    except Exception as error:
        return f"raw: {error!r}"[:300]
    return "fine"


async def claimed(store: Store) -> Claim:
    """Lease a job of a queue that no mistake names."""
    await store.enqueue([NewJob(kind="k", queue="mine")])
    [claim] = await store.claim("mine", jobs_max=1, worker="w")
    return claim


def test_mistakes_are_of_many_sorts() -> None:
    made: list[Any] = list(mistakes())
    assert len({type(one) for one in made}) > 20
