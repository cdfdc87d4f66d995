"""What is loaded when it is first used, so that importing ibkeys costs nothing: names of its own, other packages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def loads(package: str, modules: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of *package*. *modules*: each module below ``ibkeys`` → the names that it has."""
    homes = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"ibkeys.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


def optional(package: str, needs: str, extra: str) -> Any:
    """Return a Python package that few commands need. Raises UsageError where it is not installed, which begins with
    *needs* and names the *extra* of ibkeys that brings it."""
    from importlib import import_module

    from ibkeys.errors import UsageError

    try:
        return import_module(package)
    except ImportError:
        name = package.replace("_", "-")
        raise UsageError(
            f"{needs} the Python package {name}: apt-get install python3-{name}, or pip install 'ibkeys[{extra}]'"
        ) from None
