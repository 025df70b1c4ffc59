"""Transfers between outlets, kept in step with a retail API."""

import os

import msgspec

import inturn
from inturn import http

app = inturn.App(os.environ.get("INTURN_STORE", "sqlite:///work.db"))
api = http.Client(
    os.environ.get("RETAIL_API", "http://127.0.0.1:8900"),
    headers={"Authorization": f"Bearer {os.environ.get('RETAIL_TOKEN', 'secret')}"},
    timeout=float(os.environ.get("RETAIL_TIMEOUT", "10")),
)
app.on_stop(api.close)

# What comes after a transfer's dead letter waits until somebody decides. Below the API's own limit,
# in production: app.limit("retail", rate=50, per="5m")
app.queue("retail", on_dead="halt")
RETRY = inturn.RetryPolicy(attempts_max=8, base_seconds=0.2)  # 200, 400, 800 ms, …

TABLE = """
create table if not exists transfer (
    reference text not null primary key, consignment text, state text
)
"""
NOTE = """
insert into transfer (reference, consignment, state) values (?, ?, ?)
on conflict (reference) do update set consignment = excluded.consignment, state = excluded.state
"""


# Our transfers, to the API: one call a job, in order for each transfer


@app.job(queue="retail", retry=RETRY, timeout=60)
async def create(ctx: inturn.Context, reference: str, lines: dict[str, int]) -> None:
    given = {"reference": reference, "lines": lines}
    answer = await api.post(ctx, "/consignments", json=given)
    async with ctx.transaction() as t:
        await t.execute(NOTE, reference, answer.json()["id"], "OPEN")


@app.job(queue="retail", retry=RETRY, timeout=60)
async def update(ctx: inturn.Context, reference: str, lines: dict[str, int]) -> None:
    await api.put(ctx, f"/consignments/{await consignment_of(reference)}", json={"lines": lines})


@app.job(queue="retail", retry=RETRY, timeout=60)
async def receive(ctx: inturn.Context, reference: str) -> None:
    await api.post(ctx, f"/consignments/{await consignment_of(reference)}/receive", json={})


async def consignment_of(reference: str) -> str:
    async with app.transaction() as t:
        found = await t.execute("select consignment from transfer where reference = ?", reference)
    if not found:
        raise inturn.Reject(f"{reference} was never created")
    return str(found[0][0])


# The API's consignments, to us


class Consignment(msgspec.Struct):
    id: str
    version: int
    reference: str
    state: str
    lines: dict[str, int]
    deleted: bool = False


@app.source("consignments", every="5m", shadow=Consignment, deleted="deleted")
async def consignments(ctx: inturn.Context, cursor: str | None) -> inturn.Page[Consignment]:
    asked = {"after": cursor or "0", "page_size": "100"}
    page = (await api.get(ctx, "/consignments", params=asked)).json()
    return inturn.Page(page["data"], str(page["version"]), more=page["more"])


@consignments.on_change
async def changed(ctx: inturn.Context, change: inturn.Change[Consignment]) -> None:
    one = change.item
    state = "DELETED" if change.kind == inturn.ChangeKind.DELETED else one.state
    async with ctx.transaction() as t:
        await t.execute(NOTE, one.reference, one.id, state)


async def prepare() -> None:
    """Make the tables: inturn's and our own."""
    await app.migrate()
    async with app.transaction() as t:
        await t.execute(TABLE)


if __name__ == "__main__":
    app.sync(prepare())
