"""A small application: its one job is declared on the app that it is attached to."""

from __future__ import annotations

from inturn.queue.app import App
from inturn.queue.extensions import Extension


class Greetings(Extension):
    def __init__(self, app: App) -> None:
        super().__init__(app)
        self.greeted: list[str] = []
        self.greet = app.job(kind="greetings.greet", queue="greetings")(self._greet)

    async def _greet(self, name: str) -> None:
        self.greeted.append(name)


def attach(app: App) -> Greetings:
    return Greetings(app)
