"""The ground of applications: ``python -m bench.ground [--quick] [--json] [--only NAME]``."""

from __future__ import annotations

import sys

from bench import limits, own_rows, tickets
from bench.command import Command, Measurement
from bench.conditions import conditions

MEASUREMENTS = (
    Measurement("run-many", own_rows.run_many),
    Measurement("running-max", limits.running_max),
    Measurement("rate", limits.rate),
    Measurement("replay-none", limits.replay_none),
    Measurement("tickets", tickets.tickets),
)

if __name__ == "__main__":
    sys.exit(Command("bench.ground", __doc__, MEASUREMENTS, conditions).run())
