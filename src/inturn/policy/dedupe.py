"""What makes two submissions the same: a digest of canonical JSON, never of a joined string."""

from __future__ import annotations

import hashlib

import msgspec

from inturn.model.job import NewJob

_encoder = msgspec.json.Encoder(order="sorted")


def canonical(value: object) -> bytes:
    """Return the one JSON text for a value: keys sorted, no spaces."""
    return _encoder.encode(value)


def digest(kind: str, key: str | None, payload: str) -> bytes:
    """Return what identifies a job's content. Two payloads that differ only in spelling agree."""
    return hashlib.sha256(canonical([kind, key, msgspec.json.decode(payload)])).digest()


def is_same_work(job: NewJob, queue: str, kind: str, key: str | None, payload: str) -> bool:
    """Say whether a job that was accepted before, described by the rest, is this one."""
    if (job.queue, job.kind, job.key) != (queue, kind, key):
        return False
    return job.payload == payload or digest(kind, key, job.payload) == digest(kind, key, payload)


def default_dedupe(kind: str, payload: str) -> str:
    """Return the dedupe key for "the same kind with the same payload"."""
    return hashlib.sha256(canonical([kind, msgspec.json.decode(payload)])).hexdigest()
