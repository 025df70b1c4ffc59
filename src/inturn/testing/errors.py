"""What only a test can meet with."""

from __future__ import annotations

from collections.abc import Iterable

from inturn.model.errors import InturnError


class DrainTimeout(InturnError, TimeoutError):
    """The jobs of a test did not come to an end within the time that the test gave them.

    ``running`` names those whose handlers ran; ``waiting`` those that were claimed, and whose had
    not begun.
    """

    def __init__(
        self,
        seconds: float,
        ended: str,
        running: Iterable[str],
        waiting: Iterable[str],
        most: str,
    ) -> None:
        self.seconds, self.running, self.waiting = seconds, tuple(running), tuple(waiting)
        hangs = f" Still running: {', '.join(self.running)}." if self.running else ""
        waits = f" Claimed, handler not begun: {', '.join(self.waiting)}." if self.waiting else ""
        super().__init__(
            f"the jobs did not come to an end within {seconds:g} s: {ended} so far.{hangs}{waits} "
            f"{most}Give drain a longer timeout if all of it is meant to run."
        )
