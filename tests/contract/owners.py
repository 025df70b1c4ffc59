"""Applications with tables of their own: those that are installed, and the tests' own."""

from __future__ import annotations

from inturn.store.schema import Schema, installed_schemas
from tests import ledger, shop


def owners() -> list[Schema]:
    """Return the schema of every application that is installed, and of the tests' own."""
    return [*installed_schemas(), shop.SCHEMA, ledger.LEDGER]
