"""What a page shows works: its files are saved, its commands run in order, its Python compiles."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from httpx import ASGITransport, AsyncClient

from inturn.testing import private

ROOT = Path(__file__).parents[2]
GUIDES = sorted((ROOT / "docs/guides").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "docs/start.md", *GUIDES]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = ("pip install",)  # needs an index; tests/tidy/test_packaging.py installs a wheel


def blocks(text: str) -> Iterator[tuple[str, str]]:
    yield from BLOCK.findall(text)


def compiled(body: str) -> None:
    """Check a part of a program; it may await, as if it stood in an async function."""
    compile(body, "page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)


def save(text: str, folder: Path) -> None:
    """Save the files of a page; its Python compiles, also what is no file."""
    for language, body in blocks(text):
        if language == "python":
            compiled(body)
        if name := re.match(r"# (\w+\.(py|yaml))\n", body):
            (folder / name[1]).write_text(body)


def follow(text: str, folder: Path) -> int:
    """Save the files of a page and run its commands; return how many ran."""
    programs = Path(sys.executable).parent
    kept = {name: one for name, one in os.environ.items() if not name.startswith("INTURN_")}
    environment = kept | {"PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "80"}
    ran = 0
    save(text, folder)
    for language, body in blocks(text):
        if language != "console":
            continue
        for line in body.splitlines():
            command = line.removeprefix("$ ")
            if command.startswith(NOT_RUN):
                continue
            assert shlex.split(command, comments=True)
            done = subprocess.run(
                command,
                shell=True,
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
            ran += 1
    return ran


@pytest.mark.medium  # most pages take a second or two; one waits for its schedule
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_a_page_shows_works(path: Path, tmp_path: Path) -> None:
    ran = follow(path.read_text(encoding="utf-8"), tmp_path)
    assert ran


async def test_the_site_that_the_page_on_web_applications_shows_submits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save((ROOT / "docs/guides/web.md").read_text(encoding="utf-8"), tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    shown = import_module("site_api")
    site = ASGITransport(shown.site)
    async with (
        private(shown.app) as sandbox,
        shown.lifespan(shown.site),
        AsyncClient(transport=site, base_url="http://site") as client,
    ):
        answer = await client.post("/orders/42")
        assert answer.status_code == 202
        assert str(sandbox.assert_submitted(shown.confirm, 42).new.id) == answer.json()["job"]


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.name)
def test_a_guide_begins_with_code(path: Path) -> None:
    title, first, *_ = path.read_text(encoding="utf-8").split("\n\n", 2)
    assert title.startswith("# ")
    assert first.startswith("```")


@pytest.mark.parametrize(
    "text", ["```python\ndef f(:\n```\n", "```console\n$ inturn nonsense\n```\n"]
)
def test_a_page_that_does_not_work_is_caught(text: str, tmp_path: Path) -> None:
    with pytest.raises((SyntaxError, AssertionError)):
        follow(text, tmp_path)
