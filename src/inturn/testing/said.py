"""What a test says with ``using``, also where it says what is so without a word.

A job remembers what its options are and not who said so: ``send.using(key=None)`` has the options
of ``send``. For submitting that is all the same. To a test that expects no key it is not, so jobs
remember it from when this module is imported.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from msgspec import UNSET

from inturn.queue.job import Job

AnyJob = Job[Any, Any]

_SAID = "options_said"
_REMOVABLE = frozenset({"key", "dedupe"})  # for these None is something to say


def options_said(job: AnyJob) -> dict[str, Any]:
    """Return the options that ``using`` was called with, and those that are not as declared."""
    declared = job.app.jobs[job.kind].options
    said = _names_said(job)
    return {
        name: value
        for name in declared.__struct_fields__
        if (value := getattr(job.options, name)) != getattr(declared, name) or name in said
    }


def _names_said(job: AnyJob) -> frozenset[str]:
    names: frozenset[str] = vars(job).get(_SAID, frozenset())
    return names


def _remembering(using: Any) -> Any:
    @wraps(using)
    def remembers(job: AnyJob, **options: Any) -> AnyJob:
        other: AnyJob = using(job, **options)
        said = {
            name
            for name, value in options.items()
            if value is not UNSET and (value is not None or name in _REMOVABLE)
        }
        vars(other)[_SAID] = _names_said(job) | said
        return other

    return remembers


Job.using = _remembering(Job.using)  # type: ignore[method-assign]
