"""Printing: tables for people, one JSON document for programs, never both."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from rich.console import Console, RenderableType
from rich.text import Text

from inturn.cli.sheet import Cells, Column, Sheet, fields, print_to
from inturn.store.protocol import Page

Row = TypeVar("Row")
Document = Mapping[str, Any]

_UNBOUNDED = 10_000  # columns of output that is not a terminal: a row is a line, and stays whole


class Printer:
    """Prints what a command found, for people or as JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        console = Console(highlight=False, markup=False, emoji=False)
        self.console = (
            console
            if console.is_terminal
            else Console(
                highlight=False, markup=False, emoji=False, no_color=True, width=_UNBOUNDED
            )
        )

    def answer(self, document: Document, text: str | RenderableType) -> None:
        """Print one thing: the document as JSON, or its text."""
        if self.as_json:
            self._write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
        elif isinstance(text, str):
            self._write(text)
        else:
            print_to(self.console, text)

    def line(self, document: Document) -> None:
        """Print one of many documents as JSON on a line, at once."""
        self._write(msgspec.json.encode(document).decode())
        sys.stdout.flush()

    def fields(self, document: Document, rows: Iterable[tuple[str, str | Text]]) -> None:
        """Print one thing: the document as JSON, or a line for each field that has a value."""
        self.answer(document, fields(rows))

    def table(
        self,
        document: Document,
        columns: Sequence[Column],
        rows: Sequence[Cells],
        *,
        empty: str,
    ) -> None:
        """Print a whole list: the document as JSON, or a table, or a line if there is nothing."""
        if self.as_json:
            self.answer(document, "")
        elif rows:
            Sheet(columns, self.console).print(rows)
        else:
            self._write(empty)

    async def pages(
        self,
        name: str,
        pages: AsyncIterator[Page[Row]],
        *,
        document: Callable[[Row], Document],
        columns: Sequence[Column],
        cells: Callable[[Row], Cells],
        empty: str,
    ) -> None:
        """Print a list page by page, as it comes, and how to go on when there is more."""
        if self.as_json:
            await self._json_pages(name, pages, document)
        else:
            await self._people_pages(pages, Sheet(columns, self.console), cells, empty)

    async def _json_pages(
        self, name: str, pages: AsyncIterator[Page[Row]], document: Callable[[Row], Document]
    ) -> None:
        cursor: str | None = None
        written = 0
        async for page in pages:
            cursor = page.cursor
            for row in page.rows:
                text = msgspec.json.encode(document(row)).decode()
                self._write(("," if written else f'{{"{name}": [') + "\n" + text, end="")
                written += 1
        start = "" if written else f'{{"{name}": ['
        self._write(f'{start}\n], "cursor": {msgspec.json.encode(cursor).decode()}}}')

    async def _people_pages(
        self,
        pages: AsyncIterator[Page[Row]],
        sheet: Sheet,
        cells: Callable[[Row], Cells],
        empty: str,
    ) -> None:
        cursor: str | None = None
        printed = 0
        async for page in pages:
            cursor = page.cursor
            printed += len(page.rows)
            if page.rows:
                sheet.print([cells(row) for row in page.rows])
        if not printed:
            self._write(empty)
        if cursor is not None:
            sys.stdout.flush()
            print(f"There is more: the same with --cursor {cursor}", file=sys.stderr)

    def _write(self, text: str, end: str = "\n") -> None:
        sys.stdout.write(text + end)
