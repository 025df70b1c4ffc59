"""Errors of a store: it cannot be reached, or cannot be used as it is."""

from __future__ import annotations

from collections.abc import Iterable

from inturn.model.error import InturnError


class StoreError(InturnError):
    """The store could not do its work."""


class StoreUnavailable(StoreError):
    """The store cannot be reached, or went away in the middle."""


class StoreBusy(StoreError):
    """Someone else held a lock on the store, or all its connections, for too long."""


class StoreFull(StoreError):
    """There is no room left where the store keeps its data. Nothing was stored."""


class ConstraintBroken(StoreError):
    """A row that a query of an application writes breaks a constraint of its table."""


class StoreReplaced(StoreError):
    """The store's file was deleted, or replaced by another, while it was open."""


class SchemaMissing(StoreError):
    """The store has no tables yet, or older ones."""


class SchemaTooNew(StoreError):
    """The store was made by a newer inturn."""

    def __init__(self, found: int, known: int, owner: str = "engine") -> None:
        self.found, self.known, self.owner = found, known, owner
        whose = "schema" if owner == "engine" else f"tables of {owner} in"
        super().__init__(
            f"this store has {whose} version {found}; this program knows up to {known}. "
            f"Upgrade it here, or point it at another store. Nothing was changed."
        )


class SchemaTaken(StoreError):
    """Where inturn's tables would be, there are others of the same names."""

    def __init__(self, where: str, names: Iterable[str], instead: str) -> None:
        self.names = tuple(sorted(names))
        super().__init__(
            f"{where} has {', '.join(self.names)} of its own, which inturn did not make, where "
            f"inturn's tables would be. {instead} Nothing was changed."
        )


class NoRights(StoreError):
    """The database user may not do this."""
