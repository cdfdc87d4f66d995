"""Checks of the local port and of the subnet manager that it knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ibkeys.arguments import given
from ibkeys.errors import IbkeysError
from ibkeys.mad.attributes import SMInfo
from ibkeys.mad.const import SMState
from ibkeys.topology.subnet_manager import sm_state_name
from ibkeys.umad.probe import ProbeResult

if TYPE_CHECKING:
    from ibkeys.fabric.live import LiveFabric


def check_local_port(fabric: LiveFabric, host_knows: Callable[[], Sequence[str]]) -> Iterator[ProbeResult]:
    """Yield the checks of the local port of *fabric* and, if it answers, of its subnet manager.

    *host_knows*: returns the sources of keys on this host that may give access to a port which does not answer.
    """
    local = fabric.local()
    port = f"{local.ca_name} port {local.port}"
    try:
        info = fabric.find_port().read_port_info()
    except IbkeysError as error:
        advice = "; ".join([_own_key_advice(fabric), *([] if fabric.is_simulated else host_knows())])
        yield ProbeResult("local port", False, f"{port} opens, but does not answer: {error}", advice)
        return
    yield ProbeResult(
        "local port", True, f"{port} opens and answers; LID {info.lid}, port GUID 0x{local.port_guid:016x}"
    )
    yield from _subnet_manager(fabric, info.master_sm_lid)


def _own_key_advice(fabric: LiveFabric) -> str:
    if fabric.ring.key_of(fabric.own_guid).is_zero:
        return f"if its M_Key is set, give it: {given('-y, --keystore or --security-keys')}"
    return (
        "it was queried with the available M_Key, so it probably has a different one: ibkeys keystore import of the "
        "subnet manager's files, or ibkeys mkey-recover"
    )


def _subnet_manager(fabric: LiveFabric, lid: int) -> Iterator[ProbeResult]:
    missing = None if fabric.is_simulated else False  # a simulated subnet needs none
    if not lid:
        advice = "start one, such as OpenSM; LIDs need it, but -D works without it"
        yield ProbeResult("subnet manager", missing, "none has configured this port (MasterSMLID 0)", advice)
        return
    try:
        info = SMInfo(fabric.find_port(lid).get(SMInfo))
    except IbkeysError as error:
        advice = "check that it is running (sminfo), and read its log"
        yield ProbeResult("subnet manager", missing, f"LID {lid} does not answer as a subnet manager: {error}", advice)
        return
    text = f"LID {lid}, GUID 0x{info.guid:016x}, {sm_state_name(info.sm_state)}, priority {info.priority}"
    ok = info.sm_state == SMState.MASTER
    yield ProbeResult(
        "subnet manager", ok, text, "" if ok else "the LID of the master is stale: no master has swept since"
    )
