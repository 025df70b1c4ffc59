"""How many jobs may wait, in each shard and in all, and who waits until there is room."""

from __future__ import annotations

from collections import Counter, deque

from inturn.executor.home import Signal
from inturn.executor.ticket import LocalTicket
from inturn.model.errors import EnqueueTimeout, InturnError, ShardFull


class Offer:
    """Jobs that someone wants accepted, all or none."""

    __slots__ = ("accepted", "needs", "refused", "signal", "tickets")

    def __init__(self, tickets: list[LocalTicket], signal: Signal | None = None) -> None:
        self.tickets = tickets
        self.needs = Counter(ticket.shard for ticket in tickets)
        self.signal = signal
        self.accepted = False
        self.refused: InturnError | None = None  # why, if something came up while they waited


class Room:
    """The bounds on what waits, and the line of those who wait for room, one for each shard."""

    __slots__ = ("depth_max", "depths", "offers", "queue_size", "total")

    def __init__(self, shards: int, queue_size: int, depth_max: int) -> None:
        self.queue_size = queue_size
        self.depth_max = depth_max
        self.depths = [0] * shards
        self.total = 0
        self.offers: dict[int, deque[Offer]] = {}  # only shards where someone waits

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

    def is_first(self, offer: Offer) -> bool:
        """Whether nobody has waited longer in any of an offer's shards."""
        offers = self.offers
        return not offers or all(
            shard not in offers or offers[shard][0] is offer for shard in offer.needs
        )

    def wait(self, offer: Offer) -> None:
        """Put an offer at the end of the line of each of its shards."""
        for shard in offer.needs:
            self.offers.setdefault(shard, deque()).append(offer)

    def remove(self, offer: Offer) -> None:
        """Take an offer out of every line it is in."""
        for shard in offer.needs:
            line = self.offers.get(shard)
            if line is None:
                continue
            if line[0] is offer:
                line.popleft()
            elif offer in line:
                line.remove(offer)
            if not line:
                del self.offers[shard]

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
