"""Every benchmark in one go, with one result: ``python -m bench [--quick]``."""

from __future__ import annotations

import sys

from bench.contest.command import main

if __name__ == "__main__":
    sys.exit(main("bench", with_others=True))
