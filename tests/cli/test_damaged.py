"""Damaged files of ours through the command line: an answer, or one line that says so; never an internal error."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.store.snapshot import TABLES
from tests.cli.conftest import KEY, TWO_SWITCH, Result, run

WAIVERS = """# accepted
[[waiver]]
rule = ["PK001", "PK005"]
ports = ["0x0002c903000a1021", "gateway*", "leaf 1/3"]
reason = "ticket 4711"
expires = 2999-01-31

[[waiver]]
rule = "MK001"
pairs = [["storage*", "tenant-a*"]]
reason = "shared storage"
expires = 2999-01-31
"""
POLICY = "Default=0x7fff: ALL=full;\nx=0x10, ipoib: ALL=limited;\n"


class Place:
    """A folder with one good file of each kind, and what reads it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "fabric"
        self.backend = f"{TWO_SWITCH},state={self.state}"
        self.keystore, self.journal = folder / "fabric.keys", folder / "fabric.journal"
        self.snapshot, self.waivers = folder / "a.db", folder / "waivers.toml"
        self.waivers.write_text(WAIVERS)
        key, policy, plan = folder / "key", folder / "policy", folder / "plan"
        key.touch(0o600)
        key.write_text(f"{KEY:#x}\n")
        policy.write_text(POLICY)
        conf = folder / "opensm.conf"
        conf.write_text("m_key 0x77\n")
        self.good("keystore", "import", "--opensm-conf", conf)
        self.good("mkey-set", 2, "--new-m-key", f"@{key}", "--protect", 1, "--yes")
        self.good(
            "mkey-deploy", "--same", "--new-m-key", f"@{key}", "--protect", 1, "--lease", 60, "--first", 1, "--yes"
        )
        self.good("pkey-add", 3, "0x8010", "--yes")
        self.good("plan", "--policy", policy, "--out", plan)
        self.good("apply", plan, "--first", 1, "--allow-removals", "--yes")
        self.good("snapshot", self.snapshot)

    def good(self, *words: object) -> None:
        result = self.run(*words)
        assert result.code in (0, 1, 3), (words, result)

    def run(self, *words: object) -> Result:
        return run(*words, *(() if "--from" in words or words[0] == "diff" else ("--backend", self.backend)))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Place:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("IBKEYS_BACKEND", "IBKEYS_KEYSTORE"):
            patch.delenv(name, raising=False)
        return Place(tmp_path_factory.mktemp("whole"))


KINDS: dict[str, list[tuple[object, ...]]] = {
    "keystore": [
        ("keystore", "list", "-K"),
        ("keystore", "list", "-f", "json"),
        ("mkey-show", "--all", "-f", "json"),
        ("resume", 4, "--dry-run"),
        ("keystore", "export", "{}/out"),
        ("sm-repair", "--cache-dir", "{}/out", "--yes"),
        ("audit", "-f", "json"),
        ("mkey-recover", "--dry-run"),
    ],
    "journal": [
        ("journal",),
        ("journal", "-f", "json"),
        ("journal", 1),
        ("journal", 4),
        ("undo", 4, "--dry-run"),
        ("undo", 3, "--dry-run"),
        ("resume", 4, "--dry-run"),
        ("confirm", 4),
    ],
    "state": [
        ("pkey-show", "--all"),
        ("mkey-show", "--all", "-f", "json"),
        ("discover",),
        ("pkey-add", 4, "0x8011", "--yes"),
    ],
    "waivers": [("audit", "--from", "{}/a.db", "--waivers", "{}/waivers.toml")],
    "snapshot": [
        ("audit", "--from", "{}/a.db", "-f", "json"),
        ("audit", "--from", "{}/a.db", "-f", "html"),
        ("pkey-show", "--all", "--from", "{}/a.db"),
        ("mkey-show", "--all", "--from", "{}/a.db", "-f", "json"),
        ("discover", "--from", "{}/a.db"),
        ("matrix", "--from", "{}/a.db", "-f", "svg"),
        ("diff", "{}/a.db", "{}/whole.db", "--reach"),
        ("plan", "--policy", "{}/policy", "--from", "{}/a.db"),
    ],
}


@pytest.fixture(scope="module")
def copy(whole: Place, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Place]:
    """Return a fresh copy of the whole folder, at one place."""
    folder = tmp_path_factory.mktemp("copy") / "at"

    def fresh() -> Place:
        if folder.exists():
            shutil.rmtree(folder)
        shutil.copytree(whole.folder, folder)
        shutil.copy(folder / "a.db", folder / "whole.db")
        place = object.__new__(Place)
        place.__dict__.update(
            {name: folder / value.name if isinstance(value, Path) else value for name, value in vars(whole).items()}
        )
        place.folder, place.backend = folder, f"{TWO_SWITCH},state={place.state}"
        return place

    return fresh


def says_one_thing(place: Place, words: tuple[object, ...]) -> None:
    result = place.run(*(str(word).format(place.folder) for word in words))
    assert "internal error" not in result.err, (words, result)
    assert result.code in (0, 1, 2, 3, 4), (words, result)
    if result.code in (2, 3):
        assert sum(line.startswith("ibkeys: error: ") for line in result.err.splitlines()) >= 1, (words, result)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_whole_is_read(copy: Callable[[], Place], kind: str) -> None:
    """Or the tests below would show nothing."""
    for words in KINDS[kind]:
        place = copy()
        result = place.run(*(str(word).format(place.folder) for word in words))
        assert "damaged" not in result.err, (words, result)
        assert result.code in (0, 1, 3, 4), (words, result)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_flipped_bytes(copy: Callable[[], Place], kind: str, data: st.DataObject) -> None:
    place = copy()
    path: Path = getattr(place, kind)
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.integers(0, 4)) == 0:
        del raw[data.draw(st.integers(1, len(raw))) :]
    path.write_bytes(raw)
    says_one_thing(place, data.draw(st.sampled_from(KINDS[kind])))


def tables_of(path: Path) -> dict[str, list[str]]:
    with closing(sqlite3.connect(path)) as rows:
        names = [name for (name,) in rows.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name: [row[1] for row in rows.execute(f"PRAGMA table_info({name})")]
            for name in names
            if not name.startswith("sqlite_") and rows.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
        }


VALUES: st.SearchStrategy[Any] = (
    st.none()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.integers(-2, 300)
    | st.floats()
    | st.text()
    | st.binary(max_size=80)
    | st.sampled_from(
        ["0x", "0xffffffffffffffffff", "2026-13-45T99:99:99Z", "{}", "[]", "0,1,999", "1e9", b"\0" * 64, ""]
    )
)


@pytest.mark.parametrize("kind", ["keystore", "journal", "snapshot"])
@given(data=st.data())
def test_values_that_a_column_cannot_have(copy: Callable[[], Place], kind: str, data: st.DataObject) -> None:
    """What SQLite itself takes for whole: any value in any column of a row or of all."""
    place = copy()
    path: Path = getattr(place, kind)
    tables = tables_of(path)
    table = data.draw(st.sampled_from(sorted(tables)))
    column = data.draw(st.sampled_from(tables[table]))
    where = data.draw(st.sampled_from(["", "WHERE rowid = (SELECT max(rowid) FROM {table})"]))
    with closing(sqlite3.connect(path)) as rows, rows:
        rows.execute("PRAGMA ignore_check_constraints = ON")
        for (name,) in rows.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            sql = rows.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
            rows.execute(f"DROP TRIGGER {name}")
            tables.setdefault("", []).append(sql)
        value = data.draw(VALUES)
        with suppress(sqlite3.Error, OverflowError, UnicodeError):
            rows.execute(f"UPDATE OR REPLACE {table} SET {column} = ? {where.format(table=table)}", (value,))
        for sql in tables.get("", ()):
            rows.execute(sql)
    says_one_thing(place, data.draw(st.sampled_from(KINDS[kind])))


JSON: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.lists(st.integers(0, 3))
    | st.just({})
)


def places_in(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    for key in document if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ():
        yield from places_in(document[key], (*path, key))


@given(data=st.data())
def test_another_value_anywhere_in_the_state(copy: Callable[[], Place], data: st.DataObject) -> None:
    import json

    place = copy()
    lines = list(map(json.loads, place.state.read_text().splitlines()))
    *path, last = data.draw(st.sampled_from(sorted(places_in(lines), key=repr)))
    inner = lines
    for key in path:
        inner = inner[key]
    inner[last] = data.draw(JSON)
    place.state.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    says_one_thing(place, data.draw(st.sampled_from(KINDS["state"])))


# --- made to harm -----------------------------------------------------------------------------------------------------

ENDLESS = "WITH RECURSIVE endless(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM endless) SELECT {columns} FROM endless"


def rewrite(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as rows, rows:
        for statement in statements:
            rows.execute(statement)


@pytest.mark.parametrize("table", [name for name in TABLES if name != "p_keys"])
def test_a_view_in_the_place_of_a_table_is_refused(copy: Callable[[], Place], table: str) -> None:
    place = copy()
    columns = ", ".join(["x"] * len(tables_columns(place.snapshot, table)))
    view = ENDLESS.format(columns=columns)
    rewrite(place.snapshot, "DROP VIEW links", "DROP VIEW sms", f"DROP TABLE {table}", f"CREATE VIEW {table} AS {view}")
    result = place.run("pkey-show", "--all", "--from", place.snapshot)
    assert result.code == 3
    assert "does not belong to this kind of snapshot" in result.error


def tables_columns(path: Path, table: str) -> list[str]:
    with closing(sqlite3.connect(path)) as rows:
        return [row[1] for row in rows.execute(f"PRAGMA table_info({table})")]


@pytest.mark.parametrize("kind", ["keystore", "journal", "snapshot"])
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW more AS SELECT 1",
        "CREATE TABLE more (x)",
        "CREATE TRIGGER more AFTER UPDATE ON {table} BEGIN DELETE FROM {table}; END",
        "CREATE TRIGGER more BEFORE INSERT ON {table} BEGIN SELECT RAISE(IGNORE); END",
        "CREATE INDEX more ON {table} ({column})",
        "ALTER TABLE {table} ADD COLUMN more",
        "CREATE VIRTUAL TABLE more USING fts5(x)",
    ],
)
def test_what_no_version_of_the_schema_has_is_refused(copy: Callable[[], Place], kind: str, statement: str) -> None:
    place = copy()
    path: Path = getattr(place, kind)
    table = {"keystore": "keys", "journal": "operations", "snapshot": "nodes"}[kind]
    rewrite(path, statement.format(table=table, column=tables_columns(path, table)[1]))
    result = place.run(*(str(word).format(place.folder) for word in KINDS[kind][0]))
    assert result.code == 3
    assert "does not belong to this kind of" in result.err


def test_a_port_number_as_text_is_one_line(copy: Callable[[], Place]) -> None:
    place = copy()
    rewrite(place.snapshot, "UPDATE ports SET port = 'one' WHERE id = 2")
    for words in KINDS["snapshot"]:
        result = place.run(*(str(word).format(place.folder) for word in words))
        assert (result.code, "the snapshot is damaged" in result.err) == (3, True)


def test_a_snapshot_without_nodes_passes_nothing(copy: Callable[[], Place]) -> None:
    place = copy()
    rewrite(place.snapshot, *(f"DELETE FROM {name}" for name in TABLES if name != "about"))
    result = place.run("audit", "--from", place.snapshot)
    assert result.code == 3
    assert "has no node" in result.error


@pytest.mark.parametrize(("n", "r", "p"), [(3, 8, 1), (0, 8, 1), (1 << 17, 8, 1 << 30), (1 << 39, 8, 1)])
def test_a_cost_of_the_passphrase_that_none_has(copy: Callable[[], Place], n: int, r: int, p: int) -> None:
    place = copy()
    phrase = place.folder / "phrase"
    phrase.touch(0o600)
    phrase.write_text("open sesame\n")
    assert place.run("keystore", "encrypt", "--new-passphrase", f"@{phrase}").code == 0
    rewrite(place.keystore, f"UPDATE encryption SET n = {n}, r = {r}, p = {p}")
    result = place.run("keystore", "list", "-K", "--keystore-passphrase", f"@{phrase}")
    assert result.code == 3
    assert "damaged" in result.error
