"""The pytest plugin, in test files that real runs of pytest collect."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]

TASKS = """
import inturn

app = inturn.App("sqlite:////nowhere/at/all/work.db")

@app.job(queue="mail")
async def send(to: str) -> str:
    return to.upper()

@app.job
def remind(to: str) -> None:
    send.submit_sync(to)
"""

PLAIN = """
from inturn.testing import HandClock, Sandbox
from orders import app, remind, send

def test_it_runs(inturn_sandbox: Sandbox, inturn_app, inturn_clock: HandClock):
    assert inturn_app is app is inturn_sandbox.app
    remind.using(delay=60).submit_sync("ann")
    assert inturn_sandbox.drain_sync().ran == []
    inturn_clock.advance("1m")
    assert len(inturn_sandbox.drain_sync().done) == 2
    inturn_sandbox.assert_submitted(send, to="ann")

def test_the_next_begins_with_nothing(inturn_sandbox):
    assert inturn_sandbox.submitted() == []

def test_without_the_fixture_the_app_is_the_real_one():
    assert app.url.endswith("/nowhere/at/all/work.db")
"""

ASYNC = """
import pytest
from orders import remind, send

@pytest.mark.asyncio
async def test_it_runs(inturn_sandbox, inturn_clock):
    ticket = await send.submit("bob")
    await remind.submit("ann")
    assert len((await inturn_sandbox.drain()).done) == 3
    assert await ticket.result(timeout=1) == "BOB"
    inturn_sandbox.assert_submitted(send, to="ann")

@pytest.mark.asyncio
async def test_it_runs_again(inturn_sandbox):
    assert inturn_sandbox.submitted() == []
    await send.submit("bob")
    assert len((await inturn_sandbox.drain()).done) == 1
"""

OWN_LOOP = """
import asyncio
import pytest
import pytest_asyncio

@pytest_asyncio.fixture
async def is_at_home(inturn_app):
    loop = asyncio.get_running_loop()  # a client that is made here can be used on no other

    @inturn_app.job
    async def is_at_home() -> bool:
        return asyncio.get_running_loop() is loop

    await is_at_home.submit()
    return is_at_home

@pytest.mark.asyncio
async def test_a_drain(inturn_sandbox, is_at_home):
    ticket = await is_at_home.submit()
    assert len((await inturn_sandbox.drain()).done) == 2
    assert await ticket.result(timeout=1)

@pytest.mark.asyncio
async def test_code_that_is_not_async(inturn_sandbox):
    @inturn_sandbox.app.job
    def note(n: int) -> None:
        if n:
            note.submit_sync(n - 1)

    await asyncio.to_thread(note.submit_sync, 3)
    assert len((await inturn_sandbox.drain()).done) == 4
"""

FRESH = """
def test_a_new_app(inturn_app, inturn_sandbox):
    @inturn_app.job
    async def double(n: int) -> int:
        return 2 * n

    double.submit_sync(21)
    assert len(inturn_sandbox.drain_sync().done) == 1
"""

# Python 3.12.1 takes a numbered parameter of SQLite for a named one, and warns.
STRICT = "filterwarnings =\n    error\n    ignore:Binding .* named parameter:DeprecationWarning\n"


@pytest.fixture
def inner(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini(f"[pytest]\ninturn_app = orders:app\npythonpath = .\n{STRICT}")
    pytester.makepyfile(orders=TASKS)
    return pytester


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    """Run pytest with the plugin, whether or not what is installed names it already."""
    plugin = ["-p", "no:inturn", "-p", "inturn.testing.plugin"]
    for other in ("hypothesispytest", "xdist", "timeout", "cacheprovider"):  # slow to begin with
        plugin += ["-p", f"no:{other}"]
    if "no:asyncio" not in options:
        plugin += ["-o", "asyncio_default_fixture_loop_scope=function"]
    return pytester.runpytest_subprocess(*plugin, *options)


def test_plain_tests_use_the_fixtures(inner: pytest.Pytester) -> None:
    inner.makepyfile(test_plain=PLAIN)
    run(inner, "-p", "no:asyncio").assert_outcomes(passed=3)


def test_async_and_plain_tests_may_be_mixed(inner: pytest.Pytester) -> None:
    inner.makepyfile(test_plain=PLAIN, test_async=ASYNC)
    run(inner, "-o", "asyncio_default_test_loop_scope=session").assert_outcomes(passed=5)


def test_handlers_of_async_tests_run_on_the_tests_own_loop(pytester: pytest.Pytester) -> None:
    pytester.makeini(f"[pytest]\n{STRICT}")
    pytester.makepyfile(test_own_loop=OWN_LOOP)
    run(pytester).assert_outcomes(passed=2)


def test_another_store_is_a_fixture_of_ones_own(
    pytester: pytest.Pytester, postgres_url: str
) -> None:
    pytester.makeconftest(
        f"import pytest\n@pytest.fixture\ndef inturn_store():\n    return {postgres_url!r}\n"
    )
    pytester.makepyfile(test_fresh=FRESH)
    run(pytester).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere:app", "*there is no such app: No module named 'nowhere'*"),
        ("orders:other", "*there is no such app: module 'orders' has no attribute 'other'*"),
        ("orders:send", "*is no App but Job*"),
    ],
)
def test_a_name_that_leads_to_no_app_is_explained(
    inner: pytest.Pytester, name: str, said: str
) -> None:
    inner.makepyfile(test_plain=PLAIN)
    ran = run(inner, "-o", f"inturn_app={name}", "-k", "test_it_runs")
    ran.assert_outcomes(errors=1)
    ran.stdout.fnmatch_lines([said])


def test_what_fails_is_shown_and_not_the_code_that_finds_it(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        test_failing="""
        from orders import app, send
        @app.job
        def broken() -> None:
            raise ValueError("right here")
        def test_it(inturn_sandbox):
            broken.submit_sync()
            inturn_sandbox.drain_sync()
        def test_nothing_was_submitted(inturn_sandbox):
            inturn_sandbox.assert_submitted(send, to="ann")
        """
    )
    ran = run(inner)
    ran.assert_outcomes(failed=2)
    ran.stdout.fnmatch_lines(['>*raise ValueError("right here")*', "*raised by job 'broken'*"])
    ran.stdout.fnmatch_lines(["*send({'to': 'ann'}) was not submitted.*"])
    ran.stdout.no_fnmatch_line("*raise AssertionError*")


def test_who_does_not_use_it_does_not_pay_for_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_other="""
        import sys
        def test_nothing_was_imported():
            ours = [name for name in sys.modules if name.split(".")[0] == "inturn"]
            assert sorted(ours) == ["inturn", "inturn.testing", "inturn.testing.plugin"]
        """
    )
    run(pytester).assert_outcomes(passed=1)


def test_the_package_names_the_plugin_to_pytest() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"inturn": "inturn.testing.plugin"}


def test_the_rest_of_it_needs_no_pytest() -> None:
    script = "import sys; sys.modules['pytest'] = None; from inturn.testing import private"
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
