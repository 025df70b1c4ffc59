"""Where an app is: ``MODULE:APP`` found and imported, or an error that says what is missing."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

import inturn
from inturn.model.errors import AppInterrupted, AppNotFound, BadInput
from inturn.queue.app import App

_FRAMES_SHOWN = 3


def find_app(target: str, folder: Path) -> tuple[str, App]:
    """Import an app, with ``folder`` importable; return what it is called in full, and itself.

    ``shop:app`` is the ``app`` of module ``shop``. ``shop`` alone will do if there is one App in
    it, and ``shop.py`` is understood.
    """
    place, _, attribute = target.partition(":")
    if not place:
        raise AppNotFound(f"{target!r} names no module. Write MODULE:APP, as in shop:app.")
    name, root = _as_module(place, folder)
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    module = _imported(name, root)
    if attribute:
        return f"{name}:{attribute}", _named(module, attribute)
    attribute, app = _only(module)
    return f"{name}:{attribute}", app


def _as_module(place: str, folder: Path) -> tuple[str, Path]:
    """Return a module's name and the folder to import it from; ``place`` may be a file."""
    if os.sep not in place and not place.endswith(".py"):
        return place, folder
    path = (folder / place).resolve()
    if path.is_dir() and (path / "__init__.py").exists():
        names, root = [path.name], path.parent
    elif path.is_file() and path.suffix == ".py":
        names, root = [path.stem], path.parent
    else:
        raise AppNotFound(
            f"there is no Python file {place!r} here. Name the module that holds your App: "
            f"MODULE:APP, as in shop:app."
        )
    while (root / "__init__.py").exists():
        names.insert(0, root.name)
        root = root.parent
    return ".".join(name for name in names if name != "__init__"), root


def _imported(name: str, root: Path) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise AppNotFound(
            f"{name!r} is not the name of a module. Write MODULE:APP, as in shop:app."
        )
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise _missing(name, error.name, root) from error
        raise AppNotFound(
            f"module {name!r} imports {error.name!r}, which is not there. Install it where inturn "
            f"is installed, or mend the import.",
            seen=_seen(error),
        ) from error
    except BadInput as error:  # ours: a store that cannot be, two jobs of one kind
        raise AppNotFound(
            f"module {name!r} cannot be imported: {error}", seen=_seen(error, with_error=False)
        ) from error
    except KeyboardInterrupt as error:
        raise AppInterrupted(
            f"interrupted while module {name!r} was imported, by Ctrl-C or by its own "
            f"KeyboardInterrupt.",
            seen=_seen(error, with_error=False),
        ) from error
    except BaseException as error:
        raise AppNotFound(
            f"module {name!r} cannot be imported: it raised {type(error).__name__}.",
            seen=_seen(error),
        ) from error


def _missing(name: str, missing: str, root: Path) -> AppNotFound:
    """Say that the module itself, or a package on the way to it, is not there."""
    there = [path.stem for path in root.glob("*.py")]
    there += [path.parent.name for path in root.glob("*/__init__.py")]
    close = get_close_matches(missing, there, n=1)
    advice = (
        f"Did you mean {close[0]!r}?"
        if close
        else "Run it in the folder that holds your module, or install it."
    )
    return AppNotFound(f"there is no module {missing!r} in {root}, nor installed. {advice}")


def _named(module: ModuleType, attribute: str) -> App:
    found: object = module
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise AppNotFound(
                f"module {module.__name__!r} has no {attribute!r}. {_advice(module)}"
            ) from None
    if not isinstance(found, App):
        raise AppNotFound(
            f"{attribute!r} of module {module.__name__!r} is no App; its type is "
            f"{type(found).__name__}. {_advice(module)}"
        )
    return found


def _only(module: ModuleType) -> tuple[str, App]:
    names = _names(module)
    if len({id(getattr(module, name)) for name in names}) != 1:
        said = "more than one App: say which" if names else "no App"
        raise AppNotFound(f"module {module.__name__!r} has {said}. {_advice(module)}")
    return names[0], getattr(module, names[0])


def _names(module: ModuleType) -> list[str]:
    return [name for name, found in vars(module).items() if isinstance(found, App)]


def _advice(module: ModuleType) -> str:
    names = _names(module)
    if names:
        return "There is " + " and ".join(f"{module.__name__}:{name}" for name in names) + "."
    return "Make one in it: app = inturn.App(…)."


def _seen(error: BaseException, *, with_error: bool = True) -> Sequence[str]:
    """Return the last places in the user's own files that an import went through, and its error."""
    if isinstance(error, SyntaxError):
        frames = []  # its own lines name the place
    else:
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if not frame.filename.startswith(_NOT_THEIRS)
        ]
    lines = [
        f"  {frame.filename}:{frame.lineno}: {frame.line}" for frame in frames[-_FRAMES_SHOWN:]
    ]
    if with_error:
        for text in traceback.format_exception_only(error):
            lines += [f"  {line}" for line in text.rstrip().splitlines()]
    return lines


_NOT_THEIRS = ("<", importlib.__file__, str(Path(inturn.__file__).parent))
