"""What the protocol rests on, a rule each, and how large a world is explored."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of the protocol. All of them kept is the protocol that we ship."""

    positions_under_the_tail_lock: bool = True
    """A producer takes positions under the tail's lock, and keeps it until it commits."""
    positions_read_after_the_lock: bool = True
    """Where the tail stands is read once it is locked, not before."""
    active_read_after_the_lock: bool = True
    """A producer looks whether a lane is active once it holds the tail's lock, not before."""
    tails_locked_in_order: bool = True
    """Who needs several tails locks them in the order of lanes."""
    rests_under_the_tail_lock: bool = True
    """A lane is put to sleep only by who holds its tail's lock."""
    rests_after_a_second_look: bool = True
    """… and who finds under that lock that nothing stands in the lane."""
    rests_write_the_tail: bool = True
    """… and who writes the tail, so that an older snapshot cannot lock it."""
    transactions_leave_tails_alone: bool = True
    """A settle inside a longer transaction puts no lane to sleep: it would keep the tail."""
    tails_tried_by_consumers: bool = True
    """A consumer, who holds a lane, tries a tail's lock and never waits for it."""
    one_lease_a_lane: bool = True
    """A lane that is leased is not claimed."""
    claims_count_attempts: bool = True
    """An attempt is counted in the transaction that claims it."""
    suspects_leased_alone: bool = True
    """Jobs of a lease that ran out are leased alone."""
    settles_fenced: bool = True
    """A settle finds its lease, locked, and its token on the lane, or writes nothing."""
    tokens_new: bool = True
    """A lease's token was never another's."""
    buries_atomic: bool = True
    """A dead letter is written in the transaction that moves its lane on."""

    def without(self, rule: str) -> Rules:
        """Return these rules but one."""
        return replace(self, **{rule: False})


RULES = tuple(field.name for field in fields(Rules))


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One transaction of a producer: so many jobs for each of some lanes, in this order."""

    jobs: tuple[tuple[int, int], ...] = ((0, 1),)  # lane, how many
    repeatable_read: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How large a world is: who is in it, and how much may go wrong."""

    producers: tuple[tuple[Batch, ...], ...]
    workers: int = 2
    lanes: int = 1
    jobs_max: int = 2
    """The most jobs of one claim."""
    attempts_max: int = 1
    crashes: bool = True
    """Whether workers may die, at any step and any number of times."""
    stalls: bool = True
    """Whether a worker that lives may lose its lease, or the answer to its settle."""
    rollbacks: bool = True
    """Whether a producer may lose its transaction, at any step, and give up."""
    failures: bool = True
    """Whether a handler may fail: then its job is tried again, given back or buried."""
    followers: int = 0
    """How many jobs may be enqueued by workers, in the transactions that settle."""
    turns: bool = True
    """Whether workers may settle and claim in one transaction."""
