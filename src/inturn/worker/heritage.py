"""What the dead have left: jobs leased to them until somebody takes them back, and those that were
taken back and wait a moment before they are tried again.
"""

from __future__ import annotations

from inturn.model import bounds
from inturn.model.job import JobState, JobView
from inturn.store.protocol import Store


async def is_left(store: Store, name: str, *, heir: str) -> bool:
    """Whether there are such jobs of workers of a name, or of that name and a number behind a
    point, as a crew names who takes a place in it; other than the one who lives.
    """
    for state in (JobState.RUNNING, JobState.RETRYING):
        cursor = None
        while True:
            page = await store.jobs(state=state, cursor=cursor, rows_max=bounds.PAGE_ROWS_MAX)
            holders = {_holder(one) for one in page.rows} - {heir}
            if any(one == name or one.startswith(f"{name}.") for one in holders):
                return True
            cursor = page.cursor
            if cursor is None:
                break
    return False


def _holder(view: JobView) -> str:
    """Return who runs a job, or who died while running it; nobody, if it only failed."""
    if view.state is JobState.RUNNING:
        return view.worker or ""
    return view.errors[-1].worker if view.suspect and view.errors else ""
