"""Prints the demo, as it happens."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inturn.demo.summary import Summary
from inturn.model.job import DeadLetter, Job, NewJob

CUSTOMERS = {"dora": "magenta", "ada": "green", "ben": "blue", "cleo": "yellow"}


class Screen:
    """Says when, who, which job and what: a line each."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._started = time.monotonic()

    def seconds(self) -> float:
        """Return how long the demo has run."""
        return time.monotonic() - self._started

    def accepted(self, orders: int, mails: int, workers: int) -> None:
        """Say what was accepted, and what is going to happen to it."""
        self.console.rule("[bold]inturn demo[/]: a small shop, on a SQLite file")
        self.console.print(
            f"\nAccepted in one transaction: {orders} orders of {len(CUSTOMERS)} customers, "
            f"{mails} mails, and a receipt that waits for ada's last order. The orders of one "
            f"customer run in turn, on {workers} workers that are processes of their own "
            f"([bold]inturn work[/]).\n"
        )
        for customer, fate in (
            ("ben", "order 2 fails once"),
            ("cleo", "order 2 cannot succeed until a person helps"),
            ("dora", "the worker of order 2 is killed, with kill -9"),
            ("ada", "and the mails must not notice any of it"),
        ):
            self.console.print(f"  [{CUSTOMERS[customer]}]{customer:<5}[/] {fate}")
        self.console.print()

    def dead(self, letter: DeadLetter) -> None:
        """Show a dead letter with the history of its errors."""
        what = f"finds a dead letter, after {letter.attempts} attempts:"
        self.say("operator", what, letter.job, style="bold")
        for error in letter.errors:
            self.say("", f"attempt {error.attempt} on {error.worker}: {error.error}", style="dim")

    def say(self, who: str, what: str, job: Job | NewJob | None = None, *, style: str = "") -> None:
        """Print one line. Without who, the line above goes on."""
        line = Table.grid(padding=(0, 2))
        for width in (7, 8, 14):
            line.add_column(width=width, no_wrap=True)
        line.add_column()
        when = Text(f"{self.seconds():5.2f} s" if who else "", "dim")
        line.add_row(when, who, _named(job), Text(what, style))
        self.console.print(line)

    def judged(self, summary: Summary, numbers: Mapping[str, Sequence[int]]) -> None:
        """Print the summary."""
        self.console.print()
        self.console.rule("what happened")
        table = Table.grid(padding=(0, 3))
        table.add_column(justify="right")
        table.add_column(width=34)
        table.add_column(justify="right")
        table.add_column()
        for left, right in (
            ((summary.accepted, "jobs accepted"), (summary.killed, "worker killed")),
            ((summary.done, "jobs done"), (summary.taken_over, "job taken over from it")),
            ((summary.failed, "attempts failed"), (summary.duplicates, "effects that came twice")),
            ((summary.died, "dead letter, put back"), (summary.dead, "dead letters left")),
            ((summary.order_violations, "order violations"), (len(summary.check), "table faults")),
        ):
            table.add_row(f"[bold]{left[0]}[/]", left[1], f"[bold]{right[0]}[/]", right[1])
        self.console.print(table)
        self.console.print()
        for customer, done in numbers.items():
            shown = " ".join(str(number) for number in done)
            self.console.print(f"  [{CUSTOMERS[customer]}]{customer:<5}[/] done in turn: {shown}")
        sound = "nothing wrong" if not summary.check else "; ".join(summary.check)
        verdict = "[red]not as promised[/]" if summary.faults() else "[green]all as promised[/]"
        self.console.print(f"\n  store.check(): {sound}")
        self.console.print(f"  {verdict}, in {summary.seconds:.1f} s\n")


def content(job: Job | NewJob) -> tuple[str | None, int]:
    """Return whose order it is, and which; without a customer if it is none."""
    said = msgspec.json.decode(job.payload)
    return said["customer"] if job.kind == "order" else None, said.get("number", 1)


def _named(job: Job | NewJob | None) -> Text:
    if job is None:
        return Text()
    customer, number = content(job)
    if customer is None:
        return Text(job.kind if job.kind == "receipt" else f"{job.kind} {number}", "dim")
    return Text(f"{customer:<5} {job.kind} {number}", CUSTOMERS[customer])
