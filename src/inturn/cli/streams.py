"""Standard input, output and error, made fit for use whatever the shell did with them."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import TextIO


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
