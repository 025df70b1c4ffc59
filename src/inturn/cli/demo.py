"""``inturn demo``: a small shop whose orders fail, die and change hands, and stay in turn.

Nothing is staged but the faults: one order fails once, one cannot succeed until a person helps, and
one worker, a process like the others, is killed. What is printed is what the handlers wrote down
and the store answered, and the summary is counted from that.
"""

from __future__ import annotations

import asyncio
import signal

import msgspec
import typer
from rich.console import Console

from inturn.cli.exits import ExitCode
from inturn.demo.day import DemoFailed, play
from inturn.demo.screen import Screen
from inturn.demo.summary import Summary


def run(*, as_json: bool = False) -> None:
    """Run the shop, print what happens, and leave with 1 if a promise was not kept."""
    screen = Screen(Console(quiet=as_json, highlight=False))
    try:
        summary = asyncio.run(_played(screen))
    except (KeyboardInterrupt, asyncio.CancelledError) as stop:
        screen.console.print("\nStopped. Its temporary files are gone.")
        is_terminated = isinstance(stop, asyncio.CancelledError)
        raise typer.Exit(ExitCode.TERMINATED if is_terminated else ExitCode.INTERRUPTED) from None
    except DemoFailed as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    faults = summary.faults()
    if as_json:
        shown = msgspec.to_builtins(summary) | {"faults": faults}
        typer.echo(msgspec.json.format(msgspec.json.encode(shown), indent=2).decode())
    for fault in faults:
        typer.echo(fault, err=True)
    raise typer.Exit(1 if faults else 0)


async def _played(screen: Screen) -> Summary:
    """Play the demo; let SIGTERM and a closed terminal end it as Ctrl-C does, files and all."""
    playing = asyncio.current_task()
    assert playing is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            asyncio.get_running_loop().add_signal_handler(number, playing.cancel)
    return await play(screen)
