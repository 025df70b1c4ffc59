"""``inturn work``: which app it finds, where its settings come from, what it writes."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from inturn.model.job import NewJob
from tests.cli.support import (
    Cli,
    Ran,
    Terminal,
    on_store,
    run_process,
    start,
    without_colour,
)

OpenTerminal = Callable[..., Terminal]

STORE = "sqlite:///shop.db"

SHOP = """
import asyncio
import os
import inturn

app = inturn.App("sqlite:///shop.db")

@app.job
async def order(n: int, waits_for: str = "") -> None:
    open("began", "w").close()
    while waits_for and not os.path.exists(waits_for):
        await asyncio.sleep(0.01)

@app.job(queue="mail", attempts=2, retry=inturn.RetryPolicy(base_seconds=0.0))
async def mail(to: str) -> None:
    raise ValueError(f"no such address: {to}\\x1b[2J")
"""

PRESS = """
import inturn

app = inturn.App("sqlite:///shop.db")
app.queue("press 1", local=True)

@app.job(queue="press 1")
async def cut() -> None: ...
"""


@pytest.fixture(autouse=True)
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def work(*arguments: str, **environment: str) -> Ran:
    return run_process("work", *arguments, "--drain", environment=environment)


def submit(kind: str, payload: str, queue: str = "default") -> None:
    job = NewJob(kind=kind, payload=payload, queue=queue, attempts_max=2)
    on_store(STORE, lambda store: store.enqueue([job]))


def until_begun() -> None:
    while not Path("began").exists():
        time.sleep(0.01)


def events(ran: Ran) -> list[dict[str, object]]:
    return [json.loads(line) for line in ran.lines]


# Which queues


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_queue_that_is_most_likely_mistyped_is_told_once(processes: str) -> None:
    submit("order", '{"n": 1}', queue="later")
    queues = ("--queue", "mial", "--queue", "mail", "--queue", "later")
    ran = work("shop:app", "--processes", processes, *queues)
    assert ran.code == 0
    [said] = [line for line in ran.err.splitlines() if "WARNING" in line]
    assert "no job of its app goes to the queue 'mial', and the store has none" in said
    assert "1 job done" in ran.out


def test_a_queue_that_is_most_likely_mistyped_is_told_in_json_too() -> None:
    first, *_ = events(work("shop:app", "--json", "--queue", "mial", "--queue", "mail"))
    assert (first["event"], first["queues_unknown"]) == ("started", ["mial"])


def test_a_worker_that_serves_no_queue_says_which_are_local(shop: Path) -> None:
    (shop / "press.py").write_text(PRESS)
    ran = work("press:app")
    assert ran.code == 0
    [said] = [line for line in ran.err.splitlines() if "WARNING" in line]
    assert "serves no queue: 'press 1' is local. Start it with --queue 'press 1'" in said
    named = work("press:app", "--queue", "press 1", "--node", "nowhere")
    [said] = [line for line in named.err.splitlines() if "WARNING" in line]
    assert "Look whether --node nowhere is mistyped" in said


# Which app


@pytest.mark.parametrize("target", ["shop", "./shop.py:app"])
def test_an_app_is_found_in_this_folder(target: str) -> None:
    ran = work(target)
    assert (ran.code, ran.err) == (0, "")
    assert "works for shop:app" in ran.lines[0]


def test_two_apps_are_refused() -> None:
    ran = work("shop:app", "-A", "load:app")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "inturn: two Apps given, shop:app and -A load:app. Leave one out.\n"
    assert work("shop:app", INTURN_APP="load:app").code == 0


def test_an_app_is_found_in_a_package(shop: Path) -> None:
    (shop / "firm" / "jobs").mkdir(parents=True)
    for folder in ("firm", "firm/jobs"):
        (shop / folder / "__init__.py").touch()
    (shop / "firm" / "jobs" / "orders.py").write_text(SHOP)
    for target in ("firm.jobs.orders:app", "firm/jobs/orders.py"):
        ran = work(target)
        assert (ran.code, ran.err) == (0, "")
        assert "works for firm.jobs.orders:app" in ran.lines[0]


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("", "shopp:app", "there is no module 'shopp' in .*Did you mean 'shop'?"),
        ("", "far.py", "there is no Python file 'far.py' here"),
        ("", "shop:nothing", "module 'shop' has no 'nothing'. There is shop:app."),
        ("", "shop:order", "'order' of module 'shop' is no App; its type is Job. There is"),
        ("x = 1", "other", "module 'other' has no App. Make one in it"),
        ("from shop import app\nalso = app", "other", ""),
        ("import shop, inturn\na = shop.app\nb = inturn.App('sqlite:///b.db')", "other",
         "more than one App: say which. There is other:a and other:b."),
        ("import nowhere", "other", "module 'other' imports 'nowhere', which is not there."),
        ("x = {}['a']", "other", "module 'other' cannot be imported: it raised KeyError."),
        ("import inturn\napp = inturn.App()", "other",
         "an App needs a store: .*INTURN_STORE, which `inturn work`'s --store sets as well."),
        ("import inturn\napp = inturn.App('sqlite:///b.db')", "other",
         r'other:app has no jobs.* group files alone, write app.extension\("groups"\)'),
        ("import inturn\napp = inturn.App('sqlite:///b.db')\napp.extension('groups')", "other", ""),
        ("import inturn\napp = inturn.App('sqlite:///:memory:')", "other", "is in memory"),
    ],
)  # fmt: skip
def test_an_app_that_is_not_there_is_explained(
    shop: Path, source: str, target: str, said: str
) -> None:
    (shop / "other.py").write_text(source)
    ran = work(target)
    assert ran.code == (2 if said else 0)
    assert re.search(said, ran.err.replace("\n", " "))
    assert "Traceback" not in ran.err


def test_an_import_that_is_interrupted_says_so(shop: Path) -> None:
    (shop / "other.py").write_text("x = 1\nraise KeyboardInterrupt\n")
    ran = work("other:app")
    assert ran.code == 130
    said = ran.err.splitlines()
    assert said[0].startswith("inturn: interrupted while module 'other' was imported, by Ctrl-C or")
    assert said[1] == f"  {shop}/other.py:2: raise KeyboardInterrupt"
    assert "Traceback" not in ran.err


def test_a_failed_import_shows_where_it_failed(shop: Path) -> None:
    (shop / "other.py").write_text("import inner\n")
    (shop / "inner.py").write_text("x = 1\nimport nowhere\n")
    ran = work("other:app")
    assert ran.err.splitlines()[1:] == [
        f"  {shop}/other.py:1: import inner",
        f"  {shop}/inner.py:2: import nowhere",
        "  ModuleNotFoundError: No module named 'nowhere'",
    ]


def test_without_an_app_the_usage_is_said() -> None:
    ran = work()
    assert ran.code == 2
    assert ran.err == "inturn: no App given. Usage: inturn work MODULE:APP\n"


# Settings


def test_settings_come_from_flags_then_the_environment() -> None:
    environment = {"INTURN_CONCURRENCY": "5", "INTURN_QUEUES": "mail other", "INTURN_APP": "shop"}
    for flags, concurrency in ((("-c", "7"), 7), ((), 5)):
        [started, _] = events(work("--json", *flags, **environment))
        assert (started["concurrency"], started["queues"]) == (concurrency, ["mail", "other"])


def test_a_store_that_is_named_comes_before_the_apps_own(shop: Path) -> None:
    other = "sqlite:///other.db"
    assert run_process("store", "migrate", "--store", other).code == 0
    for flags, environment in ((("--store", other), {}), ((), {"INTURN_STORE": other})):
        ran = work("shop:app", *flags, **environment)
        assert (ran.code, "store        sqlite:///other.db" in ran.lines) == (0, True)
        assert ("its own store is left" in ran.err or "shop.db" in ran.err) == bool(environment)
        assert "kinds        mail order" in ran.lines, "and none that the tables of groups bring"
    (shop / "shop.py").write_text(SHOP.replace('"sqlite:///shop.db"', ""))
    assert work("shop:app", "--store", other, "--processes", "2").code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--lease", "0"), "0 is too short; the least is 0.001s."),
        (("--lease", "30 s"), "'30 s' is no length of time"),
        (("--concurrency", "0"), "--concurrency"),
        (("--health-port", "65536"), "--health-port"),
    ],
)
def test_a_setting_that_cannot_be_read_is_refused_before_anything_is_imported(
    arguments: tuple[str, ...], said: str, sqlite_cli: Cli
) -> None:
    ran = sqlite_cli.bare("work", "shop:app", "--drain", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert "shop" not in sys.modules


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--processes", "0"), "--processes must be a number from 1 to 1,000, or auto, not '0'"),
        (("--name", "x" * 201), "worker"),
        (("--health-port", "1", "--health-host", "198.51.100.1"), "health cannot be served"),
        (("--health-file", "no/such/folder"), "the health file cannot be written"),
        (("--health-file", "shop.py"), "shop.py is no health file: it is not empty."),
    ],
)
def test_a_setting_that_cannot_be_is_refused(
    arguments: tuple[str, ...], said: str, shop: Path
) -> None:
    ran = work("shop:app", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert (shop / "shop.py").read_text() == SHOP


def test_a_health_file_that_someone_wrote_to_is_left_alone(tmp_path: Path) -> None:
    submit("order", '{"n": 1, "waits_for": "end"}')
    running = start("work", "shop:app", "--drain", "--health-file", "health")
    until_begun()
    while not Path("health").exists():
        time.sleep(0.01)
    Path("health").write_text("mine")
    Path("end").touch()
    _, complained = running.communicate(timeout=120)
    assert (running.returncode, complained) == (0, "")
    assert Path("health").read_text() == "mine"


# What it writes


def test_people_read_where_it_begins_what_fails_and_a_summary() -> None:
    submit("order", '{"n": 1}')
    submit("mail", '{"to": "a@b.c"}', queue="mail")
    ran = work("shop:app", "--name", "w1")
    assert ran.code == 0
    assert ran.lines[:6] == [
        "inturn 0.1.0 works for shop:app",
        "store        sqlite:///shop.db",
        "queues       default mail",
        "kinds        mail order",
        "worker       w1",
        "concurrency  100",
    ]
    assert re.fullmatch(
        r"Stopped after \S+: 1 job done, 1 will be retried, 1 dead\.", ran.lines[-1]
    )
    [failed, dead] = [line for line in ran.err.splitlines() if line.startswith(("0", "1", "2"))]
    assert re.match(
        r"\d\d:\d\d:\d\d WARNING worker w1: job \S+ \(mail\) failed: ValueError: no such address: "
        r"a@b\.c\\x1b\[2J; attempt 1 of 2, again in 0\.0 s$",
        failed,
    )
    assert " (mail) is dead: failed 2 times, the last time: " in dead
    assert re.search(r" Details: `inturn jobs show \S{8} -A shop:app`$", dead)
    assert ran.err.count("in mail\n") == 2, "where it failed"
    assert "attempt.py" not in ran.err


def test_programs_read_a_json_document_for_each_event() -> None:
    submit("mail", '{"to": "a@b.c"}', queue="mail")
    ran = work("shop:app", "--json", "--queue", "mail")
    assert (ran.code, ran.err) == (0, "")
    started, failed, died, stopped = events(ran)
    assert [one["event"] for one in events(ran)] == [
        "started", "attempt_failed", "died", "stopped",
    ]  # fmt: skip
    assert (started["app"], started["store"]) == ("shop:app", "sqlite:///shop.db")
    assert (failed["kind"], failed["attempt"], failed["key"]) == ("mail", 1, None)
    assert died["job"] == failed["job"]
    for one in (failed, died):
        assert "in mail\n" in str(one["traceback"])
    assert stopped["counts"] == {"done": 0, "failed": 1, "dead": 1, "released": 0, "lost": 0}


def test_a_password_is_not_shown(postgres_url: str) -> None:
    with_password = postgres_url.replace("postgres@", "postgres:geheim@")
    assert run_process("store", "migrate", "--store", with_password).code == 0
    ran = work("shop:app", "--store", with_password)
    assert (ran.code, ran.err) == (0, "")
    assert "geheim" not in ran.out
    assert "postgres:…@" in ran.out


def test_an_app_with_a_log_of_its_own_keeps_it(shop: Path) -> None:
    own = "import logging\nlogging.basicConfig(format='own %(message)s')\n"
    (shop / "shop.py").write_text(own + SHOP)
    submit("mail", '{"to": "a@b.c"}', queue="mail")
    ran = work("shop:app")
    assert [line[:11] for line in ran.err.splitlines() if "(mail)" in line] == ["own worker "] * 2
    assert ran.err.count("Traceback") == 2


def test_on_a_terminal_ctrl_c_finishes_what_runs(shop: Path, open_terminal: OpenTerminal) -> None:
    submit("order", '{"n": 1, "waits_for": "interrupted"}')
    terminal = open_terminal("work", "shop:app", "--name", "w1")
    terminal.read_until("Ctrl-C finishes running jobs and exits; press it again to stop at once.")
    until_begun()
    terminal.type("\x03")
    terminal.read_until("worker w1: SIGINT: finishing 1 job; once more to stop at once")
    (shop / "interrupted").touch()
    code, shown = terminal.finish()
    assert code == 0
    assert "1 job done." in without_colour(shown).splitlines()[-1]


def test_on_a_terminal_ctrl_c_reaches_a_crew_once(shop: Path, open_terminal: OpenTerminal) -> None:
    submit("order", '{"n": 1, "waits_for": "interrupted"}')
    terminal = open_terminal("work", "shop:app", "--processes", "2", "--name", "w1")
    terminal.read_until("100 in each of 2 processes")
    until_begun()
    terminal.type("\x03")
    terminal.read_until("worker w1: SIGINT: ")
    (shop / "interrupted").touch()
    code, shown = terminal.finish()
    assert code == 0
    assert "Traceback" not in shown
    assert "1 job done." in without_colour(shown).splitlines()[-1]


def test_a_signal_while_the_app_is_imported_ends_it(shop: Path) -> None:
    (shop / "shop.py").write_text(
        f"open('importing', 'w').close()\nimport time\ntime.sleep(60)\n{SHOP}"
    )
    process = start("work", "shop:app")
    while not (shop / "importing").exists():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (-signal.SIGTERM, "", "")


@pytest.mark.parametrize("processes", ["1", "2"])
def test_with_verbose_a_line_is_logged_for_each_job(processes: str) -> None:
    submit("order", '{"n": 1}')
    submit("order", '{"n": 2}')
    done = r"worker \S+: job \S+ \(order\) done in \d\.\d+ s"
    ran = work("shop:app", "--processes", processes, "-v")
    assert len(re.findall(done, ran.err)) == 2
    submit("order", '{"n": 3}')
    assert re.findall(done, work("shop:app", "--processes", processes).err) == []
