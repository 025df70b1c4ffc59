"""The result in words and tables, written from the record alone."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bench.contest.record import P99_SAMPLES_MIN, AtDepth, Record, latencies, percentile
from bench.plots import PLOTS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explain" / "benchmarks.md"
BEGIN = "<!-- The lines from here to the end mark are written by `make bench`. -->"
END = "<!-- end -->"
FAIR = "../README.md#peers-side-by-side"
UNKNOWN = "unknown"  # to a result of before it was looked at


def report(record: Record, name: str) -> str:
    """Return the page; ``name`` is that of the record and the plots beside it."""
    return "\n".join(_lines(record, name)) + "\n"


def write(record: Record, path: Path) -> None:
    """Write the page beside the record at a path."""
    path.with_suffix(".md").write_text(report(record, path.stem))


def _lines(record: Record, name: str) -> Iterator[str]:
    yield f"# Results of {record.date}"
    yield ""
    if record.quick:
        yield "**A quick run: it shows that everything works, and its figures say nothing.**"
        yield ""
    yield f"Made by `{record.command}` in {record.seconds / 60:.0f} minutes, and written from"
    yield f"[{name}.json]({name}.json), which holds {_held_by(record)};"
    yield "`python -m bench.plots` draws the plots anew from it."
    yield f"[What makes it fair]({FAIR}) is written down with the programs."
    yield ""
    yield from _table(
        ("", "conditions"), ([key, f"{value}"] for key, value in record.conditions.items())
    )
    yield from _contenders(record)
    yield from _missing(record)
    yield from _drain(record, name)
    yield from _submit(record, name)
    yield from _keyed(record, name)
    yield from _latency(record, name)
    yield from _held(record, name)
    yield from _backlog(record, name)
    yield from _footprint(record, name)
    yield from _bars(record)


def _held_by(record: Record) -> str:
    """Say what is in the JSON: of a result that left them out, not the other benchmarks' runs."""
    if any(row["measured"] is None for row in record.bars):
        return "every run of the peers, and of the other benchmarks the figures below"
    return "every run"


def _contenders(record: Record) -> Iterator[str]:
    yield "## Who was measured"
    yield ""
    yield from _table(
        ("name", "version", "processes", "settings", "why these", "durability", "if a worker dies"),
        (
            [
                f"`{one.name}`",
                one.version,
                f"{one.processes}",
                ", ".join(f"{key}={value}" for key, value in one.settings.items()) or "none",
                one.why,
                one.durability,
                one.loss,
            ]
            for one in record.entries
        ),
    )


def _missing(record: Record) -> Iterator[str]:
    if record.absent:
        yield "Not measured, because it could not be installed:"
        yield ""
        yield from (f"- {peer}: {why}" for peer, why in record.absent.items())
        yield ""
    if record.broke:
        yield "Broke, and is missing below:"
        yield ""
        for what, why in record.broke.items():
            yield f"- {what}: {why.splitlines()[0] if why else ''}"
        yield ""


def _drain(record: Record, name: str) -> Iterator[str]:
    yield "## Emptying a full queue"
    yield ""
    yield "Handlers that only count. From the start of all processes to the last settle, in jobs a"
    yield "second; processor time is that of workers and server together."
    yield ""
    yield from _plot(record, name, "drain")
    used = record.middles("drain", "processor_microseconds")
    ours = record.middles("drain").get("inturn-default")
    yield from _table(
        ("name", "jobs/s", "ours by it", "runs", "jobs a run", "a run", "processor time a job"),
        (
            [
                f"`{one}`",
                f"{rate:,.0f}",
                f"{ours / rate:,.1f}" if ours else "",
                _each(run["rate"] for run in record.runs("drain")[one]),
                *_length(record, "drain", one),
                f"{used[one]:,.0f} µs" if one in used else "",
            ]
            for one, rate in record.middles("drain").items()
        ),
    )


def _submit(record: Record, name: str) -> Iterator[str]:
    yield "## Enqueueing"
    yield ""
    yield "One process, one at a time and in the peer's own way to enqueue many (batches of 1,000),"
    yield "in jobs a second. What was enqueued was counted in the store afterwards."
    lasted = [
        seconds
        for measure in ("submit-one", "submit-many")
        for runs in record.seconds_of(measure).values()
        for seconds in runs
    ]
    if lasted:
        yield f"Runs lasted {min(lasted):.1f} to {max(lasted):.1f} s, to the end of the last batch."
    yield ""
    yield from _plot(record, name, "submit")
    one_by_one, many = record.middles("submit-one"), record.middles("submit-many")
    yield from _table(
        ("name", "one at a time", "runs", "many", "runs", "durability"),
        (
            [
                f"`{one}`",
                f"{one_by_one[one]:,.0f}/s" if one in one_by_one else "",
                _each(run["rate"] for run in record.runs("submit-one").get(one, [])),
                f"{rate:,.0f}/s",
                _each(run["rate"] for run in record.runs("submit-many")[one]),
                record.entry(one).durability,
            ]
            for one, rate in many.items()
        ),
    )


def _keyed(record: Record, name: str) -> Iterator[str]:
    yield "## Jobs with keys, in order"
    yield ""
    yield "A thousand keys. Every run was checked over all processes: each job ran once, and after"
    yield "every earlier one of its key."
    yield ""
    yield from _plot(record, name, "keyed")
    rates = record.middles("keyed")
    rows = [
        [
            f"`{one}`",
            f"{rate:,.0f}/s",
            _each(run["rate"] for run in record.runs("keyed")[one]),
            *_length(record, "keyed", one),
            record.entry(one).order,
        ]
        for one, rate in rates.items()
    ]
    promising = {entry.peer for entry in record.entries if entry.keeps_order}
    others = {one.peer: one.order for one in record.entries if one.peer not in promising}
    rows += [[f"`{peer}`", "no such promise", "", "", "", order] for peer, order in others.items()]
    heads = ("name", "jobs/s", "runs", "jobs a run", "a run", "what it promises")
    yield from _table(heads, rows)


def _latency(record: Record, name: str) -> Iterator[str]:
    yield "## Latency of an idle worker"
    yield ""
    yield "From the call that enqueues to the first line of the handler in another process, a job"
    yield "every 50 ms or so, all runs together. p99 is told where there are"
    yield f"{P99_SAMPLES_MIN:,} samples: of fewer it is nearly the longest."
    if any(row["name"].startswith("latency-") for row in record.bars):
        yield "The rows `latency-…` of the other benchmarks are of inturn alone, in one long run;"
        yield "here every run starts a worker anew, and a slow second is much of a run."
    yield ""
    yield from _plot(record, name, "latency")
    told = {one: latencies(runs) for one, runs in record.runs("latency").items()}
    ranks = [50, 90] + [99] * any(len(took) >= P99_SAMPLES_MIN for took in told.values())
    yield from _table(
        ("name", "samples", *(f"p{rank}" for rank in ranks), "longest"),
        (
            [f"`{one}`", f"{len(took):,}"]
            + [_rank(took, rank) for rank in ranks]
            + [f"{took[-1]:.1f} ms"]
            for one, took in sorted(told.items(), key=lambda pair: percentile(pair[1], 50))
        ),
    )


def _rank(took: Sequence[float], rank: int) -> str:
    """Return a percentile, if there are enough samples for it."""
    has_enough = rank < 99 or len(took) >= P99_SAMPLES_MIN
    return f"{percentile(took, rank):.1f} ms" if has_enough else ""


def _held(record: Record, name: str) -> Iterator[str]:
    yield "## Under a transaction left open"
    yield ""
    yield "One `repeatable read` transaction stays open from the beginning on; a producer keeps the"
    yield "queue as full as it was. Jobs a second, window by window, each the median of"
    yield "the runs. Last by first: of those medians, and of the worst run. Workers that are faster"
    yield "than their one producer run what it makes: then the figures are its own, and what a job"
    yield "costs shows in the processor time of workers and server, first window and last."
    yield ""
    yield from _plot(record, name, "held")
    runs, windows = record.runs("held"), record.windows("held")
    used = record.windows("held", "processor_microseconds")
    heads = [
        f"{run[0]['window_seconds'] * (at + 1):g} s"
        for run in list(runs.values())[:1]
        for at in range(len(run[0]["rates"]))
    ]
    yield from _table(
        ("name", "last by first", "worst run", "processor time a job", *heads),
        (
            [f"`{one}`", f"{_kept(rates):.2f}"]
            + [f"{min(_kept(run['rates']) for run in runs[one]):.2f}"]
            + [f"{used[one][0]:,.0f} → {used[one][-1]:,.0f} µs" if one in used else UNKNOWN]
            + [f"{rate:,.0f}" for rate in rates]
            for one, rates in windows.items()
        ),
    )


def _kept(rates: Sequence[float]) -> float:
    """Return what is left of the first window's rate in the last."""
    return rates[-1] / max(rates[0], 1e-9)


def _backlog(record: Record, name: str) -> Iterator[str]:
    yield "## While very much waits"
    yield ""
    yield "Processor time a job, of the workers and the server, and jobs a second, the median of"
    yield "windows of a second, while a producer keeps so many waiting; each the median of the"
    yield "runs. The time is what to look at: few jobs are sometimes gone before the producer sees"
    yield "it. A depth that no run reached in time is left empty; one that only some did says so."
    yield ""
    yield from _plot(record, name, "backlog")
    reached = {
        one: {depth.waiting: depth for depth in depths} for one, depths in record.depths().items()
    }
    depths = sorted({depth for found in reached.values() for depth in found})
    yield from _table(
        ("name", *(f"{depth:,} waiting" for depth in depths)),
        (
            [f"`{one}`"]
            + [_at_depth(found.get(depth), len(record.runs("backlog")[one])) for depth in depths]
            for one, found in reached.items()
        ),
    )


def _footprint(record: Record, name: str) -> Iterator[str]:
    yield "## What a drain costs PostgreSQL"
    yield ""
    yield "For each job, from the moment the queue was full to the end of the workers: bytes of"
    yield "WAL, commits, row versions that died, and those that were still there at the end."
    yield ""
    yield from _plot(record, name, "footprint")
    figures = {name: record.left(name) for name in ("wal_bytes", "commits", "died", "dead")}
    yield from _table(
        ("name", "bytes of WAL", "commits", "died", "still there"),
        (
            [f"`{one}`", f"{wal:,.1f}"]
            + [f"{figures[name][one]:.4f}" for name in ("commits", "died", "dead")]
            for one, wal in reversed(figures["wal_bytes"].items())
        ),
    )


def _bars(record: Record) -> Iterator[str]:
    if not record.bars:
        return
    yield "## The other benchmarks, with their bars"
    yield ""
    yield from _table(
        ("name", "ours", "reference", "ratio", "bar", "", "how"),
        (
            [
                f"`{row['name']}`",
                row["ours"],
                row["reference"],
                "" if row["broke"] or row["absent"] else f"{row['ratio']:.2f}",
                row["bar"],
                row["result"],
                row["note"],
            ]
            for row in record.bars
        ),
    )


def _plot(record: Record, name: str, plot: str) -> Iterator[str]:
    if plot in record.plots:
        yield f"![{PLOTS[plot]}]({name}-{plot}.png)"
        yield ""


def _at_depth(depth: AtDepth | None, runs: int) -> str:
    if depth is None:
        return ""
    used = depth.processor_microseconds
    rate = f"{depth.rate:,.0f}/s" if used is None else f"{used:,.0f} µs, {depth.rate:,.0f}/s"
    return rate if depth.runs == runs else f"{rate} ({depth.runs} of {runs} runs)"


def _length(record: Record, measure: str, one: str) -> tuple[str, str]:
    """Return how many jobs a run of a contender had, and how long it took."""
    jobs = record.runs(measure)[one][0]["jobs"]
    return f"{jobs:,}", f"{statistics.median(record.seconds_of(measure)[one]):.1f} s"


def _each(rates: Iterable[float]) -> str:
    return " · ".join(f"{rate:,.0f}" for rate in rates)


def _table(heads: Iterable[str], rows: Iterable[list[str]]) -> Iterator[str]:
    heads = list(heads)
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |"
    yield ""


def publish(record: Record, path: Path, page: Path = PAGE) -> None:
    """Show the plots of a result in the documentation, in place of those of an earlier one."""
    text = page.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    folder = f"../../{path.parent.relative_to(ROOT).as_posix()}"
    shown = [f"From the [result of {record.date}]({folder}/{path.stem}.md).", ""]
    for name in record.plots:
        shown += [f"![{PLOTS[name]}]({folder}/{path.stem}-{name}.png)", ""]
    page.write_text(before + BEGIN + "\n\n" + "\n".join(shown) + "\n" + END + after)
