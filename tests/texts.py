"""The texts of ibkeys' messages as they stand in its source."""

from __future__ import annotations

import ast
from pathlib import Path

import ibkeys

ROOT = Path(ibkeys.__file__).parent


def fixed_text(node: ast.expr) -> str:
    """The text of a message as it stands in the source, with a letter for each value."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(fixed_text(each) if isinstance(each, ast.Constant) else "X" for each in node.values)
    if isinstance(node, ast.BinOp):
        return fixed_text(node.left) + fixed_text(node.right)
    return "X"
