"""A store that asks another: for stores that add something to a few of its verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inturn.store.store import Store

if TYPE_CHECKING:
    _Verbs = Store
else:
    _Verbs = object


class StoreDelegate(_Verbs):
    """Does every verb as the store it is made with does."""

    def __init__(self, store: Store) -> None:
        self._store = store

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)
