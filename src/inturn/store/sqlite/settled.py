"""Which positions of a run are settled: ranges [first, last], in order, never touching."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

Ranges = list[tuple[int, int]]

_decoder = msgspec.json.Decoder(Ranges)


def decode_ranges(kept: str) -> Ranges:
    """Return the ranges of a kept JSON list."""
    return _decoder.decode(kept)


def encode_ranges(ranges: Ranges) -> str:
    """Return ranges as they are kept."""
    return msgspec.json.encode(ranges).decode()


def with_positions(ranges: Ranges, positions: Sequence[int]) -> Ranges:
    """Return the ranges with more positions in them, given in order, none of them there before."""
    added: Ranges
    if positions and positions[-1] - positions[0] == len(positions) - 1:
        added = [(positions[0], positions[-1])]
    else:
        added = [(position, position) for position in positions]
    return _joined(sorted([*ranges, *added]))


def _joined(ranges: Ranges) -> Ranges:
    """Join ranges that touch."""
    joined: Ranges = []
    for first, last in ranges:
        if joined and joined[-1][1] + 1 == first:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined


def holds(ranges: Ranges, position: int) -> bool:
    """Say whether a position is in one of the ranges."""
    return any(first <= position <= last for first, last in ranges)


def missing(ranges: Ranges, first: int, last: int) -> list[int]:
    """Return the positions from first to last that are in none of the ranges."""
    settled = {position for low, high in ranges for position in range(low, high + 1)}
    return [position for position in range(first, last + 1) if position not in settled]
