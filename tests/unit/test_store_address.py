"""Addresses of stores: read, or refused with what is wrong and what is known."""

from __future__ import annotations

import pytest

from inturn.model.errors import InvalidStoreURL
from inturn.queue.app import App
from inturn.store.address import connect


@pytest.mark.parametrize("url", ["sqlite:///", "sqlite:///?synchronous=normal"])
def test_an_app_is_refused_an_address_that_names_no_file(url: str) -> None:
    with pytest.raises(InvalidStoreURL, match="names no file"):
        App(url)


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("sqlite:///work.db?foo=bar", "option 'foo'.*synchronous"),
        ("sqlite:///work.db?synchronous=off", "synchronous='off'.*full or normal"),
        ("postgresql://h/d?pooler=session", "pooler='session'.*transaction"),
        ("postgresql://h/d?connections_max=0", "connections_max='0'; it is a number from 1 to"),
        ("postgresql://[::1/d", "cannot be read"),
    ],
)
def test_what_is_wrong_with_an_address_is_named(url: str, named: str) -> None:
    with pytest.raises(InvalidStoreURL, match=named):
        connect(url)


async def test_a_refusal_does_not_give_a_password_away() -> None:
    with pytest.raises(InvalidStoreURL) as refused:
        await connect("postgresql://u:secret@h:bad/d").open()
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql:///d?host=a,b&port=1,2,3", "could not match 3 port numbers to 2 hosts"),
        ("postgresql://h:bad/d", "bad"),
        ("postgresql://h/d?sslmode=bogus", "sslmode"),
    ],
)
async def test_what_the_driver_knows_is_wrong_is_said_when_it_is_opened(
    url: str, said: str
) -> None:
    with pytest.raises(InvalidStoreURL, match=said):
        await connect(url).open()
