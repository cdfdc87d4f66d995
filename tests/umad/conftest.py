"""A libibumad that does as it is told: real structures from the extension, functions that a test replaces."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pytest_mock import MockerFixture

from ibkeys.umad import descriptor, devices, libibumad
from ibkeys.umad.port import LocalCa, LocalPort

PORT = LocalPort(
    ca_name="mlx5_0",
    port=1,
    base_lid=7,
    lmc=0,
    sm_lid=1,
    sm_sl=0,
    state=4,
    phys_state=5,
    capability_mask=0x2651E848,
    gid_prefix=0xFE80000000000000,
    port_guid=0x506B4B0300500021,
    link_layer="InfiniBand",
    pkeys=(0xFFFF,),
)


def make_port(**changes: Any) -> LocalPort:
    return replace(PORT, **changes)


def make_ca(name: str, *ports: LocalPort) -> LocalCa:
    return LocalCa(
        name=name,
        node_type=1,
        fw_version="16.35",
        ca_type="MT4119",
        hw_version="0",
        node_guid=0x506B4B0300500020,
        ports=tuple(replace(port, ca_name=name) for port in ports),
    )


@pytest.fixture
def lib(mocker: MockerFixture) -> Any:
    """libibumad as a mock that opens descriptor 5 and gives agents 0, 1, 2, ...; sends all and receives nothing."""
    ffi = devices.binding().ffi
    lib = mocker.Mock(name="libibumad")
    lib.UMAD_CA_MAX_PORTS, lib.IBKEYS_NAME_LEN, lib.IBKEYS_RECV_COLUMNS, lib.IBKEYS_ASKED = 10, 20, 4, 1024
    lib.IBKEYS_MOST_NAMES, lib.ibkeys_simulated_names.return_value = 32, -errno.ENOSYS
    lib.umad_open_port.return_value = 5
    lib.umad_close_port.return_value = 0
    lib.umad_register.side_effect = range(100)
    lib.ibkeys_gsi_of.return_value = -errno.ENOSYS
    lib.ibkeys_send_batch.return_value = 0
    lib.ibkeys_recv_batch.return_value = 0
    binding = mocker.Mock(return_value=devices.Binding(ffi, lib))
    mocker.patch.object(devices, "binding", binding)
    mocker.patch.object(libibumad, "binding", binding)
    mocker.patch.object(descriptor, "binding", binding)
    return lib


@pytest.fixture
def fails() -> Callable[..., Callable[..., int]]:
    """Make a C function that returns a value and leaves an errno behind."""
    ffi = devices.binding().ffi

    def make(result: int, reason: int) -> Callable[..., int]:
        def function(*_arguments: Any) -> int:
            ffi.errno = reason
            return result

        return function

    return make
