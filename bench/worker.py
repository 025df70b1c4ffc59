"""The benchmark of the worker: ``python -m bench.worker [--quick] [--json] [--only NAME]``.

Worker processes beside those of other queues, submitting, latency and memory.
"""

from __future__ import annotations

import sys
from typing import Any

from bench import latency, memory, submit, throughput
from bench.command import Command, Measurement
from bench.conditions import conditions
from bench.peers.program import PAYLOAD_BYTES
from bench.sizes import Sizes
from tests.postgres_server import DatabaseServer

MEASUREMENTS = (
    Measurement("worker-noop", throughput.noop),
    Measurement("worker-1000-keys", throughput.keyed),
    Measurement("submit-postgres", submit.submit_postgres),
    Measurement("submit-sqlite", submit.submit_sqlite, postgres=False),
    Measurement("latency-postgres", latency.latency_postgres),
    Measurement("latency-sqlite", latency.latency_sqlite, postgres=False),
    Measurement("worker-memory", memory.memory),
)


def worker_conditions(sizes: Sizes, on: DatabaseServer | None) -> dict[str, Any]:
    """Gather what a reader needs to judge the figures."""
    return conditions(
        sizes, on, client=f"payload {PAYLOAD_BYTES} bytes, handlers that only count their runs"
    ) | {"peers": throughput.peers_and_configurations()}


if __name__ == "__main__":
    sys.exit(Command("bench.worker", __doc__, MEASUREMENTS, worker_conditions).run())
