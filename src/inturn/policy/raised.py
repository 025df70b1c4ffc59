"""What a handler raised, in words."""

from __future__ import annotations


def describe(error: BaseException) -> str:
    """Return an error's class and its words, if it has any."""
    return with_words(type(error).__name__, error)


def with_words(what: str, error: BaseException) -> str:
    """Return what an error is, and its words, if it has any."""
    words = words_of(error)
    return f"{what}: {words}" if words.strip() else what


def words_of(error: BaseException) -> str:
    """Return an error's text. Its class is somebody else's, and may fail to make one."""
    try:
        return str(error)
    except Exception as failed:
        return f"(its text cannot be read: {type(failed).__name__})"
