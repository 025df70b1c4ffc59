"""The benchmark of the engine: ``python -m bench.engine [--quick] [--json] [--only NAME]``."""

from __future__ import annotations

import sys

from bench import depth, drain, enqueue, held, sqlite
from bench.command import Command, Measurement
from bench.conditions import conditions

MEASUREMENTS = (
    Measurement("drain-unkeyed", drain.drain_unkeyed),
    Measurement("drain-1000-keys", drain.drain_keyed),
    Measurement("drain-many-keys", drain.drain_many_keys),
    Measurement("drain-single-key", drain.drain_single_key),
    Measurement("enqueue-unkeyed", enqueue.enqueue_unkeyed),
    Measurement("enqueue-1000-keys", enqueue.enqueue_keyed),
    Measurement("held-unkeyed", held.held_unkeyed),
    Measurement("held-1000-keys", held.held_keyed),
    Measurement("depth", depth.depth),
    Measurement("sqlite-drain", sqlite.sqlite_drain, postgres=False),
    Measurement("sqlite-producers", sqlite.sqlite_producers, postgres=False),
)

if __name__ == "__main__":
    sys.exit(Command("bench.engine", __doc__, MEASUREMENTS, conditions).run())
