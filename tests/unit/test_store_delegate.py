"""A delegate knows every verb of a store, by its arguments and their defaults."""

from __future__ import annotations

import inspect

from inturn.store.delegate import StoreDelegate
from inturn.store.protocol import Store

VERBS = sorted(name for name in vars(Store) if not name.startswith("_"))


def test_a_delegate_knows_every_verb_as_the_contract_has_it() -> None:
    for name in VERBS:
        told, known = vars(Store)[name], vars(StoreDelegate)[name]
        assert type(told) is type(known), name
        if inspect.isfunction(told):
            assert inspect.signature(told) == inspect.signature(known), name


async def test_a_delegate_asks_its_store_with_what_it_was_asked() -> None:
    asked: list[tuple[str, tuple[object, ...], dict[str, object]]] = []

    class Asked:
        def __getattr__(self, name: str) -> object:
            async def verb(*arguments: object, **options: object) -> str:
                asked.append((name, arguments, options))
                return name

            return verb

    delegate = StoreDelegate(Asked())  # type: ignore[arg-type]
    for name in VERBS:
        verb = vars(Store)[name]
        if not inspect.iscoroutinefunction(verb):
            continue
        parameters = list(inspect.signature(verb).parameters.values())[1:]
        given = {one.name: object() for one in parameters}
        answer = await getattr(delegate, name)(**given)
        assert answer in (name, None)
        told, arguments, options = asked.pop()
        plain = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]
        assert (told, dict(zip(plain, arguments, strict=True)) | options) == (name, given)
