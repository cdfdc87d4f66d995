"""A subnet as it is made from a net file: LIDs, GUIDs, states at power-up, names."""

from __future__ import annotations

import pytest

from ibkeys.errors import AddressError, UsageError
from ibkeys.mad.smp import build_smp
from ibkeys.sim.subnet import Subnet
from tests.corpus import DATA
from tests.sim.subnet.asking import GET, NODE1, NODE_INFO, SWITCH_B, node_info


def test_power_up_state_is_ibsims() -> None:
    subnet = Subnet.from_file(DATA / "fabrics" / "two-switch.net", link_state="initialize")
    port = subnet.port(NODE1, 1)
    assert (port.state, port.physical_state, port.lid, port.sm_lid) == (2, 5, 1, 0)
    assert node_info(subnet.process(build_smp(GET, NODE_INFO, path=(1,)), NODE1, 1)).node_type == 2
    assert subnet.process(build_smp(GET, NODE_INFO), NODE1, 1, dlid=subnet.port(SWITCH_B, 0).lid) == []


def test_port_guids_of_the_file_and_of_ibsim() -> None:
    text = 'caguid=0x10\nCa 1 "h"\n[1](10) "s"[1]\n\nswitchguid=0x20\nSwitch 2 "s"\n[1] "h"[1](10)\n'
    assert Subnet.from_text(text).port("h", 1).guid == 0x10
    assert Subnet.from_text(text, port_guids="ibsim").port("h", 1).guid == 0x11
    assert Subnet.from_text(text).port("s", 2).guid == 0x20


def test_missing_and_double_lids_are_assigned() -> None:
    text = (
        'Switch 4 "s" # "s" base port 0 lid 5 lmc 0\n[1] "a"\n[2] "b"\n[3] "c"\n\n'
        'Ca 1 "a"\n[1] "s"[1] # lid 5 lmc 0 "s" lid 5 4xEDR\n\nCa 1 "b"\n[1] "s"[2] # lid 6 lmc 1 "s" lid 5 4xEDR\n\n'
        'Ca 1 "c"\n[1] "s"[3]\n'
    )
    subnet = Subnet.from_text(text)
    assert [subnet.port(name, number).lid for name, number in (("s", 0), ("b", 1), ("a", 1), ("c", 1))] == [5, 6, 1, 2]
    assert subnet.process(build_smp(GET, NODE_INFO), "a", 1, dlid=7)  # the second LID of b


def test_ambiguous_descriptions() -> None:
    subnet = Subnet.from_text('Ca 1 "a" # "HCA-1"\n\nCa 1 "b" # "HCA-1"\n')
    with pytest.raises(AddressError, match=r"2 nodes; did you mean a or b\?"):
        subnet.node("HCA-1")


def test_a_node_is_named_by_its_host_alone_where_the_host_has_one_adapter() -> None:
    subnet = Subnet.from_text('Ca 1 "a" # "n1 HCA-1"\n\nCa 1 "b" # "n1 HCA-2"\n\nCa 1 "c" # "n2 mlx5_0"\n')
    assert subnet.node("n2").node_id == "c"
    with pytest.raises(AddressError, match=r"2 nodes; did you mean 'n1 HCA-1' or 'n1 HCA-2'\?"):
        subnet.node("n1")


def test_wrong_arguments() -> None:
    text = 'Ca 1 "a"\n'
    with pytest.raises(UsageError, match="port GUIDs"):
        Subnet.from_text(text, port_guids="other")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="links"):
        Subnet.from_text(text, link_state="up")  # type: ignore[arg-type]
