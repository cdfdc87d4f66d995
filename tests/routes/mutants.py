"""Mutants: a rule of a module is changed in memory, and the tests of that rule have to notice.

`test_mutants` has those of the simulator's packets. To make others, write a table of rows for `mutants_of`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

_PLAIN = (int, str, bytes, tuple, frozenset)


Row = tuple[str, str, str, str]
"""Name, text of the module (it stands there exactly once), the part of the text that is changed, and the new part."""


class Mutant(NamedTuple):
    """One changed rule. ``name``: what is wrong then; ``text``: stands in the module; ``changed``: in its place."""

    name: str
    module: ModuleType
    text: str
    changed: str


def mutants_of(module: ModuleType, *rows: Row) -> dict[str, Mutant]:
    """Return the mutants in *rows*, by name."""
    return {name: Mutant(name, module, text, text.replace(part, new)) for name, text, part, new in rows}


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """Let the module have the changed text until the end of the block.

    The functions stay the same objects and get the code of the changed text, so also who imported them by name, and
    every object of the module's classes, has the changed rule. Constants are changed in the module itself only. Raises
    ValueError unless the text stands in the module exactly once, and changes a function or a constant.
    """
    module = mutant.module
    source = inspect.getsource(module)
    if source.count(mutant.text) != 1:
        raise ValueError(f"{mutant.name}: {module.__name__} has {source.count(mutant.text)} times: {mutant.text}")
    namespace = {"__name__": module.__name__, "__file__": module.__file__, "__package__": module.__package__}
    exec(compile(source.replace(mutant.text, mutant.changed), str(module.__file__), "exec"), namespace)
    changed = dict(_functions(namespace, module.__name__))
    own = dict(_functions(vars(module), module.__name__))
    if own.keys() != changed.keys():
        raise ValueError(f"{mutant.name}: the functions of {module.__name__} are others")
    codes = {function: function.__code__ for function in own.values()}
    constants = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, _PLAIN) and not name.startswith("__") and namespace[name] != value
    }
    if not constants and all(_same(own[name].__code__, changed[name].__code__) for name in own):
        raise ValueError(f"{mutant.name}: nothing of {module.__name__} is changed")
    try:
        for name, function in own.items():
            function.__code__ = changed[name].__code__
        for name in constants:
            setattr(module, name, namespace[name])
        yield
    finally:
        for function, code in codes.items():
            function.__code__ = code
        for name, value in constants.items():
            setattr(module, name, value)


def _same(one: CodeType, other: CodeType) -> bool:
    """Return whether two codes do the same, wherever their lines stand."""

    def plain(code: CodeType) -> tuple[Any, ...]:
        consts = tuple(plain(each) if isinstance(each, CodeType) else each for each in code.co_consts)
        return code.co_code, code.co_names, consts

    return plain(one) == plain(other)


def _functions(namespace: Mapping[str, Any], module: str, before: str = "") -> Iterator[tuple[str, FunctionType]]:
    """Yield the functions and methods that *module* defines, by their names."""
    for name, value in namespace.items():
        if isinstance(value, type):
            if value.__module__ == module and not before:
                yield from _functions(vars(value), module, f"{name}.")
            continue
        parts: list[Any] = [value.fget, value.fset] if isinstance(value, property) else [value]
        for number, part in enumerate(parts):
            inner = inspect.unwrap(getattr(part, "func", getattr(part, "__func__", part)))
            if isinstance(inner, FunctionType) and inner.__module__ == module:
                yield f"{before}{name} {number}", inner
