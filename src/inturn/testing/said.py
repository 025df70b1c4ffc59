"""What a test says with ``using``, also where it says what is so without a word."""

from __future__ import annotations

from typing import Any

from inturn.queue.job import Job


def options_said(job: Job[Any, Any]) -> dict[str, Any]:
    """Return the options that ``using`` was called with, and those that are not as declared."""
    declared = job.app.jobs[job.kind].options
    return {
        name: value
        for name in declared.__struct_fields__
        if (value := getattr(job.options, name)) != getattr(declared, name)
        or name in job.options_said
    }
