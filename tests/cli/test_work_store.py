"""Which store ``inturn work`` is for: what is named for it, else what its app names itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inturn.model.job import JobState, NewJob
from inturn.store.address import is_same
from tests.cli.support import Cli, Ran, on_store, run_process, write_pyproject

NAMED = "sqlite:///named.db"

# A job, one that submits it from a child process, and one of another app that does the same.
SHOP = """
import inturn

app = inturn.App("sqlite:///own.db")
other = inturn.App({other})

@app.job
async def order() -> None: ...

@app.job(process=True)
async def campaign() -> None:
    await order.submit()

@other.job(queue="other")
async def letter() -> None: ...

@app.job(process=True)
async def mailing() -> None:
    await letter.submit()
"""
WITHOUT = SHOP.replace('"sqlite:///own.db"', "")


@pytest.fixture(autouse=True)
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP.format(other='"sqlite:///other.db"'))
    return tmp_path


@pytest.fixture(params=["flag", "variable", "pyproject"])
def named(request: pytest.FixtureRequest, shop: Path) -> dict[str, str]:
    """The flags and the environment that name a store in each way."""
    if request.param == "pyproject":
        write_pyproject(shop, f'[tool.inturn]\nstore = "{NAMED}"\n')
    return {"flag": {"--store": NAMED}, "variable": {"INTURN_STORE": NAMED}}.get(request.param, {})


def inturn(*arguments: str, **settings: str) -> Ran:
    """Run the command with flags, which begin with ``--``, and variables."""
    flags = [part for name in settings if name[0] == "-" for part in (name, settings[name])]
    variables = {name: value for name, value in settings.items() if name[0] != "-"}
    return run_process(*arguments, *flags, environment=variables)


def work(*arguments: str, **settings: str) -> Ran:
    return inturn("work", "shop:app", "--drain", *arguments, **settings)


def submit(kind: str, store: str = NAMED) -> None:
    on_store(store, lambda store: store.enqueue([NewJob(kind=kind)]))


def states(store: str = NAMED) -> dict[str, JobState]:
    page = on_store(store, lambda store: store.jobs())
    return {view.job.kind: view.state for view in page.rows}


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_store_that_is_named_counts_more_than_the_apps_own(
    shop: Path, named: dict[str, str], processes: str
) -> None:
    submit("order")
    ran = work("--processes", processes, **named)
    assert (ran.code, "1 job done" in ran.out) == (0, True)
    assert states() == {"order": JobState.DONE}
    assert not (shop / "own.db").exists()
    seen = inturn("store", "info", "--json", **named).document["store"]
    assert f"store        {seen}" in ran.out  # every command is for the same one
    said = [line for line in ran.err.splitlines() if "WARNING" in line]
    if "--store" in named:
        assert said == []  # whoever types it means it
        return
    who = "INTURN_STORE" if named else f"{shop}/pyproject.toml"
    [line] = said
    assert f"shop:app names the store sqlite:///own.db, but {who} names {NAMED}" in line
    assert "what they submit there is not run here" in line
    assert "write App(), and set INTURN_STORE for them, too." in line
    assert "or pass --store" not in line  # which is nothing to those who submit


OPENED = """
import os
import inturn

app, other = inturn.App(), inturn.App()

@app.job
async def order() -> None: ...

app.sync(app.migrate())
order.submit_sync()
os.makedirs("sub", exist_ok=True)
os.chdir("sub")
"""


def test_an_app_that_uses_its_store_and_leaves_the_folder_while_it_is_imported_is_worked_for(
    shop: Path, named: dict[str, str]
) -> None:
    (shop / "shop.py").write_text(OPENED)
    ran = work(**named)
    assert (ran.code, "1 job done" in ran.out) == (0, True), ran.err
    assert states() == {"order": JobState.DONE}
    assert not (shop / "sub" / "named.db").exists()


def test_a_store_that_is_named_is_in_the_folder_of_the_command_wherever_the_app_goes(
    shop: Path, named: dict[str, str]
) -> None:
    leaving = 'app = inturn.App("sqlite:///own.db")\nos.makedirs("sub")\nos.chdir("sub")\n'
    text = OPENED.partition("app.sync")[0]
    (shop / "shop.py").write_text(
        text.replace("app, other = inturn.App(), inturn.App()\n", leaving)
    )
    submit("order")
    assert work(**named).code == 0
    assert states() == {"order": JobState.DONE}


def test_a_flag_comes_before_the_variable_and_that_before_pyproject(shop: Path) -> None:
    write_pyproject(shop, '[tool.inturn]\nstore = "sqlite:///of-pyproject.db"\n')
    variable = {"INTURN_STORE": "sqlite:///of-variable.db"}
    for settings, meant in (
        ({"--store": NAMED, **variable}, NAMED),
        (variable, "sqlite:///of-variable.db"),
        ({"INTURN_STORE": ""}, "sqlite:///of-pyproject.db"),
    ):
        assert f"store        {meant}\n" in work(**settings).out
    (shop / "pyproject.toml").unlink()
    ran = work()
    assert (f"store        {'sqlite:///own.db'}\n" in ran.out, ran.err) == (True, "")


def test_programs_read_whose_store_is_left(shop: Path) -> None:
    ran = work("--json", INTURN_STORE=NAMED)
    started = json.loads(ran.lines[0])
    assert (started["store"], started["store_named_by"]) == (NAMED, "INTURN_STORE")
    assert (started["store_left"], ran.err) == ("sqlite:///own.db", "")


def test_the_apps_own_store_by_another_name_is_not_warned_of(shop: Path) -> None:
    for name in (f"sqlite:///{shop}/own.db", "sqlite:///./own.db?synchronous=normal"):
        ran = work(INTURN_STORE=name)
        assert (ran.code, ran.err) == (0, "")


def test_an_app_that_is_used_while_it_is_imported_may_have_its_own_store_named(shop: Path) -> None:
    with (shop / "shop.py").open("a") as file:
        file.write("order.submit_sync()\n")
    ran = work(INTURN_STORE="sqlite:///own.db")
    assert (ran.code, ran.err) == (0, "")
    assert states("sqlite:///own.db") == {"order": JobState.DONE}


def test_an_app_without_a_store_uses_the_one_that_is_named(
    shop: Path, named: dict[str, str]
) -> None:
    (shop / "shop.py").write_text(WITHOUT.format(other='"sqlite:///other.db"'))
    ran = work(**named)
    assert (ran.code, ran.err) == (0, "")
    assert (shop / "named.db").exists()


def test_a_job_in_a_child_process_submits_to_the_store_that_is_named(
    shop: Path, named: dict[str, str]
) -> None:
    submit("campaign")
    assert work(**named).code == 0
    assert states() == {"campaign": JobState.DONE, "order": JobState.DONE}
    assert not (shop / "own.db").exists()


@pytest.mark.parametrize("apps", ["both without a store", "one with a store"])
def test_an_app_beside_it_that_names_no_store_uses_the_one_of_the_flag(
    shop: Path, apps: str
) -> None:
    """Also in a child process, which has only the environment to know of it."""
    (shop / "shop.py").write_text((SHOP if "one" in apps else WITHOUT).format(other=""))
    submit("mailing")
    assert work(**{"--store": NAMED, "INTURN_STORE": "sqlite:///of-variable.db"}).code == 0
    assert states() == {"mailing": JobState.DONE, "letter": JobState.WAITING}
    assert not (shop / "of-variable.db").exists()


def test_a_database_without_tables_is_not_worked_on(postgres_url: str) -> None:
    ran = work(**{"--store": postgres_url})
    assert ran.code == 3
    assert "inturn store migrate" in ran.err


def test_one_store_may_have_several_names(shop: Path) -> None:
    assert is_same("sqlite:///a.db", f"sqlite:///{shop}/a.db?synchronous=normal")
    assert not is_same("sqlite:///a.db", f"sqlite:///{shop}/b.db")
    assert is_same("postgresql://u@h/db", "postgresql://u@h/db")
    assert not is_same("postgresql://u@h/db", "sqlite:///a.db")


def test_help_says_where_the_store_comes_from_and_what_json_is(
    sqlite_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    text = sqlite_cli.bare("work", "--help").out
    assert "Else INTURN_STORE, else pyproject.toml, else the app's own." in text
    assert "Print each event as a JSON document on a line." in text
    others = sqlite_cli.bare("status", "--help").out
    assert "Else INTURN_STORE, else pyproject.toml. " in others
