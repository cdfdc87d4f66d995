"""UFM's partitions by REST: however they are spelled, and the calls that change them."""

from __future__ import annotations

import itertools

import pytest

from ibkeys.errors import UfmNotReached
from ibkeys.managers.ufm.access import TOTAL_TIMEOUT
from ibkeys.managers.ufm.rest import Ufm, call_to_add, call_to_replace, calls_to_remove
from tests.managers.ufm.exchange import A, B, C, access
from tests.managers.ufm.mock import Mock


@pytest.mark.parametrize("listing", ["dict", "plain", "dicts"])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("spelled", ["{:016x}", "{:X}", "0x{:x}"])
@pytest.mark.parametrize("keys", ["{:#x}", "0x{:04x}", "0x8{:03x}"])
def test_the_partitions_are_the_same_however_they_are_spelled(
    mock: Mock, listing: str, nested: bool, spelled: str, keys: str
) -> None:
    mock.listing, mock.nested, mock.spell_guid = listing, nested, spelled.format
    mock.spell_key = lambda base: "0x7fff" if base == 0x7FFF else keys.format(base)
    found = Ufm(access(mock)).partitions()
    assert set(found) == {0x10, 0x7FFF}
    assert found[0x10].words == {A: "full", B: "limited"}
    assert found[0x7FFF].members is None


@pytest.mark.parametrize("absent", ["{}", "404"])
def test_an_absent_partition_is_none(mock: Mock, absent: str) -> None:
    mock.absent = absent
    assert Ufm(access(mock)).partition(0x11) is None


def test_changes_are_sent_as_the_facts_say(mock: Mock) -> None:
    client = Ufm(access(mock))
    client.make(call_to_add(0x11, [B, A], ip_over_ib=False, index0=True))
    assert mock.words(0x11) == {A: "full", B: "full"}
    assert not mock.partitions[0x11].ip_over_ib
    client.make(call_to_replace(0x11, {A: "limited", C: "full"}, ip_over_ib=True, index0=False))
    assert mock.words(0x11) == {A: "limited", C: "full"}
    for call in calls_to_remove(0x11, [A, C]):
        client.make(call)
    assert mock.words(0x11) == {}
    assert client.version() == "6.23.1-6"


def test_many_guids_are_removed_by_several_calls() -> None:
    calls = list(calls_to_remove(0x11, range(1, 251)))
    assert [call.path.count(",") + 1 for call in calls] == [100, 100, 50]
    assert max(len(call.path) for call in calls) < 2000


def test_a_change_that_begins_a_job_names_it(mock: Mock) -> None:
    mock.job = "Running"
    client = Ufm(access(mock))
    job = client.make(call_to_add(0x11, [A], ip_over_ib=True, index0=False))
    assert job == "1"
    assert client.job(job).state == "running"
    assert all("elsewhere" not in headers["Host"] for _, _, headers, _ in mock.log)


def test_many_questions_together_have_an_end(mock: Mock) -> None:
    """Each answer is in time, and there may be 32,766 of them."""
    mock.listing = "plain"
    for base in range(0x20, 0x30):
        mock.store(base, g2c903000a1011="full")
    clock = itertools.count(0, TOTAL_TIMEOUT / 10)
    with pytest.raises(UfmNotReached, match=r"each of its 18 partitions takes more than 300 s: 9 were read by then"):
        Ufm(access(mock), now=lambda: next(clock)).partitions()
    assert mock.reads == 1 + 9
    assert len(Ufm(access(mock)).partitions()) == 18


@pytest.mark.parametrize(
    ("version", "takes"),
    [("6.22.0", True), ("6.23.1-6", True), ("7.0", True), ("6.21.9", False), ("x", False), (None, False)],
)
def test_whether_ufm_takes_names(mock: Mock, version: str | None, takes: bool) -> None:
    mock.version = version
    assert Ufm(access(mock)).takes_names() is takes


@pytest.mark.parametrize("flat", [False, True])
def test_of_one_partition_its_qos_is_read_too(mock: Mock, flat: bool) -> None:
    mock.flat_qos = flat
    found = Ufm(access(mock)).partition(0x10)
    assert found is not None
    assert found.qos == {"mtu_limit": "2", "service_level": "0", "rate_limit": "2.5"}
