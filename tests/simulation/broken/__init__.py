"""Stores that break one promise each, on purpose: a checker that has never failed proves nothing.

Each wraps a real SQLite store and spoils a verb, or spoils the tables behind the store's back.
"""

from __future__ import annotations

from typing import cast

from inturn.store.store import Store
from tests.simulation.broken import acceptance, claims, leases
from tests.simulation.broken.store import Broken

KINDS = (acceptance, claims, leases)  # to import them is enough: they are found by their base


def every_broken_store() -> list[type[Broken]]:
    """Return all that name the checker who must notice."""
    found: list[type[Broken]] = []
    kinds = [Broken]
    while kinds:
        kind = kinds.pop(0)
        kinds += kind.__subclasses__()
        if kind.checker:
            found.append(kind)
    return found


def as_store(broken: Broken) -> Store:
    return cast(Store, broken)
