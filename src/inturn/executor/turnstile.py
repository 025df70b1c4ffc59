"""Who of those in line for room could start at once, found without going through the line.

An offer is filed under what has to change before it can start: a shard that bears no more, how many
slots it needs, or a key of it that has jobs already. So a look costs no more than what has changed
since the last one, and the number of shards that have a line, however many wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inturn.executor.room import Offer

_FILED_MIN = 64  # fewer entries than this are not worth being gone through


class Turnstile:
    """The offers that are the first of all their keys, by the key whose turn comes first.

    Such an offer, if it can ever start without room, has an entry: its turn and that key. Entries
    that are void are passed over when they are met, and all are made anew when the most may be.
    """

    __slots__ = ("_by_key", "_filed", "_files", "_next_turn", "_turns", "held")

    def __init__(self, by_key: Mapping[str, deque[Offer]]) -> None:
        self._by_key = by_key
        self._turns: dict[str, int] = {}  # the keys that wait: the lower, the sooner
        self._next_turn = count()
        self._files: dict[tuple[int, int], list[tuple[int, str]]] = {}  # by shard and slots needed
        self._filed = 0  # all entries, also those that are held
        self.held: dict[str, list[str]] = {}  # keys, by the one whose lane keeps their offer out

    def joined(self, offer: Offer) -> None:
        """Note an offer that has come into line; its keys that are new there have the last turn."""
        for key in offer.keys:
            if key not in self._turns:
                self._turns[key] = next(self._next_turn)
        self._file(offer)

    def left(self, keys: Iterable[str]) -> None:
        """Note that an offer with such keys has left the line, and others may be first now."""
        firsts: dict[int, Offer] = {}
        for key in keys:
            line = self._by_key.get(key)
            if line is None:
                del self._turns[key]
            else:
                firsts[id(line[0])] = line[0]
        if not self._turns:  # nobody waits: nothing is kept
            self._files.clear()
            self.held.clear()
            self._filed = 0
        for offer in firsts.values():
            self._file(offer)

    def put_last(self, key: str) -> None:
        """Let all other keys have their turn before a key, if that waits."""
        if key in self._turns:
            self._turns[key] = next(self._next_turn)
            self._file(self._by_key[key][0])

    def release(self, key: str) -> None:
        """Note that a key has no lane any more."""
        held = self.held.pop(key, ())
        self._filed -= len(held)
        for one in held:
            if one in self._turns:
                self._file(self._by_key[one][0])

    def first(
        self, slots: int, bears: Callable[[int], bool], lanes: Container[str]
    ) -> Offer | None:
        """Return whose turn it is of those that could start on so many slots, if there are any."""
        while (found := self._top(slots, bears)) is not None:
            key, file = found
            offer = self._by_key[key][0]
            taken = next((one for one in offer.keys if one in lanes), None)
            if taken is not None:
                self._take(file)
                self._hold(taken, key)
                continue
            needed = len(offer.tickets)
            full = next((one for one in offer.needs if needed > slots or not bears(one)), None)
            if full is None:
                return offer
            self._take(file)
            self._put(offer, full)
        return None

    def _top(self, slots: int, bears: Callable[[int], bool]) -> tuple[str, tuple[int, int]] | None:
        """Return the entry with the first turn, of those that are worth a look, and its file."""
        best: tuple[int, str] | None = None
        where = (0, 0)
        for file in list(self._files):
            shard, needed = file
            if needed > slots or not bears(shard):
                continue
            entry = self._first_in(file)
            if entry is not None and (best is None or entry < best):
                best, where = entry, file
        return None if best is None else (best[1], where)

    def _first_in(self, file: tuple[int, int]) -> tuple[int, str] | None:
        entries = self._files[file]
        while entries:
            turn, key = entries[0]
            if self._turns.get(key) == turn and self._belongs(self._by_key[key][0]):
                return entries[0]
            self._take(file)
        return None

    def _belongs(self, offer: Offer) -> bool:
        """Whether an offer that is the first of one of its keys is to have an entry."""
        return offer.starts_ever and all(self._by_key[key][0] is offer for key in offer.keys)

    def _file(self, offer: Offer) -> None:
        """File an offer as if only a shard of its own kept it out, if it is the first in line."""
        if not self._belongs(offer):
            return
        if self._filed < max(_FILED_MIN, 2 * len(self._turns)):
            self._put(offer, offer.tickets[0].shard)
            return
        self._files.clear()
        self.held.clear()
        self._filed = 0
        for first in {id(line[0]): line[0] for line in self._by_key.values()}.values():
            if self._belongs(first):
                self._put(first, first.tickets[0].shard)

    def _put(self, offer: Offer, shard: int) -> None:
        turn, key = min((self._turns[key], key) for key in offer.keys)
        heappush(self._files.setdefault((shard, len(offer.tickets)), []), (turn, key))
        self._filed += 1

    def _take(self, file: tuple[int, int]) -> None:
        """Take the first entry out of a file."""
        entries = self._files[file]
        heappop(entries)
        self._filed -= 1
        if not entries:
            del self._files[file]

    def _hold(self, taken: str, key: str) -> None:
        """Keep a key until another, or itself, has no lane any more."""
        self.held.setdefault(taken, []).append(key)
        self._filed += 1
