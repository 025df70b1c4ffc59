"""The JSON documents of jobs, dead letters, queues and workers. Their field names are a promise."""

from __future__ import annotations

from typing import Any

import msgspec

from inturn.model.job import DeadLetter, Job, JobState, JobView
from inturn.model.lane import QueueStatus
from inturn.model.worker import WorkerView


def job_document(view: JobView) -> dict[str, Any]:
    """Return a job with its state, all on one level, its payload as JSON."""
    place = msgspec.structs.asdict(view)
    del place["job"]
    return {"id": view.job.id, "state": place.pop("state")} | _job(view.job) | place


def dead_document(letter: DeadLetter) -> dict[str, Any]:
    """Return a dead letter, in the words of a job's document."""
    return (
        {"id": letter.job.id, "state": JobState.DEAD}
        | _job(letter.job)
        | {
            "attempt": letter.attempts,
            "errors": letter.errors,
            "died_at": letter.died_at,
            "reason": letter.reason,
        }
    )


def queue_document(status: QueueStatus) -> dict[str, Any]:
    """Return a queue with its settings, all on one level."""
    place = msgspec.structs.asdict(status)
    del place["settings"]
    return place | msgspec.structs.asdict(status.settings)


def worker_document(worker: WorkerView, silent: bool) -> dict[str, Any]:
    """Return a worker, and whether it should be taken for dead."""
    return msgspec.structs.asdict(worker) | {"silent": silent}


def raw(text: str | None) -> msgspec.Raw | None:
    """Return JSON text as a part of a document, as it is."""
    return None if text is None else msgspec.Raw(text.encode())


def _job(job: Job) -> dict[str, Any]:
    return msgspec.structs.asdict(job) | {"payload": raw(job.payload)}
