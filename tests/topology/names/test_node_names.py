"""The node name map."""

from __future__ import annotations

from pathlib import Path

from ibkeys.topology.names.node_names import read_node_name_map


def test_an_empty_name_is_none_as_in_infiniband_diags(tmp_path: Path) -> None:
    file = tmp_path / "names"
    file.write_text('0x2 "leaf 2"\n0x1 ""\n0x2 ""\n')
    assert read_node_name_map(file) == {2: "leaf 2"}
