"""Help that shows a flag as what it is, also one that Typer adds: without a type beside it."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """A command with such help."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its parameters, --help among them."""
        return _without_types(super().get_params(ctx))


class Group(TyperGroup):
    """Commands under one name, with such help."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its parameters, --help and --install-completion among them."""
        return _without_types(super().get_params(ctx))


def _without_types(parameters: list[Any]) -> list[Any]:
    for one in parameters:
        if getattr(one, "is_flag", False):
            one.metavar = ""
    return parameters
