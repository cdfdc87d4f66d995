"""The documents of SDN04-04 and SDN04-05 against golden ones, what is never said, and the file of tenants."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ibkeys.audit.files import Tenancy, read_tenants
from ibkeys.audit.formats.sdn04 import keys_document, partitions_document
from ibkeys.errors import FileFormatError
from tests.audit.looking import end_ports, from_file, good_key, look, protect
from tests.audit.sites import CASES, SITE, documents
from tests.corpus import DATA
from tests.fabricsim import subnet


@pytest.mark.parametrize("name", CASES)
def test_documents_are_the_golden_ones_also_from_a_file(name: str, tmp_path: Path) -> None:
    data = CASES[name]()
    for source in (data, from_file(data, tmp_path)):
        for format, text in documents(source).items():
            assert text + "\n" == (DATA / "sdn04" / f"{name}.{format}.json").read_text(), format


def configured(name: str) -> dict[str, Any]:
    document = json.loads((DATA / "sdn04" / f"{name}.sdn04-05.json").read_text())
    return {key: entry["configured"] for key, entry in document["keys"].items()}


def test_what_the_golden_documents_say() -> None:
    """Read by a person once: hidden is set, silence is null, two unset ports of a hundred are false."""
    unseen = {"aggregation_management_key": None, "node2node_key": None}
    three = ("vendor_specific_key", "congestion_control_key", "manager2node_key")
    everything = {"p_key": True, "management_key": True, **dict.fromkeys(three, True), **unseen}
    assert configured("all-set") == everything
    assert configured("all-unset") == {**dict.fromkeys(everything, False), **unseen}
    assert configured("one-class-hidden") == everything
    assert configured("one-silent") == {**everything, "manager2node_key": None}
    assert configured("two-of-100-differ") == {**everything, "management_key": False, "congestion_control_key": False}


def test_shapes_are_those_that_the_checks_read() -> None:
    for name in CASES:
        keys = json.loads((DATA / "sdn04" / f"{name}.sdn04-05.json").read_text())
        assert (keys["success"], keys["platform"], keys["site_id"]) == (True, SITE.platform, SITE.site_id)
        assert type(keys["partitions_with_pkey"]) is int
        assert all(set(entry) == {"configured", "source", "detail"} for entry in keys["keys"].values())
        partitions = json.loads((DATA / "sdn04" / f"{name}.sdn04-04.json").read_text())
        assert partitions["partitions_checked"] == len(partitions["partitions"])
        for entry in partitions["partitions"]:
            assert {"name", "partition_key", "tenant_id", "status"} <= set(entry)
            assert int(entry["partition_key"], 16) & 0x7FFF not in (0, 0x7FFF)


def test_what_was_not_asked_or_not_read_is_null_never_false() -> None:
    net = subnet("two-switch")
    protect(net, 1, 60, None)
    for port in end_ports(net):
        port.p_keys = [0xFFFF]
    said = keys_document(look(net), SITE)["keys"]
    assert said["management_key"]["configured"] is None
    assert "hidden on 8 ports" in said["management_key"]["detail"]
    assert {said[key]["configured"] for key in ("vendor_specific_key", "congestion_control_key")} == {None}
    net.silence("node05 mlx4_0")
    document = keys_document(look(net), SITE)
    assert (document["success"], "could not be read" in document["error"]) == (False, True)
    assert document["keys"]["p_key"]["configured"] is None
    (entry,) = partitions_document(look(net), SITE, [Tenancy(0x10, "a")])["partitions"]
    assert (entry["status"], entry["on_wire"]) == ("unknown", None)


def test_one_m_key_for_all_is_not_one_for_each() -> None:
    net = subnet("two-switch")
    protect(net, 0, 60, good_key(1))
    said = keys_document(look(net), SITE)["keys"]["management_key"]
    assert (said["configured"], said["detail"]) == (False, "8 ports have one and the same key")


def test_a_partition_of_two_tenants_is_listed_twice() -> None:
    tenancies = [Tenancy(0x10, "a"), Tenancy(0x10, "b"), Tenancy(0x7FFF, "c")]
    entries = partitions_document(look(subnet("two-switch")), SITE, tenancies)["partitions"]
    assert [(each["partition_key"], each["tenant_id"]) for each in entries] == [
        ("0x10", "a"),
        ("0x10", "b"),
        ("0x7fff", "c"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "# who has what\n0x8010 alpha\n0x0010 beta gmbh\n17 -\n",
        '[{"partition_key": "0x8010", "tenant_id": "alpha"}, {"partition_key": 16, "tenant_id": "beta gmbh"}, '
        '{"partition_key": "17", "tenant_id": ""}]',
        '{"partitions": [{"partition_key": "0x10", "tenant_id": "alpha"}, {"partition_key": "16", "tenant_id": '
        '"beta gmbh"}, {"partition_key": "0x11", "tenant_id": null}]}',
    ],
)
def test_tenants_as_lines_and_as_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "tenants").write_text(text)
    assert read_tenants(tmp_path / "tenants") == [
        Tenancy(0x10, "alpha"),
        Tenancy(0x10, "beta gmbh"),
        Tenancy(0x11, None),
    ]


@pytest.mark.parametrize(
    "text",
    [
        *("0x10000 a\n", "0x0 a\n", "blue a\n", '{"x": 1}', "[1]", '[{"tenant_id": "a"}]', "["),
        *('[{"partition_key": "x"}]', '[{"partition_key": "0x10", "tenant_id": 5}]', '{"partitions": 5}'),
        '[{"partition_key": 99999}]',
    ],
)
def test_a_file_of_tenants_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "tenants").write_text(text)
    with pytest.raises(FileFormatError):
        read_tenants(tmp_path / "tenants")
