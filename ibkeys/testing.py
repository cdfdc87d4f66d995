"""A pytest plugin: test scripts that use ibkeys on a simulated subnet, without hardware.

Installing ibkeys makes pytest load it.

    @pytest.mark.ib_fabric("lab.net", at="login1 HCA-1")
    def test_my_script_takes_a_host_out_of_its_partition(ib_fabric, ib_subnet):
        ib_subnet.port("cn001 mlx5_0", 1).p_keys = [0x7FFF, 0x8001]  # the physical state, without SMPs
        my_script.retire(ib_fabric, "cn001 mlx5_0")
        assert ib_subnet.port("cn001 mlx5_0", 1).p_keys[1] == 0

Without the marker the packaged demo fabric is used. The arguments of the marker are: the net file or snapshot (relative
to the test's folder, or else to pytest's root); ``port_guids=``, ``links=`` and ``seed=`` as for
`ibkeys.replica.sources.read_subnet`; ``sm=``, the node with the master SM; ``at=`` and ``port=``, the local port of the
script. ``ib_subnet`` is the subnet's physical state, ``ib_fabric`` the result of `ibkeys.open` on it, and ``ib_port``
the handle of the port that the script uses. ``ib_subnet.faults`` injects faults.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ibkeys.fabric.handle import PortHandle
    from ibkeys.scripting import Fabric
    from ibkeys.sim.subnet import Subnet

MARKER = "ib_fabric"
_SUBNET_OPTIONS = {"port_guids": "port_guids", "links": "link_state", "seed": "seed"}
"""Argument of the marker → argument of `read_subnet`."""
_LOCAL_OPTIONS = ("at", "port")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker with pytest."""
    arguments = "file.net, port_guids=, links=, seed=, sm=, at=, port="
    config.addinivalue_line("markers", f"{MARKER}({arguments}): the simulated subnet of ib_fabric")


@pytest.fixture
def ib_subnet(request: pytest.FixtureRequest) -> Subnet:
    """Return the simulated subnet: its physical state, faults, cables and clock."""
    from ibkeys.replica.sources import read_subnet
    from ibkeys.umad.sim_spec import DEMO

    options = _options(request)
    path = _find(request, options["file"]) if "file" in options else DEMO
    subnet = read_subnet(path, **{_SUBNET_OPTIONS[name]: options[name] for name in _SUBNET_OPTIONS if name in options})
    if "sm" in options:
        subnet.set_sm(options["sm"])
    return subnet


@pytest.fixture
def ib_fabric(
    request: pytest.FixtureRequest, ib_subnet: Subnet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fabric]:
    """Yield the result of `ibkeys.open` on `ib_subnet`, with a key store and a journal of its own, and close it after
    the test."""
    import ibkeys

    options = _options(request)
    local = ibkeys.Local(**{name: options[name] for name in _LOCAL_OPTIONS if name in options})
    folder = tmp_path_factory.mktemp("ibkeys")
    stores = ibkeys.Stores(folder / "keys.db", folder / "journal.db")
    with ibkeys.open(ib_subnet, local=local, stores=stores) as fabric:
        yield fabric


@pytest.fixture
def ib_port(ib_fabric: Fabric) -> PortHandle:
    """Return the port that the script uses: the result of ``ib_fabric.find_port()``."""
    return ib_fabric.find_port()


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    marker = request.node.get_closest_marker(MARKER)
    if marker is None:
        return {}
    known = ("file", "sm", *_SUBNET_OPTIONS, *_LOCAL_OPTIONS)
    unknown = sorted(set(marker.kwargs) - set(known))
    if unknown or len(marker.args) > 1:
        problem = f"has no argument {unknown[0]}=" if unknown else "takes one net file"
        raise pytest.UsageError(f"@pytest.mark.{MARKER} {problem}; it knows {', '.join(known)}")
    return {**({"file": marker.args[0]} if marker.args else {}), **marker.kwargs}


def _find(request: pytest.FixtureRequest, name: str) -> Path:
    beside = request.path.parent / name
    return beside if beside.exists() else request.config.rootpath / name
