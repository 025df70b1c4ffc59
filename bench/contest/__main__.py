"""inturn and its peers side by side: ``python -m bench.contest [--quick] [--only] [--peer]``."""

from __future__ import annotations

import sys

from bench.contest.command import main

if __name__ == "__main__":
    sys.exit(main("bench.contest", with_others=False))
