"""Standard output and error, made fit to be written to whatever the shell did with them."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper


def mend_streams() -> None:
    """Let what is closed go nowhere, and spell out what an encoding cannot."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the shell closed it: >&-
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
