"""The arrays that our statements take and return, told to asyncpg so that it asks no server."""

from __future__ import annotations

import contextlib
from typing import Any

# The number of each type that there are arrays of, and of its arrays: the same on every server.
NUMBERS = {
    "bool": (16, 1000),
    "bytea": (17, 1001),
    "int8": (20, 1016),
    "int2": (21, 1005),
    "int4": (23, 1007),
    "text": (25, 1009),
    "float8": (701, 1022),
    "timestamptz": (1184, 1185),
    "uuid": (2950, 2951),
}

# As asyncpg reads them from the catalogue.
_ARRAYS = [
    {
        "oid": array,
        "ns": "pg_catalog",
        "name": f"_{name}",
        "kind": b"b",
        "basetype": None,
        "elemtype": element,
        "elemdelim": ",",
        "range_subtype": None,
        "attrtypoids": None,
        "attrnames": None,
        "depth": 1,
        "basetype_name": None,
        "elemtype_name": name,
        "range_subtype_name": None,
    }
    for name, (element, array) in NUMBERS.items()
]


async def tell_arrays(connection: Any) -> None:
    """Tell a new connection what our arrays are.

    It would ask for each when a statement first has one, and the question, a recursive query over
    the catalogue, takes the server 20 ms to plan: more than all else that a first verb does. The
    way to tell it is not among what asyncpg documents: one that has it no more asks, as before.
    """
    with contextlib.suppress(AttributeError, TypeError, KeyError):
        connection.get_settings().register_data_types(_ARRAYS)
