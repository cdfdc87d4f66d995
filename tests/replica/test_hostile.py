"""Any bytes in a snapshot: it is refused with a typed error of one line, or its replica can be read."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ibkeys
from ibkeys.errors import FileFormatError, IbkeysError, StoreError
from ibkeys.replica.sources import read_subnet
from ibkeys.sim.subnet import Subnet
from tests.fabricsim import subnet, virtualize
from tests.replica.comparing import snapshot_of

_BLOBS = (("nodes", "node_info"), ("nodes", "node_description"), ("nodes", "switch_info"), ("ports", "port_info"))
_TABLES = (("ports", "p_key_table"), ("ports", "guid_info"), ("virtual_ports", "virtualization_info"))
_NUMBERS = (("ports", "peer"), ("ports", "node"), ("ports", "port"), ("nodes", "twin"), ("ports", "p_key_capacity"))
numbers = st.integers(-2, 300) | st.integers(-(2**63), 2**63 - 1)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    net = subnet("two-switch")
    virtualize(net, "node02 mlx4_0")
    net.port("node01 mlx4_0", 1).guids = {1: 5}
    path = tmp_path_factory.mktemp("whole") / "a.db"
    snapshot_of(net, path, class_keys=True)
    return path.read_bytes()


def changes() -> st.SearchStrategy[list[tuple[str, str, object, int]]]:
    """Return changes of a table's column: the new value, and in which row."""
    attributes = st.tuples(st.sampled_from(_BLOBS), st.binary(min_size=64, max_size=64))
    tables = st.tuples(st.sampled_from(_TABLES), st.binary(max_size=130))
    others = st.tuples(st.sampled_from(_NUMBERS), numbers)
    one = st.tuples(attributes | tables | others, st.integers(1, 24))
    return st.lists(one.map(lambda each: (*each[0][0], each[0][1], each[1])), min_size=1, max_size=4)


def write_changed(path: Path, whole: bytes, made: list[tuple[str, str, object, int]]) -> None:
    path.write_bytes(whole)
    rows = sqlite3.connect(path)
    for table, column, value, row in made:
        with suppress(sqlite3.IntegrityError):  # that place has another row already
            rows.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, row))
    rows.commit()
    rows.close()


def made_of(path: Path) -> Subnet | str:
    """Return the replica, or the line with which it was refused."""
    try:
        return read_subnet(path)
    except (FileFormatError, StoreError) as error:
        return str(error)


@given(changes())
def test_a_changed_snapshot_is_refused_or_its_replica_can_be_read(
    whole: bytes, made: list[tuple[str, str, object, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        write_changed(path, whole, made)
        net = made_of(path)
    if isinstance(net, str):
        assert net.startswith(str(path))
        assert "\n" not in net
    else:
        with suppress(IbkeysError), ibkeys.open(net) as fabric:  # a local port that nothing leads to, for one
            assert fabric.sweep(p_keys=True).nodes
