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
    "managers/ufm/quiet_logs.py:mask_record": "a line of httpx' log, no error of ours, has headers and passwords",
    "audit/waivers.py:_waiver": "reads the reason that a user has written",
    "cli/types.py:convert": "click's message ends with a dot",
}
"""File and function that may: why."""
TEXTS = {"message", "note", "problem", "detail", "fault", "advice", "why", "reason"}
"""How attributes and names are called that hold a text for people."""
ATTRIBUTES = TEXTS | {"error", "more", "common"}
"""Attributes, and keys of documents, that do."""
MANY = {"messages", "notes", "problems", "faults", "reasons", "warnings"}
"""How attributes and names are called that hold many of them."""
MANY_ERRORS = {"errors", "exceptions"}
CHAINED = {"__cause__", "__context__"}
METHODS = {
    *("startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "rsplit"),
    *("replace", "find", "rfind", "index", "rindex", "count", "splitlines", "translate", "strip", "lstrip", "rstrip"),
}
"""Methods of a str that inspect or cut it."""
PATTERNS = {"match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"}
"""Functions of `re`, and methods of its patterns."""
AS_TEXT = {"str", "repr", "clean", "PortText", "at_port", "common_of"}


class _Texts(ast.NodeVisitor):
    """Finds the function and line of each place. ``_errors``: names that hold an error; ``_texts``: those of its
    text."""

    def __init__(self) -> None:
        self.found: list[tuple[str, int]] = []
        self._function = ""
        self._errors: set[str] = set()
        self._texts: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        kept = self._function, self._errors, self._texts
        self._function, self._errors, self._texts = node.name, {*self._errors, *_errors_of(node)}, {*self._texts}
        self.generic_visit(node)
        self._function, self._errors, self._texts = kept

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._in_own_scope(node, [])

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        self._in_own_scope(node, node.generators)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self.visit_ListComp(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self.visit_ListComp(node)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self.visit_ListComp(node)

    def _in_own_scope(self, node: ast.expr, generators: list[ast.comprehension]) -> None:
        """Visit what has names of its own: a lambda hides those of its parameters, which it must not lend others."""
        kept = {*self._errors}, {*self._texts}
        for each in generators:
            self._take_each(each.target, each.iter)
        self.generic_visit(node)
        self._errors, self._texts = kept

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._take_each(node.target, node.iter)
        self.generic_visit(node)

    def _take_each(self, target: ast.expr, many: ast.expr) -> None:
        """Note what *target* is, which is each of *many*."""
        match many:
            case ast.Call(func=ast.Name(id="map"), args=[ast.Name(id=name), *_]) if name in AS_TEXT:
                is_text = True
            case ast.Name(id=name) | ast.Attribute(attr=name):
                is_text = name in MANY
                if name in MANY_ERRORS and isinstance(target, ast.Name):
                    self._errors.add(target.id)
            case ast.List(elts=each) | ast.Tuple(elts=each):
                is_text = any(map(self._is_text, each))
            case _:
                is_text = False
        if is_text and isinstance(target, ast.Name):
            self._texts.add(target.id)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._errors |= {node.name} if node.name else set()
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._take(target, node.value)
            for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(each, ast.Attribute) and each.attr == "args":
                    self._note(node)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._take(node.target, node.value)
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._take(node.target, node.value)
        self.generic_visit(node)

    def _take(self, target: ast.expr, value: ast.expr) -> None:
        """Note which names of *target* get a text or an error."""
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for name, each in zip(target.elts, value.elts, strict=True):
                self._take(name, each)
            return
        for each in target.elts if isinstance(target, ast.Tuple) else [target]:
            if isinstance(each, ast.Name):
                self._texts |= {each.id} if self._is_text(value) else set()
                self._errors |= {each.id} if self._is_error(value) else set()

    def visit_Match(self, node: ast.Match) -> None:
        patterns = (each for case in node.cases for each in ast.walk(case.pattern))
        if self._is_text(node.subject) and any(isinstance(each, ast.MatchValue) for each in patterns):
            self._note(node)
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
            case ast.NamedExpr(value=value):
                return self._is_text(value)
            case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=slice) if name in MANY:
                return not isinstance(slice, ast.Slice)
            case ast.Subscript(slice=ast.Constant(value=str() as key)):
                return key in ATTRIBUTES
            case ast.Attribute(attr=name):
                return name in ATTRIBUTES
            case ast.FormattedValue(value=value):
                return self._is_error(value) or self._is_text(value)
            case ast.Call(func=ast.Name(id=name), args=args) if name in AS_TEXT:
                return any(self._is_error(each) or self._is_text(each) for each in args)
            case ast.Call(func=ast.Attribute(attr="__str__", value=value)):
                return self._is_error(value)
            case ast.Call(func=ast.Attribute(attr="format", value=ast.Constant()), args=args, keywords=more):
                given = (*args, *(each.value for each in more))
                return any(self._is_error(each) or self._is_text(each) for each in given)
            case ast.Call(func=ast.Attribute(attr=name, value=value)) if name in METHODS | {"lower", "casefold"}:
                return self._is_text(value)
            case ast.BinOp(op=ast.Mod(), right=right) if self._is_error(right):
                return True
            case ast.JoinedStr() | ast.BoolOp() | ast.IfExp() | ast.BinOp():
                return any(self._is_text(each) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
        return False

    def _is_error(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(id=name):
                return name in self._errors
            case ast.Attribute(attr=name):
                return name in CHAINED
            case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=slice):
                return name in MANY_ERRORS and isinstance(slice, ast.Constant) and isinstance(slice.value, int)
            case ast.BoolOp() | ast.IfExp():
                return any(self._is_error(each) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
        return False


def _errors_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
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
        case ast.Attribute(value=ast.Name(id="errno")):
            return False
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
