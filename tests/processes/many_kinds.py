"""An app of so many kinds that to name them all takes more than a line of 64 KiB."""

from __future__ import annotations

import os

from inturn import App

app = App(os.environ.get("INTURN_STORE", "sqlite:///:memory:"))


async def work() -> None: ...


for number in range(1_500):
    app.job(kind=f"company.department.module_{number:05}.handlers.work_at_something")(work)
