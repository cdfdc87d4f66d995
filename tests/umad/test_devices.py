"""Which channel adapters there are, and which port is meant."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from pytest_mock import MockerFixture

from ibkeys import errors
from ibkeys.umad import devices
from tests.umad.conftest import PORT, make_ca, make_port

ACTIVE = make_port(port=2)
LINKED = make_port(state=2)
DOWN = make_port(state=1, phys_state=2)
VIRTUAL = make_port(capability_mask=0x2651E848 | devices.IS_SM_DISABLED, port_guid=1)
ETHERNET = make_port(link_layer="Ethernet")


@pytest.mark.parametrize(
    ("cas", "ca", "port", "chosen"),
    [
        ([make_ca("a", LINKED, ACTIVE)], None, None, ("a", 2)),
        ([make_ca("a", DOWN), make_ca("b", LINKED)], None, None, ("b", 1)),
        ([make_ca("a", LINKED), make_ca("b", ACTIVE)], None, None, ("b", 2)),
        ([make_ca("a", ETHERNET), make_ca("b", VIRTUAL), make_ca("c", LINKED)], None, None, ("c", 1)),
        ([make_ca("a", ACTIVE), make_ca("b", LINKED)], "b", None, ("b", 1)),
        ([make_ca("a", DOWN), make_ca("b", LINKED)], None, 1, ("b", 1)),
        ([make_ca("a", DOWN, ACTIVE)], "a", 1, ("a", 1)),
        ([make_ca("a", make_port(port=0))], None, None, ("a", 0)),
    ],
)
def test_choice(cas: list[Any], ca: str | None, port: int | None, chosen: tuple[str, int]) -> None:
    found = devices.choose_port(cas, ca, port)
    assert (found.ca_name, found.port) == chosen


@pytest.mark.parametrize(
    ("cas", "ca", "port", "error", "message"),
    [
        ([make_ca("a", ACTIVE)], "b", None, errors.NoDevice, r"no channel adapter b: there is a \(port 2 Active\)"),
        ([make_ca("a", LINKED, ACTIVE)], "a", 3, errors.NoDevice, "no port 3 on a: .*1 Initialize, 2 Active"),
        ([make_ca("a", LINKED)], None, 3, errors.NoDevice, "no port 3 on any channel adapter"),
        ([make_ca("a", ETHERNET)], None, None, errors.NoDevice, "1 Active Ethernet"),
        ([make_ca("a", VIRTUAL)], None, None, errors.SmpsNotAllowed, "physical function"),
        ([make_ca("a", VIRTUAL), make_ca("b", ACTIVE)], "a", 1, errors.SmpsNotAllowed, "IsSMdisabled"),
        (
            [make_ca("a", DOWN), make_ca("b", DOWN)],
            None,
            None,
            errors.PortDown,
            r"a \(port 1 Down\); b \(port 1 Down\)",
        ),
    ],
)
def test_no_choice_says_what_there_is(
    cas: list[Any], ca: str | None, port: int | None, error: type[errors.TransportError], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        devices.choose_port(cas, ca, port)
    assert caught.value.errno != 0
    assert "\n" not in str(caught.value)


def test_gsi_device_names_its_smi_partner() -> None:
    cas = [make_ca("mlx5_0", make_port(capability_mask=devices.IS_SM_DISABLED)), make_ca("smi0", PORT)]
    with pytest.raises(errors.SmpsNotAllowed, match="-C smi0"):
        devices.choose_port(cas, "mlx5_0", None)


def test_host_without_devices(mocker: MockerFixture) -> None:
    mocker.patch("os.listdir", side_effect=FileNotFoundError)
    with pytest.raises(errors.NoDevice, match=r"no InfiniBand device(.|\n)*simulated fabric \(`sim:`\)"):
        devices.choose_port((), None, None)


def test_host_with_other_devices_only(mocker: MockerFixture) -> None:
    mocker.patch("os.listdir", return_value=["rxe0"])
    with pytest.raises(errors.NoDevice, match=r"\(rxe0\)"):
        devices.choose_port((), None, None)


def fill_port(ffi: Any, port: Any, keep: list[Any]) -> None:
    pkeys = ffi.new("uint16_t[]", [0xFFFF, 0x8001])
    keep.append(pkeys)
    port.portnum, port.base_lid, port.state, port.phys_state, port.rate = 1, 7, 4, 5, 100
    port.capmask = int.from_bytes((0x2651E848).to_bytes(4, "big"), "little")
    port.port_guid = int.from_bytes((0x506B4B0300500021).to_bytes(8, "big"), "little")
    port.gid_prefix = 0x80FE
    port.pkeys, port.pkeys_size, port.link_layer = pkeys, 2, b"InfiniBand"


def test_list_cas_turns_big_endian_around_and_releases(lib: Any, mocker: MockerFixture) -> None:
    ffi = devices.binding().ffi
    keep: list[Any] = []

    def get_ca(name: bytes, ca: Any) -> int:
        if name == b"broken":
            return -errno.EIO
        port = ffi.new("umad_port_t *")
        keep.append(port)
        fill_port(ffi, port, keep)
        ca.node_type, ca.numports = {b"iwarp": 4}.get(name, 1), 1
        ca.ca_type = b"MT4119"
        ca.ports[1] = port
        return 0

    lib.umad_get_ca.side_effect = get_ca
    mocker.patch("os.listdir", return_value=["mlx5_0", "broken", "iwarp"])
    (ca,) = devices.list_cas()
    assert (ca.name, ca.ca_type, len(ca.ports)) == ("mlx5_0", "MT4119", 1)
    port = ca.ports[0]
    assert (port.capability_mask, port.port_guid) == (0x2651E848, 0x506B4B0300500021)
    assert (port.gid_prefix, port.pkeys, port.link_layer) == (0xFE80000000000000, (0xFFFF, 0x8001), "InfiniBand")
    assert lib.umad_release_ca.call_count == 2


def test_read_port_releases(lib: Any) -> None:
    ffi = devices.binding().ffi
    keep: list[Any] = []

    def get_port(_name: bytes, _number: int, port: Any) -> int:
        fill_port(ffi, port, keep)
        return 0

    lib.umad_get_port.side_effect = get_port
    assert devices.read_port("mlx5_0", 1).base_lid == 7
    lib.umad_release_port.assert_called_once()
