"""The order of the rooms, as import-linter holds it: the package keeps it, and an import against it is found."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter over the package in *folder*, by the contracts of pyproject.toml there."""
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "ibkeys", tmp_path / "ibkeys", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_package_keeps_the_order_of_its_rooms() -> None:
    assert lint(ROOT).returncode == 0, lint(ROOT).stdout


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("keys/pkey.py", "import ibkeys.fabric.live", "Rooms import from the rooms below them only"),
        ("store/paths.py", "def late() -> None:\n    import ibkeys.cli.exits", "Rooms import"),
        ("fabric/open_port.py", "import ibkeys.fabric.live", "No circle within a room"),
    ],
)
def test_an_import_against_the_order_is_found(copy: Path, file: str, line: str, contract: str) -> None:
    with (copy / "ibkeys" / file).open("a") as source:
        source.write(f"\n\n{line}\n")
    result = lint(copy)
    assert result.returncode == 1
    assert [each for each in result.stdout.splitlines() if each.startswith(contract) and each.endswith("BROKEN")]


def test_no_test_module_imports_another() -> None:
    """What two of them use stands in a module of its own, which says what it is."""
    imports = re.compile(r"^\s*(?:from|import) .*\btest_\w+", re.M)
    assert not [str(file) for file in ROOT.glob("tests/**/*.py") if imports.search(file.read_text())]


def test_nothing_takes_a_private_name_from_another_module() -> None:
    """Neither by import nor by the name that `monkeypatch` replaces; ruff's SLF001 looks at attributes."""
    found = []
    for file in sorted([*ROOT.glob("ibkeys/**/*.py"), *ROOT.glob("tests/**/*.py")]):
        for node in ast.walk(ast.parse(file.read_text())):
            names = _taken(node)
            found += [f"{file.relative_to(ROOT)}: {name}" for name in names if re.match("_(?!_|libibumad)", name)]
    assert not found


def _taken(node: ast.AST) -> list[str]:
    """Return the names that a statement takes from a module: ``import``, ``patch.setattr(module, "name", ...)``."""
    if isinstance(node, ast.ImportFrom):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("setattr", "patch"):
        words = [arg.value for arg in node.args[:2] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        return [word.rpartition(".")[2] for word in words]
    return []


def test_the_name_of_a_public_class_stands_for_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for path in sorted((ROOT / "ibkeys").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
