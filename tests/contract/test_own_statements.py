"""A caller's own statements: the block, and nothing else, begins and ends its transaction."""

from __future__ import annotations

import pytest

from inturn.model.errors import BadInput
from inturn.store.store import Store
from tests.contract.support import enqueue, job, run_all

ENDINGS = [
    "commit",
    "  commit work",
    "rollback to savepoint here",
    "begin immediate",
    "savepoint here",
    "-- first of all\ncommit",
    "/* and\nthen */ commit",
]


@pytest.mark.parametrize("statement", ENDINGS)
async def test_a_statement_that_ends_the_transaction_is_refused(
    store: Store, statement: str
) -> None:
    async with store.transaction() as transaction:
        [made] = await enqueue(transaction, job())
        with pytest.raises(BadInput, match="end of its block"):
            await transaction.execute(statement)
        await transaction.execute("select 1")
    assert await run_all(store) == [made]


@pytest.mark.parametrize(
    "statement",
    [
        "select 1 as commit_it",
        "select 'commit'",
        "-- commit\nselect 1",
        "create table ending (id integer)",
    ],
)
async def test_a_statement_that_only_mentions_it_is_fine(store: Store, statement: str) -> None:
    async with store.transaction() as transaction:
        await transaction.execute(statement)
