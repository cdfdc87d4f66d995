"""Which entry of a table each program takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.host.kernel.ports import read_ports
from ibkeys.host.kernel.programs import PROGRAMS, choose_entries, job_script_lines
from ibkeys.host.kernel.sysfs import Sysfs
from ibkeys.host.kernel.tables import Table
from ibkeys.keys.pkey import PKey
from tests.host.kernel import trees
from tests.host.kernel.trees import Tree

NCCL, UCX, OMPI, MVAPICH, GASNET, NVSHMEM, MOONCAKE = (program.name for program in PROGRAMS)


def table(*keys: int | None) -> Table:
    return tuple(None if key is None else PKey(key) for key in keys)


def taken(keys: Table | None, partition: int | None = None) -> dict[str, tuple[int | None, str | None]]:
    return {choice.program.name: (choice.index, choice.value) for choice in choose_entries(keys, partition)}


def reasons(keys: Table | None, partition: int | None = None) -> dict[str, str | None]:
    return {choice.program.name: choice.reason for choice in choose_entries(keys, partition)}


def test_by_default_all_but_ucx_take_index_0() -> None:
    assert taken(table(0x7FFF, 0, 0x8010, 0x8020)) == {
        NCCL: (0, "0"),
        UCX: (2, "0x0010"),
        OMPI: (0, "0x7fff"),
        MVAPICH: (0, "0x7fff"),
        GASNET: (0, "0x7fff"),
        NVSHMEM: (0, "0"),
        MOONCAKE: (0, "0"),
    }


def test_an_empty_index_0_leaves_ucx_alone() -> None:
    keys = table(0, 0x8010)
    assert taken(keys)[UCX] == (1, "0x0010")
    assert {name for name, why in reasons(keys).items() if why == "it takes index 0 by default, which is empty"} == {
        NCCL,
        OMPI,
        MVAPICH,
        GASNET,
        NVSHMEM,
        MOONCAKE,
    }


def test_ucx_takes_a_limited_entry_where_there_is_no_full_one() -> None:
    keys = table(0, 0x7FFF, 0x0010)
    assert taken(keys)[UCX] == (1, "0x7fff")
    assert taken(keys, 0x10)[UCX] == (2, "0x0010")
    assert taken(table(0x0010, 0x8020))[UCX] == (1, "0x0020")
    assert all(choice.value is not None for choice in choose_entries(keys, 0x10))


@pytest.mark.parametrize("partition", [None, 0x10])
@pytest.mark.parametrize("place", [0, 2])
def test_an_entry_that_was_not_read_may_be_the_full_one_that_ucx_prefers(partition: int | None, place: int) -> None:
    keys: list[int | None] = [0x0010, 0x0020]
    keys.insert(place, None)
    found = next(choice for choice in choose_entries(table(*keys), partition) if choice.program.name == UCX)
    assert (found.value, found.is_known, found.reason) == (None, False, f"index {place} could not be read")
    assert taken(table(0x8010, None))[UCX] == (0, "0x0010")


def test_gasnet_cannot_be_told_partition_1() -> None:
    assert taken(table(0x8001), 1)[GASNET] == (None, None)
    assert reasons(table(0x8001), 1)[GASNET] == "no value of GASNET_IBV_PKEY names partition 0x0001: they start at 2"
    assert taken(table(0x8001), 1)[UCX] == (0, "0x0001")
    assert taken(table(0x8002), 2)[GASNET] == (0, "0x0002")


def test_with_both_forms_an_index_names_the_full_one_and_a_value_the_first() -> None:
    assert taken(table(0xFFFF, 0x0010, 0x8010), 0x10) == {
        NCCL: (2, "2"),
        UCX: (2, "0x0010"),
        OMPI: (1, "0x0010"),
        MVAPICH: (1, "0x0010"),
        GASNET: (1, "0x0010"),
        NVSHMEM: (2, "2"),
        MOONCAKE: (2, "2"),
    }


def test_an_entry_that_was_not_read_leaves_unknown_what_it_may_decide() -> None:
    keys = table(0xFFFF, None, 0x8010)
    assert taken(keys)[NCCL] == (0, "0")
    for choice in choose_entries(keys, 0x10):
        assert (choice.index, choice.is_known, choice.reason) == (None, False, "index 1 could not be read")
    assert all(not choice.is_known for choice in choose_entries(None))


@pytest.mark.parametrize("keys", [(), table(0, 0)])
def test_a_table_without_a_p_key_fits_none(keys: Table) -> None:
    assert all(choice.value is None and choice.reason for choice in choose_entries(keys))
    assert set(reasons(keys, 0x10).values()) == {"partition 0x0010 is not in the P_Key table"}


@given(st.lists(st.one_of(st.none(), st.integers(0, 0xFFFF)), max_size=8), st.one_of(st.none(), st.integers(1, 0x7FFF)))
def test_what_is_taken_is_in_the_table(keys: list[int | None], partition: int | None) -> None:
    found = table(*keys)
    held = [each for each in found if each is not None and each.is_valid and partition in (None, each.partition)]
    for choice in choose_entries(found, partition):
        assert (choice.value is None) == (choice.reason is not None)
        if choice.index is None:
            continue
        key = found[choice.index]
        assert key is not None
        assert key.is_valid
        assert choice.p_key == key
        assert partition in (None, key.partition)
        assert key.is_full or not choice.program.prefers_full or not any(each and each.is_full for each in held)


def test_one_value_has_to_fit_all_ports_of_a_job(tmp_path: Path) -> None:
    tree = trees.connectx(tmp_path)
    other = tree.device("mlx5_1", "0000:04:00.0", 0x77)
    tree.port(other, (0xFFFF, 0x8020, 0x8010), guid=0x77)
    found = {each.program.name: each for each in job_script_lines(read_ports(Sysfs(tree.root)), 0x10)}
    assert found[UCX].value == "0x0010"
    assert found[NCCL].value is None
    assert found[NCCL].reason == (
        "the program takes one value for all ports of a job, but the ports need different ones (0x8010 at index 1 of "
        "mlx5_0 port 1, 0x8010 at index 2 of mlx5_1 port 1): name a port with -C and -P"
    )


def test_without_a_port_nothing_is_set(tmp_path: Path) -> None:
    assert [each.reason for each in job_script_lines(read_ports(Sysfs(Tree(tmp_path).root)))] == [
        "no InfiniBand port is active"
    ] * len(PROGRAMS)
