"""Simulating software on the nodes: it runs a subnet manager, sets capabilities, or changes the NodeDescription."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ibkeys.errors import UsageError
from ibkeys.mad.attributes import NodeDescription
from ibkeys.mad.const import CapabilityMask, SMState
from ibkeys.sim import notices
from ibkeys.sim.nodes import SimNode, SimPort, SimSubnetManager
from ibkeys.sim.running_managers import Managers
from ibkeys.sim.traps import Traps

MOST_PRIORITY: Final = 15
_IS_SM: Final = int(CapabilityMask.IS_SM)
_CAPABILITY_TRAP_BIT: Final = int(CapabilityMask.IS_CAPABILITY_MASK_NOTICE_SUPPORTED)
_DESCRIPTION_TRAP_BITS: Final = _CAPABILITY_TRAP_BIT | int(CapabilityMask.IS_OTHER_LOCAL_CHANGES_NOTICE_SUPPORTED)


class Software:
    """The software on *nodes*. *managers*: the subnet managers, which it starts and ends. *traps*: sends traps about
    its changes."""

    def __init__(self, nodes: Sequence[SimNode], managers: Managers, traps: Traps) -> None:
        self._nodes = nodes
        self._managers = managers
        self._traps = traps

    def start_sm(self, home: SimPort, state: int, priority: int = 0, sm_key: int = 0) -> None:
        """Start a subnet manager at the end port *home*; it replaces another one on that node.

        The LID of a master becomes MasterSMLID of all end ports. Raises UsageError for a *state* or *priority* out of
        range, and if *home* is not an end port.
        """
        if not 0 <= state <= SMState.MASTER or not 0 <= priority <= MOST_PRIORITY:
            raise UsageError(f"SM state {state} is not in 0..3 or priority {priority} not in 0..15")
        if not home.is_end_port:
            raise UsageError(f"{home} is not an end port: no SM runs there")
        self._managers.place(home.node, SimSubnetManager(home, state, priority, sm_key))
        self.set_is_sm(home, True)
        if state == SMState.MASTER:
            for node in self._nodes:
                for end in node.end_ports:
                    end.sm_lid = home.lid

    def end_sm(self, node: SimNode) -> None:
        """End the subnet manager of *node*, if one runs there."""
        if node.sm is not None:
            self.set_is_sm(node.sm.port, False)
            self._managers.place(node, None)
        node.touch()

    def set_is_sm(self, port: SimPort, on: bool) -> None:
        """Set or clear IsSM of an end port, as a program does by its issm device. Sends trap 144 as
        `set_capability`."""
        self.set_capability(port, _IS_SM, on)

    def set_capability(self, port: SimPort, bits: int, on: bool) -> None:
        """Set or clear *bits* of the CapabilityMask of an end port. After a change the port sends trap 144, if it has
        IsCapabilityMaskNoticeSupported."""
        mask = port.capability_mask & ~bits | (bits if on else 0)
        if mask != port.capability_mask:
            port.capability_mask = mask
            if mask & _CAPABILITY_TRAP_BIT:
                self._traps.send(port, notices.local_change(port))

    def set_description(self, node: SimNode, text: str) -> None:
        """Change the NodeDescription. Raises UsageError if *text* has more than 64 bytes in UTF-8.

        Each end port sends trap 144 with NodeDescriptionChange, if it has IsCapabilityMaskNoticeSupported or
        IsOtherLocalChangesNoticeSupported.
        """
        raw = text.encode("utf-8", "replace")
        if len(raw) > NodeDescription.size:
            raise UsageError(f"a NodeDescription of {len(raw)} bytes; {NodeDescription.size} is the maximum")
        node.description_bytes = raw
        node.ports[0].record("description")
        node.touch()
        for port in node.end_ports:
            if port.capability_mask & _DESCRIPTION_TRAP_BITS:
                notice = notices.local_change(port, other_local_changes=1, node_description_change=1)
                self._traps.send(port, notice)
