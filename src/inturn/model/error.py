"""What every error that inturn raises is, and what all are that come from bad input."""

from __future__ import annotations


class InturnError(Exception):
    """The root of every error that inturn raises."""


class BadInput(InturnError, ValueError):
    """What was asked for cannot be; nothing was stored."""
