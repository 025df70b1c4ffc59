"""Steps that are about to run: written down together, as many as have come meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from inturn.groups import records
from inturn.groups.records import BegunRow, Turned
from inturn.queue.app import App
from inturn.queue.together import Together


class Begins(Together[Turned, BegunRow | None]):
    """Writes down that steps begin, before they do. None for one that is not plainly to run: it is
    looked at by itself, under its group's lock.
    """

    def __init__(self, app: App) -> None:
        super().__init__()
        self._app = app

    async def handle_all(self, items: Sequence[Turned]) -> Sequence[BegunRow | None]:
        """Write down which of the steps run."""
        async with self._app.transaction() as t:
            rows = await t.run(records.BEGIN_STEPS, rows=list(items))
        begun = {(row.group_id, row.number): row for row in rows}
        return [begun.get((one.group_id, one.number)) for one in items]
