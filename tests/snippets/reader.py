"""A reader who does what a page says, in an empty folder: types, saves, runs, and looks."""

from __future__ import annotations

import ast
import asyncio
import configparser
import contextlib
import inspect
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import psycopg
import pytest

import inturn
from inturn.cli.ids import DIGITS_MIN
from inturn.cli.main import run
from inturn.model import bounds, errors, worker_events
from inturn.store.address import connect
from inturn.store.protocol import Store
from tests.cli.support import COMMAND, on_store
from tests.cli.test_commands import COMMANDS
from tests.snippets.blocks import Block
from tests.snippets.trouble import bury_some, halt

STORE = "sqlite:///work.db"
CUT = re.compile("0199[0-9a-f-]*…?")  # an id, as pages write it
SECONDS_MAX = 120.0

SQLITE_SHELL = """
import sqlite3, sys
_, path, typed = sys.argv
word, _, rest = typed.partition(" ")
with sqlite3.connect(path, isolation_level=None) as found:
    found.backup(sqlite3.connect(rest)) if word == ".backup" else found.execute(typed)
"""
STANDS_IN = (sys.executable, "-c", SQLITE_SHELL)  # where the program is not installed
PROGRAMS = {
    "python": (sys.executable,),
    "inturn": COMMAND,
    "sqlite3": (installed,) if (installed := shutil.which("sqlite3")) else STANDS_IN,
}


class Reader:
    """Runs the blocks of one page, in a namespace and a folder that they share.

    What a page takes for granted, its own reader puts in place. ``replaced`` are texts of the page
    that mean something else here, such as a host.
    """

    def __init__(self, folder: Path, request: pytest.FixtureRequest) -> None:
        self.folder, self.request = folder, request
        self.names: dict[str, Any] = {"inturn": inturn}
        self.replaced: dict[str, str] = {}
        self.database: str | None = None
        self.printed = ""

    def set_up(self) -> None:
        """Put in place what the page takes for granted."""

    def before(self, block: Block) -> None:
        """Make ready for a block of Python: a page may declare a job more than once."""

    async def see(self) -> None:
        """Look at what the page has come to."""

    def give(self, **names: Any) -> None:
        self.names.update(names)

    def new_app(self, url: str = STORE) -> inturn.App:
        app = inturn.App(url)
        self.give(app=app)
        return app

    async def work(self, app: inturn.App) -> None:
        """Run what the page has submitted; nothing of it may fail."""
        await inturn.Worker(app).run(until_empty=True)
        page = await app.run(lambda store: store.dead_letters())
        assert [letter.reason for letter in page.rows] == []
        retrying = sum(one.retrying for one in await app.run(lambda store: store.queues()))
        assert retrying == 0, "a handler of the page failed"
        await app.close()

    async def follow(self, block: Block) -> None:
        """Do what a block says; fail where it does."""
        text = block.text
        for old, new in self.replaced.items():
            text = text.replace(old, new)
        try:
            if block.saved_as is not None:
                (self.folder / block.saved_as).write_text(text, encoding="utf-8")
            elif block.language == "python" and "asyncio.run(" in text:
                (self.folder / "program.py").write_text(text, encoding="utf-8")
                await asyncio.to_thread(self.shell, "python program.py")
            elif block.language == "python":
                self.before(block)
                await self.python(text)
            else:
                await asyncio.to_thread(getattr(self, f"_{block.language}"), text)
        except BaseException as error:
            error.add_note(f"in {block}")
            raise

    # Python

    async def python(self, text: str) -> None:
        """Run each statement: on the loop if it awaits, else on a thread, as a script would."""
        if text.rstrip().rpartition("\n")[2].startswith("@"):  # a decorator, shown alone
            text += "async def decorated() -> None: ...\n"
        lines = text.splitlines()
        for statement in ast.parse(text).body:
            code = compile(
                ast.Module([statement], []), "page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            )
            expected = _expected(statement, lines)
            try:
                if code.co_flags & inspect.CO_COROUTINE:
                    await eval(code, self.names)
                else:
                    await asyncio.to_thread(exec, code, self.names)
            except Exception as error:
                if type(error).__name__ != expected:
                    raise
            else:
                assert expected is None, f"{expected} was not raised by {ast.unparse(statement)}"

    # The shell

    def _console(self, text: str) -> None:
        """Run what is typed, and see that the lines below it are printed."""
        typed: list[str] = []
        shown: list[str] = []
        for line in text.splitlines():
            if line.startswith(">>> "):
                typed.append(line.removeprefix(">>> "))
            elif line == "$ python":
                continue
            elif line.startswith("$ ") or "$ " not in text:
                self._command(line.removeprefix("$ "))
            else:
                shown.append(line)
        if typed:
            (self.folder / "typed").write_text("\n".join(typed) + "\n", encoding="utf-8")
            self.shell("python -q -i < typed 2> said; ! grep --after-context 9 Traceback said")
        self._text("\n".join(shown))

    def _command(self, line: str) -> None:
        words = shlex.split(line, comments=True)
        match words:
            case ["export", assignment]:
                name, _, value = assignment.partition("=")
                os.environ[name] = value  # given back by who reads the page
            case ["inturn", "work", *_]:
                self.shell(shlex.join(words if "--drain" in words else [*words, "--drain"]))
            case ["inturn", "status", "--watch"]:
                self._watch(words)
            case ["inturn", *arguments]:
                self._trouble(arguments)
                self._inturn([self._filled(one, arguments) for one in arguments])
            case _:
                self.shell(line)

    def _watch(self, words: list[str]) -> None:
        """Look until something is shown, then press Ctrl-C."""
        watched = subprocess.Popen([*COMMAND, *words[1:]], cwd=self.folder, stdout=subprocess.PIPE)
        with watched:
            assert watched.stdout is not None
            assert watched.stdout.readline()
            watched.send_signal(signal.SIGINT)
            watched.stdout.read()
        assert watched.returncode == 0

    def _trouble(self, arguments: list[str]) -> None:
        """Have what a command is about, if it mends something."""
        match arguments:
            case ["lanes", "retry" | "skip" | "drop", queue, key]:
                on_store(os.environ["INTURN_STORE"], lambda store: halt(store, queue, key))
            case ["dead", *_]:
                on_store(os.environ["INTURN_STORE"], bury_some)

    def _inturn(self, arguments: list[str]) -> None:
        """Run the command in this process, which is a quarter of a second quicker."""
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            if {"retry", "drop"} & set(arguments) and "--all" in arguments:
                arguments = [*arguments, "--yes"]  # where stdin is no terminal it never asks
            code = run(arguments)
        assert code == 0, f"{arguments} left with {code}: {output.getvalue()}"
        self.printed += output.getvalue()

    def shell(self, line: str) -> None:
        """Run a line in the folder, with the programs that pages name."""
        bin = self.folder / ".bin"
        if not bin.exists():
            bin.mkdir()
            for name, command in PROGRAMS.items():
                (bin / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
                (bin / name).chmod(0o755)
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env={**os.environ, "PATH": f"{bin}:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )
        assert done.returncode == 0, (
            f"{line} left with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
        self.printed += done.stdout

    def _filled(self, word: str, arguments: list[str]) -> str:
        """Return a real id for a page's, cut as there: a dead letter's where one is wanted.

        Where other jobs' ids begin like that, a reader writes more of it.
        """
        if not CUT.fullmatch(word):
            return word
        is_dead = arguments[0] == "dead"
        found = on_store(os.environ["INTURN_STORE"], _first_dead if is_dead else _first_job)
        assert found, f"the page has made nothing that {arguments} could be about"
        others = on_store(os.environ["INTURN_STORE"], _ids) - {found}
        written = len(word.removesuffix("…"))
        assert written >= DIGITS_MIN, f"{word} is refused"
        while any(other.startswith(found[:written]) for other in others):
            written += 1
        return found[:written] + "…" * word.endswith("…")

    def _text(self, text: str) -> None:
        """See that each line was printed; … stands for anything."""
        for line in text.splitlines():
            pattern = ".*".join(map(re.escape, line.split("…")))
            assert re.search(rf"^{pattern}$", self.printed, re.MULTILINE), (
                f"{line!r} was not printed, but:\n{self.printed}"
            )

    # What is not run but read

    def _sql(self, text: str) -> None:
        assert self.database is not None
        with psycopg.connect(self.database, autocommit=True) as connection:
            connection.execute(textwrap.dedent(text).encode())

    def _url(self, text: str) -> None:
        connect(text.strip())

    def _toml(self, text: str) -> None:
        tomllib.loads(text)
        with (self.folder / "pyproject.toml").open("a", encoding="utf-8") as file:
            file.write(text)

    def _ini(self, text: str) -> None:
        """Read a unit of systemd, and whether its command is one of ours."""
        unit = configparser.ConfigParser(interpolation=None)
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        unit.read_string(text)
        program, name, *arguments = shlex.split(unit["Service"]["ExecStart"])
        assert program.endswith("/inturn")
        with COMMANDS[name].make_context(name, arguments):
            pass

    def _json(self, text: str) -> None:
        """Read a document; an event has only members that events of its sort have."""
        document = json.loads(text.replace(",…}", "}"))
        if "event" not in document:
            return
        sorts = {
            sort.__struct_config__.tag: sort
            for sort in vars(worker_events).values()
            if isinstance(sort, type) and issubclass(sort, worker_events.WorkerEvent)
        }
        sort = sorts[document.pop("event")]
        assert set(document) <= {"at", *sort.__struct_fields__}


async def _first_dead(store: Store) -> str | None:
    return next((str(one.job.id) for one in (await store.dead_letters()).rows), None)


async def _first_job(store: Store) -> str | None:
    return next((str(one.job.id) for one in (await store.jobs()).rows), None)


async def _ids(store: Store) -> set[str]:
    page = await store.jobs(rows_max=bounds.PAGE_ROWS_MAX)
    assert page.cursor is None
    return {str(one.job.id) for one in page.rows}


def _expected(statement: ast.stmt, lines: list[str]) -> str | None:
    """Return the error that a statement is to raise: by ``raise``, or by its comment."""
    if isinstance(statement, ast.Raise):
        assert isinstance(statement.exc, ast.Call)
        return ast.unparse(statement.exc.func).rpartition(".")[2]
    assert statement.end_lineno is not None
    comment = re.search(r"  # (\w+):", lines[statement.end_lineno - 1])
    return comment[1] if comment is not None and hasattr(errors, comment[1]) else None
