"""An application as users write one, of about a hundred lines with its SQL: it books payments.

Tables of its own, bulk rows, a limit, a reaction to a death, a background duty, a read. Its second
version is ``tests/ledger/second.py``.
"""

from __future__ import annotations

import asyncio
import os
from datetime import datetime

import msgspec

import inturn
from inturn.store.store import Store
from tests.processes.jobs import effect, may_end

app = inturn.App(os.environ.get("INTURN_STORE", "sqlite:///:memory:"))
LEDGER = app.schema(inturn.Schema("ledger", __name__))
app.limit("bank", running=2)


class Payment(msgspec.Struct, frozen=True):
    name: str
    account: str
    cents: int


class Account(msgspec.Struct, frozen=True):
    account: str
    charged: int  # cents
    given_back: int


ADD_PAYMENTS = inturn.Query(__name__, "add_payments")
CHARGED = inturn.Query(__name__, "charged")
GIVEN_BACK = inturn.Query(__name__, "given_back")
SUM_UP = inturn.Query(__name__, "sum_up")
ACCOUNTS = inturn.Query(__name__, "accounts", Account)


@app.job
async def book(ctx: inturn.Context, payments: list[Payment]) -> None:
    """Write payments down, and have each charged, or given back if that cannot be."""
    async with ctx.transaction() as t:
        await t.run_many(ADD_PAYMENTS, payments)
        for payment in payments:
            charged = charge.using(key=payment.account).call(payment)
            unless = give_back.using(after_failed=[charged]).call(payment)
            await t.submit_many([charged, unless])


@app.job(queue="bank", attempts=1)
async def charge(ctx: inturn.Context, payment: Payment) -> None:
    await ask_bank(payment)
    async with ctx.transaction() as t:
        await t.run(CHARGED, name=payment.name)


@app.job
async def give_back(ctx: inturn.Context, payment: Payment) -> None:
    effect("given_back", payment.name, payment.cents)
    async with ctx.transaction() as t:
        await t.run(GIVEN_BACK, name=payment.name)


async def sum_up(store: Store, _held_until: datetime) -> None:
    async with store.transaction() as t:
        await t.run(SUM_UP)


app.duty("ledger.sum_up", sum_up, every_seconds=0.1)


async def accounts() -> dict[str, Account]:
    found = await app.run(lambda store: store.read(ACCOUNTS))
    return {one.account: one for one in found}


async def ask_bank(payment: Payment) -> None:
    """Stand for the bank: it takes its time over some payments, and refuses others."""
    effect("began", payment.name, payment.cents)
    try:
        while payment.name.startswith("slow") and not may_end(payment.name):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        if payment.name.endswith("refused"):
            raise inturn.Reject("no such account")
    finally:
        effect("ended", payment.name, payment.cents)
