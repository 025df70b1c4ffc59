"""The second version of the ledger: it notes why a payment was given back."""

from __future__ import annotations

import inturn
from tests.ledger import Payment, app
from tests.processes.jobs import effect

NOTE = inturn.Query("tests.ledger", "note")


@app.job
async def note(ctx: inturn.Context, payment: Payment, text: str) -> None:
    async with ctx.transaction() as t:
        await t.run(NOTE, name=payment.name, text=text)
    effect("noted", payment.name, payment.cents)
