"""Standard input, output and error, made fit for use whatever the shell did with them."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper


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
