"""`python -m tests.typed` finds code that decides by the text of an error or a note of ibkeys, or rewrites it.

What a caller decides by is a field. The text of another program is read where it enters, and nowhere else.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from ibkeys import errors

ROOT = Path(errors.__file__).parent
RAISED = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
ALLOWED = {
    "store/sqlite.py:_explain": "SQLite's message may have many lines, of which the first is shown",
    "ufm/quiet.py:scrub": "a line of httpx' log, which is no error of ours, has headers and passwords",
    "cli/__init__.py:resolve_command": "click's message ends with a dot",
    "cli/types.py:convert": "click's message ends with a dot",
    "classkeys/reading.py:said": "a snapshot holds the words only: here they get their kind again",
    "hardware/loopback/writes.py:_without_p_keys": "decides nothing: a report is published, and holds no P_Key",
    "audit/formats/same.py:_said": "decides nothing: findings that differ in the name of their port are shown as one",
    "audit/formats/same.py:_same": "decides nothing: as above",
}
"""File and function that may: why."""
TEXTS = {"message", "note", "problem", "detail", "fault", "advice", "why"}
"""How attributes and names are called that hold a text for people."""
ATTRIBUTES = TEXTS | {"error", "more"}
METHODS = {
    *("startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "rsplit"),
    *("replace", "find", "rfind", "index", "rindex", "count", "splitlines", "translate", "strip", "lstrip", "rstrip"),
}
"""Methods of a str that inspect or cut it."""
PATTERNS = {"match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"}
"""Functions of `re`, and methods of its patterns."""
AS_TEXT = {"str", "repr", "clean"}


class _Texts(ast.NodeVisitor):
    """Finds the function and line of each place. ``_errors``: names that hold an error; ``_texts``: those of its
    text."""

    def __init__(self) -> None:
        self.found: list[tuple[str, int]] = []
        self._function = ""
        self._errors: set[str] = set()
        self._texts: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        kept = self._function, self._errors, self._texts
        self._function, self._errors, self._texts = node.name, {*self._errors, *_errors_of(node)}, {*self._texts}
        self.generic_visit(node)
        self._function, self._errors, self._texts = kept

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._errors |= {node.name} if node.name else set()
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(each, ast.Attribute) and each.attr == "args":
                    self._note(node)
                elif isinstance(each, ast.Name) and self._is_text(node.value):
                    self._texts.add(each.id)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute):
            name, value = node.func.attr, node.func.value
            if (name in METHODS and self._is_text(value)) or (name in PATTERNS and any(map(self._is_text, node.args))):
                self._note(node)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
            is_text = self._is_text(left) or self._is_text(right)
            if isinstance(operator, ast.In | ast.NotIn):
                wrong = self._is_text(right)
            else:
                wrong = isinstance(operator, ast.Eq | ast.NotEq) and is_text and (_is_words(left) or _is_words(right))
            if wrong:
                self._note(node)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self._is_text(node.value):
            self._note(node)
        self.generic_visit(node)

    def _note(self, node: ast.stmt | ast.expr) -> None:
        self.found.append((self._function, node.lineno))

    def _is_text(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(id=name):
                return name in self._texts | TEXTS
            case ast.Subscript(value=ast.Attribute(attr="args")):
                return True
            case ast.Attribute(attr=name):
                return name in ATTRIBUTES
            case ast.FormattedValue(value=value):
                return self._is_error(value) or self._is_text(value)
            case ast.Call(func=ast.Name(id=name), args=args) if name in AS_TEXT:
                return any(self._is_error(each) or self._is_text(each) for each in args)
            case ast.Call(func=ast.Attribute(attr=name, value=value)) if name in METHODS | {"lower", "casefold"}:
                return self._is_text(value)
            case ast.JoinedStr() | ast.BoolOp() | ast.IfExp() | ast.BinOp():
                return any(self._is_text(each) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
        return False

    def _is_error(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self._errors


def _errors_of(node: ast.FunctionDef) -> Iterator[str]:
    """Yield the parameters that are errors."""
    for each in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
        words = re.findall(r"\w+", ast.unparse(each.annotation) if each.annotation else "")
        if any(word in RAISED or word.endswith(("Error", "Exception", "Interrupt")) for word in words):
            yield each.arg


def _is_words(node: ast.expr) -> bool:
    """Whether it is a fixed text: a constant, or the name of one. "" is none: it says that there is no text."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, str) and bool(value)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.isupper()
    return False


def places_in(source: str) -> list[tuple[str, int]]:
    """Return function and line of each place in *source* that works on the text of an error or a note."""
    texts = _Texts()
    texts.visit(ast.parse(source))
    return list(dict.fromkeys(texts.found))


def places() -> dict[str, list[str]]:
    """Return those of the package: file and function, as `ALLOWED` has them, with file and line of each."""
    found: dict[str, list[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        for function, line in places_in(path.read_text()):
            found.setdefault(f"{name}:{function}", []).append(f"ibkeys/{name}:{line}")
    return found


def main() -> int:
    """Say which places there are that may not be; return the exit code."""
    wrong = [each for where, lines in places().items() if where not in ALLOWED for each in lines]
    for each in wrong:
        print(f"{each}: decides by the text of an error or a note, or rewrites it: use a field", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
