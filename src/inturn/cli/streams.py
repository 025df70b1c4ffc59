"""Standard input, output and error, made fit for use whatever the shell did with them."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import TextIO


def mend_streams() -> None:
    """Let what is closed go nowhere or hold nothing, and spell out what an encoding cannot."""
    # In the order of their numbers: the lowest that is free is given to what is opened next.
    if sys.stdin is None:  # the shell closed it: <&-
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def set_output_apart() -> TextIO:
    """Return standard output for the caller alone; what else is written there goes to stderr.

    That holds for code that is not ours, however it writes, and for every process it starts: the
    number 1 is that of stderr from now on, and the other one is handed on to nobody.
    """
    sys.stdout.flush()
    apart = os.fdopen(os.dup(1), "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)
    os.dup2(2, 1)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # as stderr is
    return apart
