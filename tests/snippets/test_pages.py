"""Every block of code in the README, the first page and the guides does what its page says."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.cli.support import on_store
from tests.snippets.blocks import Block, blocks_of
from tests.snippets.reader import STORE, Reader
from tests.snippets.readers import READERS, ROOT
from tests.snippets.trouble import bury_some

PAGES = [ROOT / "README.md", ROOT / "docs/start.md", *sorted((ROOT / "docs/guides").glob("*.md"))]

# What is not run here, by its first words, and why.
NOT_RUN = {
    "make demo ": "tests/cli/test_demo.py runs the demo; `make test` would run this very test",
    "python3 -m venv ": "installing needs an index; tests/tidy/test_packaging.py builds a wheel",
    "pip install ": "installing needs an index; tests/tidy/test_packaging.py builds a wheel",
}


def is_run(block: Block) -> bool:
    return not block.first.startswith(tuple(NOT_RUN))


@pytest.fixture(autouse=True)
def nothing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in an empty folder, with no setting in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("INTURN_") and not name.startswith("INTURN_TEST_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("INTURN_STORE", STORE)  # a page that exports it has it put back
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_a_page_shows_works_as_it_says(
    path: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    reader = READERS[path.relative_to(ROOT).as_posix()](tmp_path, request)
    reader.set_up()

    async def read() -> None:
        for block in filter(is_run, blocks_of(path, ROOT)):
            await reader.follow(block)
        await reader.see()

    asyncio.run(read())


@pytest.mark.parametrize(
    "text",
    [
        "```python\nawait nobody()\n```",
        "    import inturn\n    inturn.Nothing\n",
        "    raise inturn.Reject(reason=7, at=8)\n",
        "    await app.open()  # DedupeConflict: it is not raised\n",
        "```python\nimport asyncio\nasyncio.run(nobody())\n```",
        "    inturn jobs clarify\n",
        "    inturn dead list --queues mail\n",
        "    $ python\n    >>> nobody()\n",
        "    $ inturn status\n    what nobody prints\n",
        "    test 1 -gt 2\n",
        "```text\nwhat nobody printed\n```",
        "```toml\n[tool\n```",
        '    {"healthy":maybe}\n',
        '    {"event":"died","sort":"mail"}\n',
        "    postgresql://app@host/app?pooler=maybe\n",
        "    [Unit]\n\n    [Service]\n    ExecStart=/bin/inturn work shop:app --process 2\n",
        "```cobol\nSTOP RUN.\n```",
    ],
)
def test_a_block_that_is_broken_is_seen(
    text: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    on_store(STORE, bury_some)
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n{text}\n", encoding="utf-8")
    [block] = blocks_of(page, tmp_path)
    reader = Reader(tmp_path, request)
    app = reader.new_app()

    async def follow() -> None:
        try:
            await reader.follow(block)
        finally:
            await app.close()

    with pytest.raises(Exception) as caught:  # noqa: PT011
        asyncio.run(follow())
    assert "in page.md:" in caught.value.__notes__[0]


def test_every_page_has_blocks() -> None:
    assert all(blocks_of(path, ROOT) for path in PAGES)


def test_what_is_not_run_is_still_there() -> None:
    firsts = [block.first for path in PAGES for block in blocks_of(path, ROOT)]
    assert [one for one in NOT_RUN if not any(first.startswith(one) for first in firsts)] == []
