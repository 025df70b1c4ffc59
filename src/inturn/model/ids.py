"""Public ids: UUID version 7, strictly increasing within a process whatever the clock does.

They are names, not order: order is a job's position, given under a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from uuid import UUID, SafeUUID

import uuid_utils

from inturn.model.forks import in_forked_child

_RANDOM_LOW = (1 << 62) - 1


class Ids:
    """A source of ids, each larger than the one before, also when the clock steps back."""

    def __init__(self, source: Callable[[], int] | None = None) -> None:
        self._source = source or _fresh
        self._last = 0
        self._lock = threading.Lock()

    def next(self) -> UUID:
        """Return an id larger than every id this source has given."""
        with self._lock:
            candidate = self._source()
            if candidate <= self._last:
                candidate = _successor(self._last)
            self._last = candidate
        return _uuid(candidate)


def _fresh() -> int:
    return uuid_utils.uuid7().int


_new = object.__new__
_set_int = UUID.__dict__["int"].__set__
_set_is_safe = UUID.__dict__["is_safe"].__set__
_UNKNOWN = SafeUUID.unknown


def _uuid(value: int) -> UUID:
    """Make a UUID of a value known to be one, in a sixth of its constructor's time."""
    made = _new(UUID)
    _set_int(made, value)
    _set_is_safe(made, _UNKNOWN)
    return made


def _successor(value: int) -> int:
    """Return the next larger version-7 value: count in the 74 free bits, carry into the time."""
    low = value & _RANDOM_LOW
    middle = (value >> 64) & 0xFFF
    millis = value >> 80
    low += 1
    if low > _RANDOM_LOW:
        low, middle = 0, middle + 1
    if middle > 0xFFF:
        middle, millis = 0, millis + 1
    return (millis << 80) | (0x7 << 76) | (middle << 64) | (0x2 << 62) | low


_process_ids = Ids()


def _begin_anew() -> None:
    """Forget the parent's last id, which a forked child would count on from as its parent does,
    and its lock, which another thread may have held.
    """
    global _process_ids
    _process_ids = Ids()


in_forked_child(_begin_anew)


def new_id() -> UUID:
    """Return a new id of this process."""
    return _process_ids.next()
