"""What is said about benchmarks is what was measured, and by what is pinned."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import held, latency, steady
from bench.compare import Bench
from bench.contenders import PEERS, Contender
from bench.contest import command, measures, report
from bench.contest.command import ended_as_if_by_hand, take_turns, write_down
from bench.contest.measures import MEASURES, Measure
from bench.contest.record import P99_SAMPLES_MIN, Entry, Record, read
from bench.loads import Load
from bench.peers.environment import reason
from bench.peers.peer import CannotInstall, Peer
from bench.peers.tally import Journal, count_runs
from bench.plots import PLOTS
from bench.sizes import FULL
from bench.throughput import out_of_order

ROOT = Path(__file__).parents[2]
RESULTS = sorted(
    path
    for path in (ROOT / "bench" / "results").glob("*.json")
    if not path.name.endswith(".part.json")  # of a run that was stopped
)
OTHERS = [peer for peer in PEERS if not peer.name.startswith("inturn")]


def versions_missing(text: str, peers: list[Peer]) -> list[str]:
    """Return the peers that a page does not name with their pinned version."""
    named = {peer.name.removesuffix("-redis").removesuffix("-sqlite"): peer for peer in peers}
    wanted = [f"{name} {peer.environment.version}" for name, peer in named.items()]
    return [one for one in wanted if f"| {one}" not in text.lower()]


def at_depth(waiting: int, rate: float, used: float) -> dict[str, Any]:
    rates = [rate + 50, rate, rate - 90]
    return {"waiting": waiting, "rates": rates, "processor_microseconds": used}


def record() -> Record:
    entries = [
        Entry(
            name=f"{peer}-best",
            peer=peer,
            configuration="best",
            broker="postgres",
            version="1.0",
            why="it is fast",
            processes=2,
            settings={"batch": 10},
            durability="synced",
            order="in order" if keeps_order else "none",
            loss="none",
            keeps_order=keeps_order,
        )
        for peer, keeps_order in (("ordered", True), ("loose", False))
    ]
    return Record(
        date="2026-01-02",
        command="python -m bench",
        quick=False,
        conditions={"machine": "a machine"},
        entries=entries,
        absent={"gone": "its package is not there"},
        broke={"drain, loose-best": "TimeoutError: 3 of 4 jobs were run"},
        found={
            "drain": {
                "ordered-best": [{"rate": rate, "jobs": 9} for rate in (300.0, 100.0, 200.0)],
                "loose-best": [],
            },
            "keyed": {"ordered-best": [{"rate": 50.0, "jobs": 9}]},
            "backlog": {
                "ordered-best": [
                    {"depths": [at_depth(1_000, 900.0, 30.0), at_depth(10_000, 800.0, 20.0)]},
                    {"depths": [at_depth(1_000, 500.0, 10.0)]},  # the other took too long to fill
                    {"depths": [at_depth(1_000, 700.0, 40.0), at_depth(10_000, 600.0, 60.0)]},
                ],
            },
        },
        plots=["drain"],
    )


def test_the_readme_names_every_peer_with_its_pinned_version() -> None:
    assert not versions_missing((ROOT / "bench/README.md").read_text(encoding="utf-8"), OTHERS)


def test_a_version_that_the_readme_does_not_name_is_caught() -> None:
    assert versions_missing("| PgQueuer 0.0.1 | one process |", OTHERS)


def test_every_peer_has_a_default_and_its_best() -> None:
    for peer in OTHERS:
        assert {"default", "best"} <= {one.name for one in peer.configurations}, peer.name
        assert all(one.why for one in peer.configurations)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_result_is_written_from_its_record(path: Path) -> None:
    told = read(path)
    assert not told.quick
    assert report.report(told, path.stem) == path.with_suffix(".md").read_text(encoding="utf-8")
    for name in PLOTS:
        assert path.with_name(f"{path.stem}-{name}.png").exists()


def test_the_documentation_shows_the_newest_result() -> None:
    shown = re.findall(r"result of [\d-]+\]\((\S+)\.md\)", report.PAGE.read_text(encoding="utf-8"))
    newest = max(
        RESULTS, key=lambda path: (path.stem[:10], len(path.stem), path.stem), default=None
    )
    assert [Path(one).name for one in shown] == ([newest.stem] if newest else [])


def test_a_report_gives_the_median_and_names_who_is_missing() -> None:
    text = report.report(record(), "2026-01-02")
    assert "| `ordered-best` | 200 |" in text
    assert "300 · 100 · 200" in text
    assert "gone: its package is not there" in text
    assert "drain, loose-best: TimeoutError: 3 of 4 jobs were run" in text
    assert "| `loose` | no such promise |" in text


def test_a_backlog_is_told_by_the_median_of_its_runs_and_how_many_reached_it() -> None:
    text = report.report(record(), "2026-01-02")
    assert "| `ordered-best` | 30 µs, 700/s | 40 µs, 700/s (2 of 3 runs) |" in text


def test_a_backlog_of_one_run_is_told_by_that_run() -> None:
    told = record()
    del told.found["backlog"]["ordered-best"][1:]
    text = report.report(told, "2026-01-02")
    assert "| `ordered-best` | 30 µs, 900/s | 20 µs, 800/s |" in text


def test_a_processor_time_that_a_run_could_not_tell_is_left_out() -> None:
    told = record()
    told.found["backlog"]["ordered-best"][2]["depths"][0]["processor_microseconds"] = None
    assert "| `ordered-best` | 700/s | 40 µs" in report.report(told, "2026-01-02")


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_contenders_take_turns_as_often_as_the_sizes_say(measure: Measure) -> None:
    ran: list[str] = []

    def run(bench: Bench, one: Contender) -> dict[str, Any]:
        ran.append(one.name)
        return {}

    contenders = measure.contenders(PEERS)
    told = replace(record(), found={}, broke={})
    take_turns(Bench(FULL, print), replace(measure, run=run), contenders, told)
    assert FULL.runs >= 3
    assert ran == [one.name for one in contenders] * FULL.runs


def test_held_runs_are_in_turn_and_told_by_the_median_run_and_the_worst(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = [[100.0, 95.0, 90.0], [200.0, 150.0, 100.0], [300.0, 280.0, 240.0]]
    plain = [[50.0, 20.0, 10.0], [50.0, 40.0, 20.0], [50.0, 10.0, 5.0]]
    sides: list[str] = []

    def series(bench: Bench, side: str, load: Load) -> list[float]:
        sides.append(side)
        return (ours if side == "ours" else plain)[sides.count(side) - 1]

    monkeypatch.setattr(held, "_series", series)
    row, reference = held.held_unkeyed(Bench(FULL, print))
    assert sides == ["reference", "ours"] * 3
    assert (row.ours, row.reference) == ("300 → 240/s", "50 → 10/s")
    assert (row.ratio, reference.ratio) == (0.8, 0.2)
    assert "in each run: 0.90 · 0.50 · 0.80, the worst 0.50" in row.note
    assert row.note.endswith(": 300 280 240")
    assert "in each run: 0.20 · 0.40 · 0.10, the worst 0.10" in reference.note
    assert (row.measured["ours_series"], row.measured["reference_series"]) == (ours, plain)

    sides.clear()
    (keyed,) = held.held_keyed(Bench(FULL, print))
    assert sides == ["ours"] * 3
    assert (keyed.ratio, keyed.reference) == (0.8, "")


def test_a_run_is_told_with_its_jobs_and_how_long_it_took() -> None:
    text = report.report(record(), "2026-01-02")
    assert "| `ordered-best` | 50/s | 50 | 9 | 0.2 s | in order |" in text
    assert "Runs lasted" not in text
    enqueued = [{"rate": 10.0, "jobs": jobs} for jobs in (10, 17)]
    told = replace(record(), found={"submit-many": {"ordered-best": enqueued}})
    assert "Runs lasted 1.0 to 1.7 s" in report.report(told, "2026-01-02")


def with_latencies(samples: int) -> str:
    """Return the report of a record with so many latencies, of 1 ms and more."""
    found = {"latency": {"ordered-best": [{"milliseconds": [1.0 + at for at in range(samples)]}]}}
    return report.report(replace(record(), found=found), "2026-01-02")


def test_a_latency_is_told_with_its_samples_and_p99_only_of_a_thousand() -> None:
    assert "| name | samples | p50 | p90 | longest |" in with_latencies(101)
    assert "| `ordered-best` | 101 | 51.0 ms | 91.0 ms | 101.0 ms |" in with_latencies(101)
    assert "| name | samples | p50 | p90 | p99 | longest |" in with_latencies(1_001)
    assert "| `ordered-best` | 1,001 | 501.0 ms | 901.0 ms | 991.0 ms |" in with_latencies(1_001)


def test_a_p99_of_the_worker_is_of_enough_samples() -> None:
    assert FULL.latency_jobs - latency.WARM_JOBS >= P99_SAMPLES_MIN


def test_a_held_queue_is_told_with_what_a_job_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = [steady.Measured([100.0], 20.0), steady.Measured([50.0], 45.0)]
    monkeypatch.setattr(steady, "held", lambda bench, one: windows)
    run = measures.held(Bench(FULL, print), Contender(PEERS[0], PEERS[0].configurations[0]))
    told = replace(record(), found={"held": {"ordered-best": [run]}})
    row = "| `ordered-best` | 0.50 | 0.50 | 20 → 45 µs | 100 | 50 |"
    assert row in report.report(told, "2026-01-02")
    del run["processor_microseconds"]  # as in results of before it was looked at
    row = "| `ordered-best` | 0.50 | 0.50 | unknown | 100 | 50 |"
    assert row in report.report(told, "2026-01-02")


def bar(measured: dict[str, Any] | None) -> dict[str, Any]:
    told = dict.fromkeys(("ours", "reference", "bar", "result"), "") | {"note": "of 7 jobs"}
    return told | {"name": "a", "ratio": 2, "broke": 0, "absent": 0, "measured": measured}


def test_a_report_says_what_its_json_holds() -> None:
    holds_all = report.report(replace(record(), bars=[bar({"ours": [1]})]), "2026-01-02")
    assert "(2026-01-02.json), which holds every run;" in holds_all
    assert "| of 7 jobs |" in holds_all
    holds_some = report.report(replace(record(), bars=[bar({}), bar(None)]), "2026-01-02")
    assert "which holds every run of the peers, and of the other benchmarks the" in holds_some


def test_every_run_of_another_benchmark_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [bar({"ours": [1.0, 2.0]})]
    says = f"import json; print(json.dumps({{'rows': {rows}}}))"
    popen = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda asked, **how: popen([sys.executable, "-c", says], **how)
    )
    assert command.rows_of(("bench.other",), FULL, print, record()) == rows


def test_without_plots_the_figures_are_written_and_the_documentation_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(path: Path) -> list[str]:
        raise CannotInstall("there is no matplotlib")

    published: list[Path] = []
    monkeypatch.setattr(report, "publish", lambda record, path: published.append(path))
    monkeypatch.setattr(command, "draw_elsewhere", lambda path: ["drain"])
    path = tmp_path / "2026-01-02.json"
    write_down(replace(record(), broke={}), path, print, publishes=True)
    assert (published, read(path).plots, read(path).broke) == ([path], ["drain"], {})

    monkeypatch.setattr(command, "draw_elsewhere", cannot)
    write_down(replace(record(), broke={}, plots=[]), path, print, publishes=True)
    assert published == [path]
    assert read(path).broke  # so that the command ends with 1
    assert "plots: there is no matplotlib" in path.with_suffix(".md").read_text(encoding="utf-8")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_bench_that_ignores_ctrl_c_is_ended_by_a_signal(number: signal.Signals) -> None:
    """What a script starts in the background inherits that SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), ended_as_if_by_hand():
            signal.raise_signal(number)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_process_is_ready_when_the_last_of_its_threads_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_FOLDER", str(tmp_path))
    journal = Journal()
    threads = [threading.Thread(target=journal.begin, args=(2,)) for _ in range(2)]
    for count, thread in enumerate(threads, 1):
        assert not list(tmp_path.glob("*.ready"))
        thread.start()
        while len(list(tmp_path.glob("*.connected"))) < count:
            time.sleep(0.001)
    while not list(tmp_path.glob("*.ready")):
        time.sleep(0.001)
    (tmp_path / "go").touch()
    for thread in threads:
        thread.join()


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record().write(tmp_path / "2026-01-02.json")
    assert read(tmp_path / "2026-01-02.json") == record()
    assert json.loads((tmp_path / "2026-01-02.json").read_text())["absent"]


def test_a_new_result_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Before\n\n{report.BEGIN}\n\nan old one\n\n{report.END}\n\nafter\n")
    for name in ("2026-01-02", "2026-01-03"):
        report.publish(record(), ROOT / "bench" / "results" / f"{name}.json", page)
    text = page.read_text()
    assert "old one" not in text
    assert "2026-01-02.md" not in text
    assert "../../bench/results/2026-01-03.md" in text
    assert "(../../bench/results/2026-01-03-drain.png)" in text
    assert text.startswith("# Before")
    assert text.endswith("after\n")


def test_a_job_that_ran_after_a_later_one_of_its_key_is_counted() -> None:
    assert out_of_order([(1, 0), (2, 1), (3, 2), (4, 3)], 2) == 0
    assert out_of_order([(1, 2), (2, 1), (3, 0), (4, 3)], 2) == 1


def test_runs_of_all_processes_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_FOLDER", str(tmp_path))
    Journal().ran(1)
    elsewhere = "from bench.peers.tally import Journal; Journal().ran(2)"
    subprocess.run([sys.executable, "-c", elsewhere], cwd=ROOT, check=True)
    (tmp_path / "7.count").write_text("           5")
    assert count_runs(tmp_path) == 7


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            "npm error code ETARGET\nnpm error notarget No matching version found for rrule@2.2.\n"
            "npm error A complete log of this run can be found in: /var/log/npm/debug.log\n",
            "npm error notarget No matching version found for rrule@2.2.",
        ),
        (
            "WARNING: Location is ignored\nERROR: No matching distribution found for huey==0.0.0\n",
            "ERROR: No matching distribution found for huey==0.0.0",
        ),
        ("npm error code EIO\nnpm error A complete log is in: /var/log", "npm error code EIO"),
        ("npm error request to https://host/gone failed", "npm error request to … failed"),
        ("", ""),
    ],
)
def test_the_reason_of_a_failed_installation_is_its_telling_line(said: str, why: str) -> None:
    assert reason(said) == why
