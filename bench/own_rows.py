"""An application's own rows: written many at once, against one by one, in one transaction.

The commit is not in the figures: it is the same for both, and the disk's.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from bench.compare import Bench, in_turn, rated
from bench.places import stores
from bench.sides import SideName
from bench.table import Bar, Row
from inturn.model.ids import new_id
from inturn.store.address import connect
from tests.shop import ADD_ITEM, ADD_ITEMS, SCHEMA, Item

BAR = Bar(20)


def run_many(bench: Bench) -> list[Row]:
    """Write rows to a file, and to PostgreSQL."""
    rows, count = [], bench.sizes.own_rows
    for name, store in stores(bench).items():

        def measure(side: SideName, store: Any = store) -> float:
            with store() as url:
                return asyncio.run(_rows_a_second(url, side, count))

        found = in_turn(bench, measure)
        note = "rows of five columns, with run_many and with run; without the commit"
        rows.append(
            rated(f"run-many-{name}", BAR, found["ours"], found["reference"], note=note, rows=count)
        )
    return rows


async def _rows_a_second(url: str, side: SideName, count: int) -> float:
    rows = [Item(id=new_id(), name=f"item {number}") for number in range(count)]
    store = connect(url)
    await store.migrate([SCHEMA])
    await store.open()
    try:
        async with store.transaction() as t:
            began = time.perf_counter()
            if side == "ours":
                await t.run_many(ADD_ITEMS, rows)
            else:
                for row in rows:
                    await t.run(ADD_ITEM, id=row.id, name=row.name, size=row.size, sold_at=None)
            seconds = time.perf_counter() - began
        return count / seconds
    finally:
        await store.close()
