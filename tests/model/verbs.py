"""The model's steps taken together as verbs, as a real connection would be asked for them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.model import producers, workers
from tests.model.database import Move
from tests.model.rules import Bounds, Rules
from tests.model.state import Producer, State, start

SETTLES = ("done", "done in part", "retry", "bury", "release")

OPEN = "open"  # it has done its work, and is to commit
OVER = "over"  # it has ended, and there is nothing to commit
LOST = "lost"  # its lease is gone
REFUSED = "refused"  # it could not serialize
HELD_UP = "held up"  # it waits for a lock

CLAIMS_IN_VAIN = 0.2  # how often a claim is made though there is nothing to find


class Verb(NamedTuple):
    """Something that one of the actors is asked to do."""

    who: str
    name: str

    def __str__(self) -> str:
        return f"{self.who}: {self.name}"


def verb(said: str) -> Verb:
    """Read a verb as a schedule writes it: ``worker 1: settle done``."""
    who, _, name = said.partition(": ")
    return Verb(who, name)


@dataclass(slots=True)
class Play:
    """A world of the model that is moved verb by verb."""

    bounds: Bounds
    rules: Rules = field(default_factory=Rules)
    state: State = field(init=False)
    waiting: dict[str, str] = field(default_factory=dict)  # who is held up, in which verb

    def __post_init__(self) -> None:
        self.state = start(self.bounds)

    def ask(self, asked: Verb) -> str:
        """Take the steps of a verb, as far as they go; return how it came out."""
        outcome = self._take(asked)
        if outcome == HELD_UP:
            self.waiting[asked.who] = asked.name
        return outcome

    def let_go(self) -> dict[str, str]:
        """Let those go on who are held up no longer; return who did, and how it came out."""
        gone: dict[str, str] = {}
        for who, name in list(self.waiting.items()):
            del self.waiting[who]
            outcome = self.ask(Verb(who, name))
            if outcome != HELD_UP:
                gone[who] = outcome
        return gone

    def can_be_asked(self) -> Iterator[Verb]:
        """Return the verbs that make sense now."""
        for number, producer in enumerate(self.state.producers, start=1):
            who = f"producer {number}"
            if who not in self.waiting:
                yield from (Verb(who, name) for name in _of_producer(producer))
        for number in range(1, len(self.state.workers) + 1):
            who = f"worker {number}"
            if who not in self.waiting:
                yield from (Verb(who, name) for name in self._of_worker(number - 1))

    def foresee(self, asked: Verb) -> tuple[str, bool]:
        """Return how a verb would come out, and whether it would change anything."""
        before, waiting = self.state, dict(self.waiting)
        outcome = self.ask(asked)
        changes = self.state != before or outcome == HELD_UP
        self.state, self.waiting = before, waiting
        return outcome, changes

    def _of_worker(self, number: int) -> Iterator[str]:
        worker = self.state.workers[number]
        if worker.step in ("committing", "settled"):
            yield from ("commit", "die")
        elif worker.held is not None:
            yield "die"
            for verdict in SETTLES:
                if verdict != "done in part" or worker.held.last > worker.held.first:
                    yield f"settle {verdict}"
                    if verdict != "done in part":
                        yield f"turn {verdict}"
        else:
            yield "claim"
            if self._reclaims(number):
                yield "reclaim"

    def _reclaims(self, number: int) -> list[Move]:
        return [move for move in self._moves(number) if "takes back" in move.does]

    def _take(self, asked: Verb) -> str:
        kind, number = asked.who.split()
        if kind == "producer":
            return self._produce(int(number) - 1, asked.name)
        return self._work(int(number) - 1, asked.name)

    def _produce(self, number: int, name: str) -> str:
        def moves() -> list[Move]:
            found = producers.moves(self.state, number, self.rules, self.bounds)
            return [move for move in found if move.is_fault == (name == "roll back")]

        if name != "enqueue":
            self.state = moves()[0].state
            return OPEN if name == "begin" else OVER
        begun = self.state.producers[number].step != "idle"
        while self.state.producers[number].step != "committing":
            if not (found := moves()):
                return HELD_UP
            self.state = found[0].state
            if begun and self.state.producers[number].step == "idle":
                return REFUSED
            begun = True
        return OPEN

    def _work(self, number: int, name: str) -> str:
        verb, _, verdict = name.partition(" ")
        if verb in ("settle", "turn"):
            outcome = self._settle(number, verdict)
            if outcome == OPEN and verb == "turn" and self._go(number, "claiming"):
                return self._claim(number)
            return outcome
        if verb == "claim":
            return self._claim(number) if self._go(number, "claiming") else OVER
        if verb == "reclaim":
            self.state = self._reclaims(number)[0].state
            return OPEN
        wanted = {"commit": "commits", "die": "dies and is replaced"}[verb]
        [self.state] = [move.state for move in self._moves(number) if move.does == wanted]
        return OVER

    def _claim(self, number: int) -> str:
        while self.state.workers[number].step in ("claiming", "found empty"):
            found = [move for move in self._moves(number) if not move.is_fault]
            if not found:
                return HELD_UP
            self.state = found[0].state
        return OVER if self.state.workers[number].step == "idle" else OPEN

    def _settle(self, number: int, verdict: str) -> str:
        if self.state.workers[number].step == "idle":
            found = [move for move in self._moves(number) if not move.is_fault]
            if not found:
                return HELD_UP
            if not self._go(number, verdict):
                self.state = found[0].state
                return LOST
        if not self._go(number, "settled", "committing"):
            self._go(number, "idle")
            return LOST
        return OPEN

    def _go(self, number: int, *steps: str) -> bool:
        """Take the step that leads a worker to one of these, if there is one."""
        for move in self._moves(number):
            if not move.is_fault and move.state.workers[number].step in steps:
                self.state = move.state
                return True
        return False

    def _moves(self, number: int) -> list[Move]:
        return list(workers.moves(self.state, number, self.rules, self.bounds))


def walk(play: Play, seed: int, verbs_max: int) -> Iterator[Verb]:
    """Choose verbs by chance. No two are held up at a time: who goes on first is not promised."""
    chance = random.Random(seed)

    def is_worth_asking(one: Verb) -> bool:
        outcome, changes = play.foresee(one)
        if outcome == HELD_UP and play.waiting:
            return False
        return changes or chance.random() < CLAIMS_IN_VAIN

    for _ in range(verbs_max):
        found = [one for one in play.can_be_asked() if is_worth_asking(one)]
        if found:
            # First who, then what: settles have many names, and commits are to come in between.
            who = chance.choice(sorted({one.who for one in found}))
            yield chance.choice([one for one in found if one.who == who])


def _of_producer(producer: Producer) -> Iterator[str]:
    if not producer.batches:
        return
    if producer.step == "idle":
        yield "begin" if producer.batches[0].repeatable_read else "enqueue"
    elif producer.step == "committing":
        yield from ("commit", "roll back")
    else:
        yield "enqueue"
