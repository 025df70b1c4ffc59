"""The job that a test names: what ``@app.job`` made, and nothing that only looks like it."""

from __future__ import annotations

from inturn.model.admissible import shown
from inturn.model.errors import BadInput
from inturn.queue.job import Job


def check_job(job: object) -> None:
    """Refuse what is no job, such as its kind or its function."""
    if isinstance(job, Job):
        return
    raise BadInput(
        f"{shown(job)} is no job. Give what @app.job made, not its kind, its function or a call; "
        f"sandbox.submitted() without one lists everything, each with its kind."
    )
