"""The garbage collector of a worker process: it has jobs to look at, not the program."""

from __future__ import annotations

import gc

COLLECT_EVERY = 10_000
"""So many objects more than before are made before the collector looks at the newest. Python's own
700, up to 3.12, are made by some eighty jobs, and hardly one of them is garbage that only it
can find."""


def leave_alone_what_is_there() -> None:
    """Let the collector never look again at what was imported and made so far: it stays anyway.

    A program that has it look at the newest less often, or not at all, has its way.
    """
    gc.collect()
    gc.freeze()
    newest, *older = gc.get_threshold()
    if 0 < newest < COLLECT_EVERY:
        gc.set_threshold(COLLECT_EVERY, *older)
