"""How many jobs may wait, in each shard and in all, and who waits until there is room."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import MutableMapping
from typing import TypeVar

from inturn.executor.home import Signal
from inturn.executor.ticket import LocalTicket
from inturn.executor.turnstile import Turnstile
from inturn.model.errors import EnqueueTimeout, InturnError, ShardFull

Name = TypeVar("Name")


class Offer:
    """Jobs that someone wants accepted, all or none."""

    __slots__ = ("accepted", "is_in_line", "needs", "refused", "signal", "starts_ever", "tickets")

    def __init__(self, tickets: list[LocalTicket], signal: Signal | None = None) -> None:
        self.tickets = tickets
        self.needs = Counter(ticket.shard for ticket in tickets)
        self.signal = signal
        self.accepted = self.is_in_line = False
        self.starts_ever = False  # in line: whether it may start without room when slots are free
        self.refused: InturnError | None = None  # why, if something came up while they waited

    @property
    def keys(self) -> set[str]:
        """The keys of its jobs."""
        return {ticket.key for ticket in self.tickets}


class Room:
    """The bounds on what waits, and the line of those who wait for room, one for each shard."""

    __slots__ = (
        "asleep",
        "asleep_total",
        "by_key",
        "depth_max",
        "depths",
        "offers",
        "queue_size",
        "total",
        "turnstile",
    )

    def __init__(self, shards: int, queue_size: int, depth_max: int) -> None:
        self.queue_size = queue_size
        self.depth_max = depth_max
        self.depths = [0] * shards
        self.total = 0
        self.asleep = [0] * shards  # of the depths: what waits to run again
        self.asleep_total = 0
        self.offers: dict[int, deque[Offer]] = {}  # only shards where someone waits
        self.by_key: dict[str, deque[Offer]] = {}  # the same, by their jobs' keys
        self.turnstile = Turnstile(self.by_key)

    def fits(self, offer: Offer) -> bool:
        """Whether all jobs of an offer fit."""
        return self.total + len(offer.tickets) <= self.depth_max and all(
            self.depths[shard] + count <= self.queue_size for shard, count in offer.needs.items()
        )

    def never_fits(self, offer: Offer) -> bool:
        """Whether an offer is too large for an executor that is empty."""
        return len(offer.tickets) > max(1, self.depth_max) or any(
            count > max(1, self.queue_size) for count in offer.needs.values()
        )

    def add(self, shard: int) -> None:
        """Count a job that waits."""
        self.depths[shard] += 1
        self.total += 1

    def fall_asleep(self, shard: int) -> None:
        """Count a job that waits to run again."""
        self.add(shard)
        self.asleep[shard] += 1
        self.asleep_total += 1

    def wake(self, shard: int) -> None:
        """Count a job no longer as one that waits to run again; it may wait still."""
        self.asleep[shard] -= 1
        self.asleep_total -= 1

    def bears(self, shard: int) -> bool:
        """Whether a job may run without room, though it may fail and wait to run again.

        Only if what does so already leaves room for who stands first in line: else those who come
        and fail would keep out for ever those who wait, and nothing would bound how many they are.
        """
        line = self.offers.get(shard)
        needed, in_all = (line[0].needs[shard], len(line[0].tickets)) if line else (1, 1)
        return (
            self.asleep[shard] + needed <= self.queue_size
            and self.asleep_total + in_all <= self.depth_max
        )

    def is_first(self, offer: Offer) -> bool:
        """Whether nobody has waited longer in any of an offer's shards."""
        offers = self.offers
        return not offers or all(
            shard not in offers or offers[shard][0] is offer for shard in offer.needs
        )

    def is_first_of(self, key: str, offer: Offer) -> bool:
        """Whether nobody has waited longer with a job of a key."""
        line = self.by_key.get(key)
        return line is None or line[0] is offer

    def wait(self, offer: Offer) -> None:
        """Put an offer at the end of the line of each of its shards."""
        offer.is_in_line = True
        for shard in offer.needs:
            self.offers.setdefault(shard, deque()).append(offer)
        keys = offer.keys
        for key in keys:
            self.by_key.setdefault(key, deque()).append(offer)
        offer.starts_ever = len(keys) == len(offer.tickets) and not self.never_fits(offer)
        self.turnstile.joined(offer)

    def remove(self, offer: Offer) -> None:
        """Take an offer out of every line it is in."""
        if offer.is_in_line:
            offer.is_in_line = False
            for shard in offer.needs:
                _take_out(offer, self.offers, shard)
            keys = offer.keys
            for key in keys:
                _take_out(offer, self.by_key, key)
            self.turnstile.left(keys)

    def waiting(self) -> list[Offer]:
        """Return all offers that wait for room, each once."""
        return list({id(offer): offer for line in self.offers.values() for offer in line}.values())

    def complaint(self, offer: Offer, waited_seconds: float) -> ShardFull:
        """Return the error for who found no room: in a shard, in all of them, or behind others."""
        ticket, is_total = self._refused_by(offer)
        if is_total:
            length, capacity, added = self.total, self.depth_max, len(offer.tickets)
        else:
            length, capacity = self.depths[ticket.shard], self.queue_size
            added = offer.needs[ticket.shard]
        told = (ticket.key, ticket.shard, length, capacity, added)
        if waited_seconds > 0:
            return EnqueueTimeout(*told, waited_seconds, is_total=is_total)
        return ShardFull(*told, is_total=is_total)

    def _refused_by(self, offer: Offer) -> tuple[LocalTicket, bool]:
        """Return a ticket whose shard keeps an offer out, and whether all shards together do."""
        for ticket in offer.tickets:
            if self.depths[ticket.shard] + offer.needs[ticket.shard] > self.queue_size:
                return ticket, False
        if self.total + len(offer.tickets) > self.depth_max:
            return offer.tickets[0], True
        behind = (ticket for ticket in offer.tickets if ticket.shard in self.offers)
        return next(behind, offer.tickets[0]), False


def _take_out(offer: Offer, lines: MutableMapping[Name, deque[Offer]], name: Name) -> None:
    """Take an offer out of one of many lines, and the line away if it is empty."""
    line = lines[name]
    if line[0] is offer:
        line.popleft()
    else:
        line.remove(offer)
    if not line:
        del lines[name]
