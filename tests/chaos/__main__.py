"""The long runs: ``python -m tests.chaos [--store sqlite|postgres] [--jobs N] [--seed N]``.

On each store twice: keyed jobs while workers are killed every 2 s, and a mix of jobs while
everything happens. What a run that went wrong has left behind stays, to be looked at.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path

from tests.chaos.run import FAULTS, Run
from tests.postgres_server import PostgresServer

OF_THE_SERVER = ("kill-backend", "stop-server")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgres"), help="only this one")
    parser.add_argument("--mix", choices=("keyed", "mixed"), help="only this one")
    parser.add_argument("--jobs", type=int, default=10_000, help="in each run, at least")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    chosen = parser.parse_args()
    failed = False
    for store in [chosen.store] if chosen.store else ["sqlite", "postgres"]:
        for mix in [chosen.mix] if chosen.mix else ["keyed", "mixed"]:
            failed |= not run(store, mix, chosen.jobs, chosen.seed)
    return int(failed)


def run(store: str, mix: str, jobs: int, seed: int) -> bool:
    folder = Path(tempfile.mkdtemp(prefix=f"inturn-chaos-{store}-"))
    faults = ["kill-worker"] if mix == "keyed" else list(FAULTS)
    if store == "sqlite":
        some = [fault for fault in faults if fault not in OF_THE_SERVER]
        made = Run(f"sqlite:///{folder / 'work.db'}", folder, some, jobs=jobs, mix=mix, seed=seed)
        return told(made, store)
    with PostgresServer() as server:
        server.create_database("chaos")
        url = server.url("chaos")
        return told(Run(url, folder, faults, server, jobs=jobs, mix=mix, seed=seed), store)


def told(made: Run, store: str) -> bool:
    try:
        print(f"{store}: {asyncio.run(made.go())}", flush=True)
    except AssertionError as error:
        print(f"{store}: seed {made.seed} went wrong, see {made.folder}\n{error}", flush=True)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
