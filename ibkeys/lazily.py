"""Loading of ibkeys' own names and of other packages on first use, so that importing ibkeys takes little time."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

_OF_DEBIAN: Final = "/usr/lib/python3/dist-packages"
_OF_RPM: Final = re.compile(r"/usr/lib(?:64)?/python3\.[0-9]+/site-packages")


def lazy_getattr(package: str, modules: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` for *package*, which loads a name when it is first used.

    *modules*: the names to load, by the module below ``ibkeys`` that has them.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"ibkeys.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


def import_optional(package: str, needs: str) -> Any:
    """Return a Python package that few commands need. Raises UsageError if the package is not installed.

    The message begins with *needs*, such as ``-f html needs``, and has the command that installs the package.
    """
    from importlib import import_module

    from ibkeys.errors import UsageError

    try:
        return import_module(package)
    except ImportError:
        name = package.replace("_", "-")
        raise UsageError(f"{needs} the Python package {name}: {how_to_install(name)}") from None


def is_of_distribution() -> bool:
    """Return whether this ibkeys came as a package of Debian or as an RPM, and so takes Python packages from there."""
    return _home() == _OF_DEBIAN or _OF_RPM.fullmatch(_home()) is not None


def how_to_install(name: str, version: str = "") -> str:
    """Return the command that installs a Python package where this ibkeys finds it.

    It uses the package manager, pipx or pip that installed ibkeys. *name*: the name on PyPI; packages of Debian and
    Fedora have ``python3-`` before it. *version*: a condition for pip, such as ``>=2``; a distribution has one version.
    """
    if _home() == _OF_DEBIAN:
        return f"apt-get install python3-{name}"
    if is_of_distribution():
        return f"dnf install python3-{name}"
    import shlex

    if os.path.exists(f"{sys.prefix}/pipx_metadata.json"):  # pipx writes it into each environment
        return f"pipx inject {os.path.basename(sys.prefix)} {shlex.quote(name + version)}"
    return f"{shlex.quote(sys.executable)} -m pip install {shlex.quote(name + version)}"


def _home() -> str:
    """Return the folder that contains the package ibkeys."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
