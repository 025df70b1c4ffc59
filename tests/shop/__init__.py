"""An application as users write one: a table of its own, and queries on it. Tests play with it."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from uuid import UUID

import msgspec

from inturn.store.queries import Query
from inturn.store.schema import Schema

SCHEMA = Schema("shop", __name__)


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Item(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    name: str
    size: Size = Size.SMALL
    sold: bool = False
    sold_at: datetime | None = None


class Counted(msgspec.Struct, frozen=True):
    items: int


ADD_ITEM = Query(__name__, "add_item", Counted)
ADD_ITEMS = Query(__name__, "add_items")
ITEMS = Query(__name__, "items", Item)
SELL = Query(__name__, "sell", Item)
SOLD_BEFORE = Query(__name__, "sold_before", Counted)
