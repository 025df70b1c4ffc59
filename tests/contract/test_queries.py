"""An application's own queries: named parameters, rows as its own types, many rows at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio

from inturn.model.clock import ManualClock
from inturn.model.errors import BadInput, ConstraintBroken
from inturn.model.ids import new_id
from inturn.store.address import connect
from inturn.store.queries import SLICE_BYTES, Query
from inturn.store.store import Store
from tests.contract.support import enqueue, job, run_all
from tests.shop import ADD_ITEM, ADD_ITEMS, ITEMS, SCHEMA, SELL, SOLD_BEFORE, Counted, Item, Size

NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def shop(store: Store) -> None:
    await store.migrate([SCHEMA])


def items(number: int, name: str = "pen") -> list[Item]:
    return [Item(id=new_id(), name=f"{name} {at:06}") for at in range(number)]


async def add(store: Store, *items: Item) -> None:
    async with store.transaction() as t:
        for one in items:
            added = await t.run(
                ADD_ITEM, id=one.id, name=one.name, size=one.size, sold_at=one.sold_at
            )
            assert added == [Counted(1)]


async def test_rows_come_back_as_they_were_given(store: Store) -> None:
    """Ids, enums, truth and times, which each database keeps in its own way."""
    sold = Item(id=new_id(), name="a pen: 'x'", size=Size.LARGE, sold=True, sold_at=NOON)
    plain = Item(id=new_id(), name="b")
    async with store.transaction() as t:
        await t.run_many(ADD_ITEMS, [sold, plain])
        assert await t.run(ITEMS, name=None) == [sold, plain]  # it sees what it wrote
    assert await store.read(ITEMS, name=None) == [sold, plain]
    assert await store.read(ITEMS, name="b") == [plain]
    await add(store, msgspec.structs.replace(sold, id=new_id(), name="c", sold=False))
    [found] = await store.read(ITEMS, name="c")
    assert (found.sold_at, found.size) == (NOON, Size.LARGE)
    assert await store.read(SOLD_BEFORE, until=NOON) == [Counted(0)]
    assert await store.read(SOLD_BEFORE, until=NOON + timedelta(microseconds=1)) == [Counted(2)]


@pytest.mark.parametrize("store_kind", ["sqlite"], indirect=True)
async def test_an_id_is_the_same_in_a_statement_and_in_a_query(store: Store) -> None:
    [one] = items(1)
    await add(store, one)
    async with store.transaction() as t:
        found = await t.execute("select name from shop_item where id = ?", one.id)
    assert found == [(one.name,)]


async def test_now_is_the_time_of_the_store_unless_it_is_given(
    store: Store, clock: ManualClock
) -> None:
    [first, second] = items(2)
    await add(store, first, second)
    async with store.transaction() as t:
        [sold] = await t.run(SELL, id=first.id)
        assert (sold.sold, sold.sold_at) == (True, clock.now())
        [sold] = await t.run(SELL, id=second.id, now=NOON)
        assert sold.sold_at == NOON


async def test_without_a_type_rows_are_tuples(store: Store) -> None:
    await add(store, *items(1))
    query = Query("tests.shop", "sold_before")
    assert await store.read(query, until=NOON) == [(0,)]


async def test_many_rows_are_cut_into_slices(store: Store) -> None:
    rows = [msgspec.to_builtins(one) for one in items(5000, "x" * 1000)]
    assert sum(len(msgspec.json.encode(row)) for row in rows) > 2 * SLICE_BYTES
    async with store.transaction() as t:
        await t.run_many(ADD_ITEMS, rows)
        await t.run_many(ADD_ITEMS, [])
        await t.run_many(ADD_ITEMS, [{**rows[0], "id": str(new_id()), "sold_at": NOON}])
    found = await store.read(ITEMS, name=None)
    assert len(found) == 5001
    assert {one.sold_at for one in found} == {None, NOON}


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        (1, "Structs or dicts"),
        (Item(id=new_id(), name="a", sold_at=NOON.replace(tzinfo=None)), "no time zone"),
        ({"id": "1", "sold_at": NOON.replace(tzinfo=None)}, "no time zone"),
        (Item(id=new_id(), name="a\\\0b"), "NUL"),
    ],
)
async def test_rows_that_would_be_stored_otherwise_are_refused(
    store: Store, row: object, wrong: str
) -> None:
    """A NUL, which SQLite's JSON would cut off; a time that would be read in the server's zone."""
    async with store.transaction() as t:
        with pytest.raises(BadInput, match=wrong):
            await t.run_many(ADD_ITEMS, [row])
        await t.run_many(ADD_ITEMS, items(1, "says \\u0000 \\\\u0000"))
    [found] = await store.read(ITEMS, name=None)
    assert found.name == "says \\u0000 \\\\u0000 000000"


async def test_own_rows_and_jobs_are_taken_back_together(store: Store) -> None:
    async def half() -> None:
        async with store.transaction() as t:
            await t.run_many(ADD_ITEMS, items(3))
            await enqueue(t, job())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await half()
    assert await store.read(ITEMS, name=None) == []
    assert await run_all(store) == []


async def test_a_read_that_writes_is_refused_and_writes_nothing(store: Store) -> None:
    await add(store, one := items(1)[0])
    with pytest.raises(BadInput, match="Run it in a transaction"):
        await store.read(SELL, id=one.id)
    assert await store.read(ITEMS, name=None) == [one]
    await add(store, *items(1))  # the connection that read may be one that writes


async def test_a_read_does_not_wait_for_who_writes(store: Store) -> None:
    await add(store, one := items(1)[0])
    async with store.transaction() as t:
        await t.run(SELL, id=one.id)
        assert await store.read(ITEMS, name=None) == [one]


@pytest.mark.parametrize(
    ("parameters", "wrong"),
    [({}, "name not given"), ({"name": "a", "nmae": "b"}, "nmae not read")],
)
async def test_parameters_must_be_those_that_the_text_reads(
    store: Store, parameters: dict[str, str], wrong: str
) -> None:
    with pytest.raises(BadInput, match=wrong):
        await store.read(ITEMS, **parameters)
    async with store.transaction() as t:
        with pytest.raises(BadInput, match=wrong):
            await t.run(ITEMS, **parameters)


async def test_a_query_that_is_not_there_is_named(store: Store) -> None:
    with pytest.raises(BadInput, match="no query 'gone'"):
        await store.read(Query("tests.shop", "gone"))


async def test_a_row_that_is_not_of_its_type_is_told(store: Store) -> None:
    class Other(msgspec.Struct):
        id: UUID
        name: int

    await add(store, *items(1))
    with pytest.raises(BadInput, match="no Other"):
        await store.read(Query("tests.shop", "items", Other), name=None)


async def test_what_the_database_says_of_a_query_is_told(store: Store) -> None:
    one = items(1)[0]
    await add(store, one)
    with pytest.raises(ConstraintBroken, match=r"(?i)'add_item'\): .*unique"):
        await add(store, one)
    with pytest.raises(ConstraintBroken, match=r"(?i)not.null"):
        async with store.transaction() as t:
            await t.run(ADD_ITEM, id=new_id(), name=None, size=one.size, sold_at=None)
    with pytest.raises(BadInput, match=r"cannot run .*'all_notes'\): .*note"):
        await store.read(Query("tests.contract.notes", "all_notes"))  # its tables are not made
    with pytest.raises(BadInput, match=r"(?i)cannot run .*'add_items'\): .*json"):
        async with store.transaction() as t:
            await t.run(ADD_ITEMS, rows="no JSON")
    assert await store.read(ITEMS, name=None) == [one]


@pytest.mark.parametrize("store_kind", ["sqlite"], indirect=True)
async def test_in_memory_where_there_is_one_connection_a_read_cannot_write_either() -> None:
    memory = connect("sqlite:///:memory:")
    await memory.open()
    await memory.migrate([SCHEMA])
    [one, two] = items(2)
    await add(memory, one)
    with pytest.raises(BadInput, match="Run it in a transaction"):
        await memory.read(SELL, id=one.id)
    async with memory.transaction() as t:
        await t.run_many(ADD_ITEMS, [two])
        assert await memory.read(ITEMS, name=None) == [one, two]
        [sold] = await t.run(SELL, id=one.id)
    assert sold in await memory.read(ITEMS, name=None)
    await memory.close()
