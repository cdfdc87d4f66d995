"""The standby SMs of a rehearsal: the values that each changes when it takes over, and stand-ins during the change.

A standby applies its own policy and options to every table when it takes over. So each whose command line is known is
started alone on a fresh copy of the fabric. While a change of partitions is rehearsed, stand-ins answer for all
standbys: IsSM is set at their ports, and SMInfo is answered as by a standby. A change of M_Keys meets none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ibkeys.errors import UsageError
from ibkeys.fabric.snapshot import Snapshot
from ibkeys.mad.const import SMState
from ibkeys.managers.subnet_managers import managers_of
from ibkeys.rehearse.causes import Cause, causes_of
from ibkeys.rehearse.placed_opensm import MadeUpKeys, PlacedOpensm, place_opensm
from ibkeys.rehearse.site_opensm import SiteOpensm, find_opensm
from ibkeys.rehearse.tables import Tables, ValueDifference, tables_of
from ibkeys.rehearse.twin import Twin
from ibkeys.sim.netfile.model import NetFile
from ibkeys.sim.nodes import SimNode
from ibkeys.sim.subnet import Subnet


@dataclass(frozen=True, slots=True)
class RehearsedStandby:
    """A standby SM. ``host``: its node, as the user typed it, or the GUID of its port. ``opensm``: its OpenSM; None:
    its command line is not known."""

    host: str | int
    opensm: SiteOpensm | None


class Takeover(NamedTuple):
    """The changes that a standby on ``host`` makes when it takes over: the ``tables`` afterwards, and the likely cause
    of each difference. ``same_policy``: whether its policy has the bytes of the master's."""

    host: SimNode
    tables: Tables
    causes: dict[ValueDifference, Cause]
    same_policy: bool
    notes: tuple[str, ...]


def standbys_of(snapshot: Snapshot, master: int | None, named: Sequence[str]) -> list[RehearsedStandby]:
    """Return the standbys of a rehearsal: those of *named*, each a node, a colon and the command line of its OpenSM,
    then the SMs in *snapshot* but the one at the port GUID *master*. Raises UsageError for another
    form, and as `find_opensm`."""
    found = []
    for text in named:
        host, colon, command = text.partition(":")
        if not (host and colon and command.strip()):
            raise UsageError(
                f"{text!r} names no standby: give NODE:COMMAND, such as 'sm2 mlx5_0:opensm -F opensm.conf'"
            )
        found.append(RehearsedStandby(host, find_opensm(command)))
    return [
        *found,
        *(RehearsedStandby(each.guid, None) for each in managers_of(snapshot.fabric) if each.guid != master),
    ]


def take_over(
    fabric: NetFile, standby: RehearsedStandby, folder: Path, master: PlacedOpensm, recorded: Tables, keys: MadeUpKeys
) -> Takeover:
    """Start the OpenSM of a standby alone on a fresh copy of *fabric*, with its files in the new *folder*, and return
    its changes of the tables *recorded*. *master*: the OpenSM of the rehearsal. Raises as `place_opensm`, IbkeysError
    if it does not come to rest."""
    assert standby.opensm is not None
    folder.mkdir()
    subnet = Subnet(fabric)
    with Twin(subnet, subnet.nodes[0], folder) as twin:
        placed = place_opensm(twin, standby.opensm, folder, standby.host, 0, keys)
        opensm = placed.start(twin)
        after = tables_of(subnet)
        opensm.stop()
    same = _bytes(placed.policy_copy) == _bytes(master.policy_copy)
    causes = causes_of(recorded, after, placed.options, placed.policy_copy.exists())
    if not same:
        causes = {each: "standby-policy" if cause == "policy" else cause for each, cause in causes.items()}
    return Takeover(placed.home.node, after, causes, same, placed.notes)


def simulate_standbys(subnet: Subnet, standbys: Sequence[RehearsedStandby], master: SimNode) -> Iterator[SimNode]:
    """Let a stand-in answer for each of *standbys* that is not on *master*, and yield their nodes. Raises AddressError
    for a node that *subnet* does not have."""
    for node in dict.fromkeys(subnet.node(each.host) for each in standbys):
        if node is not master:
            subnet.set_sm(node, int(SMState.STANDBY))  # priority 0: it never becomes master
            yield node


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None
