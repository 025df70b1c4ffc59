"""Draining a queue that is full: claim and settle until nothing is left, on PostgreSQL."""

from __future__ import annotations

import asyncio

from bench.clients import Drained, drain, fill
from bench.compare import SIDES, Bench, in_turn, rated
from bench.loads import Load, check_complete, out_of_order
from bench.processes import run_together
from bench.server import empty_database, tidy
from bench.sides import SideName
from bench.sizes import CONNECTIONS, PROCESSES
from bench.table import Bar, Row


def drain_unkeyed(bench: Bench) -> list[Row]:
    """Drain jobs without keys; also against the reference with a better claim, which is shown."""
    load = Load("drain-unkeyed", bench.sizes.drain_jobs)
    return _drain(bench, load, Bar(4), shown=("apart", "tuned"))


def drain_keyed(bench: Bench) -> list[Row]:
    """Drain jobs of a thousand keys."""
    load = Load("drain-1000-keys", bench.sizes.drain_jobs, 1_000)
    return _drain(bench, load, Bar(4), shown=("apart",))


def drain_many_keys(bench: Bench) -> list[Row]:
    """Drain two jobs each of very many keys."""
    keys = bench.sizes.drain_keys
    return _drain(bench, Load(f"drain-{keys}-keys", 2 * keys, keys), Bar(1))


def drain_single_key(bench: Bench) -> list[Row]:
    """Drain jobs of one key, which only one consumer at a time may have."""
    return _drain(bench, Load("drain-single-key", bench.sizes.drain_jobs, 1), Bar(1))


def _drain(bench: Bench, load: Load, bar: Bar, *, shown: tuple[SideName, ...] = ()) -> list[Row]:
    disorder: list[int] = []

    def measure(side: SideName) -> float:
        rate, wrong = _drain_once(bench, side, load)
        if side == "reference":
            disorder.append(wrong)
        if side in ("ours", "apart") and wrong:
            raise AssertionError(f"{load.name}: {wrong} jobs came out of order")
        return rate

    rates = in_turn(bench, measure, (*SIDES, *shown))
    rows = [
        rated(
            load.name,
            bar,
            rates["ours"],
            rates["reference"],
            jobs=load.jobs,
            reference_out_of_order=disorder,
        )
    ]
    aside = Bar(bar.at_least, counts=False)
    if "apart" in shown:
        note = "settle and claim in two transactions"
        rows.append(
            rated(f"{load.name}-apart", aside, rates["apart"], rates["reference"], note=note)
        )
    if "tuned" in shown:
        note = "against the reference whose claim is written `id = any(array(select …))`"
        rows.append(rated(f"{load.name}-tuned", aside, rates["ours"], rates["tuned"], note=note))
    return rows


def _drain_once(bench: Bench, side: SideName, load: Load) -> tuple[float, int]:
    """Return jobs a second from the common start to the last settle, and jobs out of order."""
    with empty_database(bench.server) as url:
        asyncio.run(fill(url, side, load))
        tidy(url)
        drained: list[Drained] = run_together(
            [
                (drain, (side, url, load.jobs, CONNECTIONS, f"process-{number}"))
                for number in range(PROCESSES)
            ]
        )
    taken = [one for process in drained for one in process.taken]
    check_complete(load, taken)
    started_at = min(process.started_at for process in drained)
    ended_at = max(process.ended_at for process in drained)
    return load.jobs / (ended_at - started_at), out_of_order(load, taken)
