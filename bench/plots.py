"""The plots of a result, drawn from its JSON: ``python -m bench.plots bench/results/DATE.json``.

matplotlib is no part of what the bench needs otherwise, so it has an environment of its own, in
which this module runs again if it is not there.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.contest.record import Record, latencies, percentile, read
from bench.peers.environment import PythonEnvironment, reason
from bench.peers.peer import CannotInstall

PLOTS = {
    "drain": "jobs a second when a full queue is emptied",
    "submit": "jobs a second when enqueueing one at a time and many",
    "keyed": "jobs a second with keys, in order",
    "latency": "milliseconds from the call that enqueues to the handler",
    "held": "jobs a second over time under a transaction left open",
    "backlog": "jobs a second against the number of jobs that wait",
    "footprint": "WAL, commits and dead row versions a job",
}
MEASURES = {"submit": "submit-many", "footprint": "drain"}  # what a plot is of, if not its name
BROKERS = {"postgres": "PostgreSQL", "redis": "Redis", "sqlite": "SQLite"}
COLOURS = {"postgres": "#7f8fa6", "redis": "#c8a2a2", "sqlite": "#a5b89a"}
OURS = {"postgres": "#0b5fa5", "sqlite": "#2e7d32"}
LINES = ("#b5651d", "#8e44ad", "#5d6d1e", "#c0392b", "#6e6e6e")  # of the others, in their order
ROOT = Path(__file__).parent.parent


def draw_elsewhere(path: Path) -> list[str]:
    """Draw in the environment that has matplotlib; return which, or raise CannotInstall."""
    python = PythonEnvironment("matplotlib").folder() / "bin" / "python"
    command = [str(python), "-m", "bench.plots", str(path.resolve())]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        why = reason(done.stderr) or f"ended with {done.returncode}"
        raise CannotInstall(f"the plots could not be drawn: {why}")
    return done.stdout.split()


def draw(path: Path) -> list[str]:
    """Draw each plot that the result at a path has something for, beside it; return which."""
    import matplotlib as mpl  # type: ignore[import-not-found]

    mpl.use("agg")
    mpl.rcParams.update({"figure.dpi": 110, "font.size": 9, "axes.spines.top": False})
    mpl.rcParams.update({"axes.spines.right": False, "savefig.bbox": "tight"})
    record = read(path)
    drawn = [name for name in PLOTS if record.runs(MEASURES.get(name, name))]
    if not record.left("wal_bytes"):
        drawn = [name for name in drawn if name != "footprint"]
    for name in drawn:
        figure = PAINTERS[name](record)
        if record.quick:
            figure.text(0.5, 0.5, "quick run", size=40, alpha=0.2, ha="center", rotation=20)
        figure.savefig(path.with_name(f"{path.stem}-{name}.png"), metadata={"Software": None})
    return drawn


def _drain(record: Record) -> Any:
    figure, axis = _figure(len(record.runs("drain")))
    _bars(axis, record, record.middles("drain"))
    axis.set_title("Emptying a full queue: jobs/s (logarithmic)")
    return figure


def _keyed(record: Record) -> Any:
    figure, axis = _figure(len(record.runs("keyed")))
    _bars(axis, record, record.middles("keyed"))
    axis.set_title("1,000 keys, each in order: jobs/s (logarithmic)")
    return figure


def _submit(record: Record) -> Any:
    figure, axes = _figure(len(record.runs("submit-many")), columns=2)
    for axis, name, title in zip(
        axes, ("submit-one", "submit-many"), ("one at a time", "many"), strict=True
    ):
        _bars(axis, record, record.middles(name))
        axis.set_title(f"Enqueueing {title}: jobs/s (logarithmic)")
    figure.tight_layout()
    return figure


def _latency(record: Record) -> Any:
    told = {one: latencies(runs) for one, runs in record.runs("latency").items()}
    figure, axis = _figure(len(told))
    order = sorted(told, key=lambda one: -percentile(told[one], 50))
    for place, one in enumerate(order):
        low, middle, high = (percentile(told[one], rank) for rank in (10, 50, 90))
        colour = _colour(record, one)
        axis.plot([low, high], [place, place], color=colour, linewidth=4, alpha=0.4)
        axis.plot([middle], [place], "o", color=colour)
        axis.plot([told[one][-1]], [place], "|", color=colour)
        axis.annotate(f"{middle:.1f}", (middle, place), (0, 5), textcoords="offset points")
    axis.set_yticks(range(len(order)), order)
    _scale(axis)
    axis.set_xlabel("milliseconds")
    _legend(axis, record, order, where="upper right")  # where the shortest bars are
    samples = min(map(len, told.values()))
    axis.set_title(
        "From the call that enqueues to the handler: p10 to p90, p50 and the longest marked\n"
        f"({samples:,} samples or more of each, logarithmic)"
    )
    return figure


def _held(record: Record) -> Any:
    figure, axes = _figure(12, columns=2)
    for one, rates in record.windows("held").items():
        seconds = record.runs("held")[one][0]["window_seconds"]
        ends = [seconds * (at + 1) for at in range(len(rates))]
        _line(axes[0], record, one, ends, rates)
        _line(axes[1], record, one, ends, [rate / max(rates[0], 1e-9) for rate in rates])
    axes[0].set_yscale("log")
    axes[0].set_title("Under a transaction left open: jobs/s (logarithmic)")
    axes[1].set_title("The same, by the first window")
    axes[1].set_ylim(bottom=0)
    for axis in axes:
        axis.set_xlabel("seconds since the transaction began")
    axes[1].legend(fontsize=8)
    return figure


def _backlog(record: Record) -> Any:
    figure, axes = _figure(12, columns=2)
    for one, depths in record.depths().items():
        waiting = [depth.waiting for depth in depths]
        _line(axes[1], record, one, waiting, [depth.rate for depth in depths])
        used = [depth.processor_microseconds for depth in depths]
        if None not in used:
            _line(axes[0], record, one, waiting, used)
    axes[0].set_title("With so many waiting: processor time a job, µs (logarithmic)")
    axes[1].set_title("The same: jobs/s (logarithmic)")
    for axis in axes:
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("jobs that wait")
    axes[1].legend(fontsize=8)
    return figure


def _footprint(record: Record) -> Any:
    figure, axes = _figure(len(record.left("wal_bytes")), columns=3)
    titles = {"wal_bytes": "bytes of WAL", "commits": "commits", "died": "dead row versions"}
    for axis, (name, title) in zip(axes, titles.items(), strict=True):
        _bars(axis, record, record.left(name))
        axis.set_title(f"{title} a job (logarithmic)")
    figure.tight_layout()
    return figure


PAINTERS = {
    "drain": _drain,
    "submit": _submit,
    "keyed": _keyed,
    "latency": _latency,
    "held": _held,
    "backlog": _backlog,
    "footprint": _footprint,
}


def _figure(rows: int, columns: int = 1) -> tuple[Any, Any]:
    from matplotlib import pyplot

    size = (9 if columns == 1 else 6.5 * columns, max(1.2 + 0.26 * rows, 2.5))
    figure, axes = pyplot.subplots(1, columns, figsize=size)
    return figure, axes


def _bars(axis: Any, record: Record, values: dict[str, float]) -> None:
    names = list(reversed(values))
    # On a logarithmic axis nothing is nowhere, so what is nearly nothing gets a short bar.
    least = min((value for value in values.values() if value > 0), default=1) / 2
    drawn = [max(values[one], least) for one in names]
    made = axis.barh(range(len(names)), drawn, color=[_colour(record, one) for one in names])
    axis.bar_label(made, [_short(values[one]) for one in names], padding=3, fontsize=8)
    axis.set_yticks(range(len(names)), names)
    _scale(axis)
    axis.margins(x=0.15)
    _legend(axis, record, names)


def _scale(axis: Any) -> None:
    """Make the figures along a logarithmic axis such as people read."""
    from matplotlib.ticker import (  # type: ignore[import-not-found]
        FuncFormatter,
        LogLocator,
        NullFormatter,
    )

    axis.set_xscale("log")
    low, high = axis.get_xlim()
    is_long = high / low > 1_000
    axis.xaxis.set_major_locator(LogLocator(subs=(1,) if is_long else (1, 2, 5)))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _legend(axis: Any, record: Record, names: list[str], where: str = "lower right") -> None:
    from matplotlib.patches import Patch  # type: ignore[import-not-found]

    shown = {
        f"{'inturn on ' if entry.peer.startswith('inturn') else ''}{BROKERS[entry.broker]}": (
            _colour(record, entry.name)
        )
        for entry in (record.entry(name) for name in reversed(names))
    }
    made = [Patch(color=colour, label=label) for label, colour in shown.items()]
    axis.legend(handles=made, fontsize=8, loc=where)


def _line(
    axis: Any, record: Record, one: str, at: list[Any], values: Sequence[float | None]
) -> None:
    if record.entry(one).peer.startswith("inturn"):
        axis.plot(at, values, marker=".", label=one, color=OURS["postgres"], linewidth=3)
        return
    others = [entry.name for entry in record.entries if entry.configuration == "best"]
    colour = LINES[others.index(one) % len(LINES)]
    axis.plot(at, values, marker=".", label=one, color=colour, linewidth=1.5)


def _colour(record: Record, one: str) -> str:
    entry = record.entry(one)
    return (OURS if entry.peer.startswith("inturn") else COLOURS)[entry.broker]


if __name__ == "__main__":
    for named in sys.argv[1:]:
        if importlib.util.find_spec("matplotlib") is None:
            print(*draw_elsewhere(Path(named)))
        else:
            print(*draw(Path(named)))
