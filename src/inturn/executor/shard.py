"""Which shard a key belongs to: a label for metrics and a bound on what waits, never a lock."""

from __future__ import annotations

_OFFSET = 0x811C9DC5
_PRIME = 0x01000193


def fnv1a_32(data: bytes) -> int:
    """Return the 32-bit FNV-1a digest of some bytes."""
    digest = _OFFSET
    for byte in data:
        digest = ((digest ^ byte) * _PRIME) & 0xFFFFFFFF
    return digest


def shard_for(key: str, shards: int) -> int:
    """Return the shard of a key, from 0: the same in every process and on every machine."""
    return fnv1a_32(key.encode()) % shards
