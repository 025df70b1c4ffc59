"""The graph of a group's steps: its checks, its waves, the order of its undo, its longest path."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from inturn.groups.model import Step
from inturn.model.errors import BadInput

Graph = Sequence[Sequence[int]]
"""Of each number, the numbers that it comes after."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a group would do, in which order, if nothing fails; and how it would be undone."""

    name: str
    waves: list[list[str]]  # each may begin when the one before it has ended
    undo_waves: list[list[str]]
    longest_path: list[str]
    nodes: dict[str, list[str]]  # what runs where
    irreversible: list[str]


def plan_of(name: str, steps: Sequence[Step]) -> Plan:
    """Say what a group would do."""
    after = [step.after for step in steps]
    forward = waves(after)
    reversible = [not step.irreversible for step in steps]
    nodes: dict[str, list[str]] = {}
    for step in steps:
        nodes.setdefault(step.node, []).append(step.name)

    def named(numbers: Sequence[int]) -> list[str]:
        return [steps[number].name for number in numbers]

    return Plan(
        name=name,
        waves=[named(wave) for wave in forward],
        undo_waves=[
            named(wave)
            for numbers in waves(backwards(after))
            if (wave := [number for number in numbers if reversible[number]])
        ],
        longest_path=named(longest_path(after)),
        nodes=nodes,
        irreversible=[step.name for step in steps if step.irreversible],
    )


def in_order(after: Graph) -> list[int]:
    """Return the numbers so that each stands behind all that it comes after; fewer in a cycle."""
    left = [len(set(one)) for one in after]
    followers = backwards(after)
    ready = deque(number for number, count in enumerate(left) if not count)
    ordered = []
    while ready:
        number = ready.popleft()
        ordered.append(number)
        for follower in followers[number]:
            left[follower] -= 1
            if not left[follower]:
                ready.append(follower)
    return ordered


def check_cycle(after: Graph, name: Callable[[int], str]) -> None:
    """Refuse steps that wait for one another in a circle, and name it."""
    ordered = set(in_order(after))
    if len(ordered) == len(after):
        return
    at = next(number for number in range(len(after)) if number not in ordered)
    path: list[int] = []
    while at not in path:  # whatever is in a circle, or behind one, comes after such a step
        path.append(at)
        at = next(one for one in after[at] if one not in ordered)
    circle = [*path[path.index(at) :], at]
    said = " → ".join(repr(name(number)) for number in reversed(circle))
    raise BadInput(f"these steps wait for one another in a circle: {said}. Break it.")


def backwards(after: Graph) -> list[list[int]]:
    """Return of each number those that come right after it: what its undo waits for."""
    followers: list[list[int]] = [[] for _ in after]
    for number, befores in enumerate(after):
        for before in dict.fromkeys(befores):
            followers[before].append(number)
    return followers


def waves(after: Graph) -> list[list[int]]:
    """Return the numbers in waves: each comes after something of the wave before it."""
    depth = _depths(after)
    found: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for number, one in enumerate(depth):
        found[one].append(number)
    return found


def longest_path(after: Graph) -> list[int]:
    """Return the longest chain of steps that wait for one another: how long it takes at least."""
    depth = _depths(after)
    if not depth:
        return []
    path = [max(range(len(depth)), key=depth.__getitem__)]
    while befores := after[path[-1]]:
        path.append(max(befores, key=depth.__getitem__))
    return path[::-1]


def chain(after: Graph, number: int) -> list[int]:
    """Return all that a step comes after, directly or not, in an order in which it can run."""
    wanted, found = deque([number]), {number}
    while wanted:
        for before in after[wanted.popleft()]:
            if before not in found:
                found.add(before)
                wanted.append(before)
    return [one for one in in_order(after) if one in found]


def _depths(after: Graph) -> list[int]:
    depth = [0] * len(after)
    for number in in_order(after):
        depth[number] = 1 + max((depth[before] for before in after[number]), default=-1)
    return depth
