"""Shards: FNV-1a, the same everywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

import inturn
from inturn.executor import shard_for
from inturn.executor.settings import fnv1a_32
from inturn.model.errors import InvalidName

# From the reference test vectors of the digest's authors.
VECTORS = {
    b"": 0x811C9DC5,
    b"a": 0xE40C292C,
    b"b": 0xE70C2DE5,
    b"foo": 0xA9F37ED7,
    b"foobar": 0xBF9CF968,
    b"hello": 0x4F9F2CAB,
    b"\xff\x00\x00\x01": 0xC48FB86D,
}


@pytest.mark.parametrize(("data", "digest"), VECTORS.items())
def test_the_digest_is_fnv_1a_of_32_bits(data: bytes, digest: int) -> None:
    """(004-18)"""
    assert fnv1a_32(data) == digest


@pytest.mark.parametrize(
    ("key", "shards", "shard"), [("foobar", 4, 0), ("foobar", 7, 0xBF9CF968 % 7), ("a", 1, 0)]
)
def test_shard_for_is_the_digest_modulo_the_shards(key: str, shards: int, shard: int) -> None:
    """(004-18)"""
    assert shard_for(key, shards) == shard
    assert inturn.Executor(shards=shards).shard_for(key) == shard


@given(key=some.text(min_size=1, max_size=50), shards=some.integers(1, 10_000))
def test_a_shard_is_never_negative_and_never_too_large(key: str, shards: int) -> None:
    """(004-18)"""
    try:
        key.encode()
    except UnicodeEncodeError:
        return
    assert 0 <= shard_for(key, shards) < shards


@pytest.mark.parametrize("key", ["", "x" * 501, "\x00", None])
async def test_what_is_no_key_is_refused(key: str) -> None:
    async def job() -> None: ...

    async with inturn.Executor() as executor:
        for refused in (
            lambda: executor.submit(key, job),
            lambda: executor.submit_many([("fine", job), (key, job)]),
            lambda: executor.barrier(key),
        ):
            with pytest.raises(InvalidName, match="key"):
                await refused()
        with pytest.raises(InvalidName):
            executor.submit_sync(key, job)
        assert executor.keys_busy == 0
