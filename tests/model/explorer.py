"""Walk through every state that can be reached, and say by which steps a promise is broken."""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from textwrap import fill

from tests.model import producers, promises, workers
from tests.model.database import Move
from tests.model.rules import Bounds, Rules
from tests.model.state import State, is_end, likeness, start

PROGRESS_SECONDS = 5.0
LINE_LENGTH = 110

Progress = Callable[[int, int], None]
"""Told now and then: how many states were seen, and how many of them are still to be left."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """The shortest way to a broken promise."""

    promise: str
    said: str
    moves: tuple[tuple[str, str], ...]  # who, does

    def __str__(self) -> str:
        lines = [
            f"{who} {', '.join(does for _, does in steps)}"
            for who, steps in groupby(self.moves, key=itemgetter(0))
        ]
        return "\n".join(
            fill(line, LINE_LENGTH, subsequent_indent="    ")
            for line in [*lines, f"=> {self.promise}: {self.said}"]
        )


@dataclass(slots=True)
class Explored:
    """What an exploration came to. With no counterexample, it has seen everything."""

    states: int
    moves: int
    depth: int
    ends: int
    seconds: float
    counterexample: Counterexample | None = None


def explore(
    bounds: Bounds,
    rules: Rules | None = None,
    *,
    aside: frozenset[str] = frozenset(),
    progress: Progress | None = None,
) -> Explored:
    """Explore a world, breadth first, until a promise is broken or nothing is left to see.

    Promises ``aside`` are not judged: what breaks one often breaks others later.
    """
    with _garbage_kept():
        return _Exploration(bounds, rules or Rules(), aside, progress).run()


def moves(state: State, rules: Rules, bounds: Bounds) -> Iterator[Move]:
    """Return every step that somebody can take in a state."""
    for number in range(len(state.producers)):
        yield from producers.moves(state, number, rules, bounds)
    for number in range(len(state.workers)):
        yield from workers.moves(state, number, rules, bounds)


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Collect no cycles: there are none among states, and looking takes as long as exploring."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(slots=True)
class _Exploration:
    bounds: Bounds
    rules: Rules
    aside: frozenset[str]
    progress: Progress | None
    numbers: dict[State, int] = field(default_factory=dict)
    came_from: list[tuple[int, str, str]] = field(default_factory=list)
    before: list[list[int]] = field(default_factory=list)  # by steps that are no faults
    depths: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    moved: int = 0
    started: float = field(default_factory=time.monotonic)

    def run(self) -> Explored:
        found = self._walk()
        if found is None and promises.STUCK not in self.aside:
            found = self._stuck()
        return Explored(
            states=len(self.came_from),
            moves=self.moved,
            depth=self.depths[-1],
            ends=len(self.ends),
            seconds=time.monotonic() - self.started,
            counterexample=found,
        )

    def _walk(self) -> Counterexample | None:
        first = start(self.bounds)
        self._see(first, (-1, "", ""))
        left = deque([first])
        shown = time.monotonic()
        number = -1
        while left:
            state = left.popleft()
            number += 1
            for move in moves(state, self.rules, self.bounds):
                self.moved += 1
                found = self._without_those_aside(move.state)
                after, is_new = self._see(found, (number, move.who, move.does))
                if is_new:
                    wrong = promises.broken(found, self.bounds, self.aside)
                    if wrong is not None:
                        return self._way_to(after, *wrong)
                    left.append(found)
                if not move.is_fault:
                    self.before[after].append(number)
            if self.progress and time.monotonic() - shown > PROGRESS_SECONDS:
                shown = time.monotonic()
                self.progress(len(self.came_from), len(left))
        return None

    def _without_those_aside(self, state: State) -> State:
        if not state.wrongs:
            return state
        kept = tuple(wrong for wrong in state.wrongs if wrong[0] not in self.aside)
        return state._replace(wrongs=kept)

    def _see(self, state: State, came_from: tuple[int, str, str]) -> tuple[int, bool]:
        known = len(self.came_from)
        number = self.numbers.setdefault(likeness(state), known)
        if number < known:
            return number, False
        self.came_from.append(came_from)
        self.before.append([])
        self.depths.append(self.depths[came_from[0]] + 1 if known else 0)
        if is_end(state):
            self.ends.append(number)
        return number, True

    def _stuck(self) -> Counterexample | None:
        """Find the nearest state from which no end can be reached without another fault."""
        reaches = bytearray(len(self.came_from))
        left = list(self.ends)
        for number in left:
            reaches[number] = True
        while left:
            for number in self.before[left.pop()]:
                if not reaches[number]:
                    reaches[number] = True
                    left.append(number)
        stuck = reaches.find(False)
        if stuck < 0:
            return None
        way = self._way_to(stuck, promises.STUCK, "")
        return replace(way, said=f"no good end can be reached; {self._locks_after(way)}")

    def _locks_after(self, way: Counterexample) -> str:
        """Say who holds what when a way has been gone."""
        state = start(self.bounds)
        for step in way.moves:
            state = next(
                move.state
                for move in moves(state, self.rules, self.bounds)
                if (move.who, move.does) == step
            )
        locks = {f"producer {n}": one.locks for n, one in enumerate(state.producers, start=1)}
        locks |= {f"worker {n}": one.locks for n, one in enumerate(state.workers, start=1)}
        held = [
            f"{who} holds {promises.row_name(row)}"
            for who, rows in locks.items()
            for row in rows
            if row[0] != "lease"
        ]
        return ", ".join(held)

    def _way_to(self, number: int, promise: str, said: str) -> Counterexample:
        steps = []
        while number > 0:
            number, who, does = self.came_from[number]
            steps.append((who, does))
        return Counterexample(promise, said, tuple(reversed(steps)))
