"""The page of the Python library: the docstring of each public name."""

from __future__ import annotations

import inspect
from types import ModuleType

import ibkeys


def page() -> str:
    """Return the text of the page: functions, classes, then the rooms that are public as modules."""
    values = {name: getattr(ibkeys, name) for name in ibkeys.__all__ if not name.startswith("__")}
    functions = [name for name, value in values.items() if inspect.isfunction(value)]
    classes = [name for name, value in values.items() if inspect.isclass(value)]
    rooms = [name for name, value in values.items() if isinstance(value, ModuleType)]
    text = "# Python library\n\nEvery name here is one of `ibkeys`. {doc}`../howto/python` has examples. "
    modules = ", ".join(f"`ibkeys.{name}`" for name in rooms)
    text += f"What is on this page is public, {modules} included; every other module is internal.\n\n"
    text += "```{eval-rst}\nFunctions\n---------\n\n"
    text += "".join(f".. autofunction:: ibkeys.{name}\n\n" for name in functions)
    text += "Classes\n-------\n\n"
    text += "".join(f".. autoclass:: ibkeys.{name}\n   :members:\n\n" for name in classes)
    for name in rooms:
        title = f"ibkeys.{name}"
        text += f"{title}\n{'-' * len(title)}\n\n.. automodule:: {title}\n   :members:\n   :imported-members:\n\n"
    return text + "```\n"
