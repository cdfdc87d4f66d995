"""Nodes, ports and events as text. No line shows an M_Key, an SM_Key or a key of another management class."""

from __future__ import annotations

from typing import Final

from ibkeys.mad.classes.gmp import KEY_CLASS_OF
from ibkeys.mad.classes.key_info import KeySettings
from ibkeys.mad.const import PORT_PHYSICAL_STATE_NAMES, PORT_STATE_NAMES, CapabilityMask, PortPhysicalState, PortState
from ibkeys.printable import counted
from ibkeys.sim.agents import class_keys, mkey_check
from ibkeys.sim.history import SimEvent
from ibkeys.sim.nodes import SimNode, SimPort
from ibkeys.sim.steering.virtual_ports import describe_virtual_ports


def node_line(node: SimNode) -> str:
    """Return one line about *node*."""
    kind = "switch" if node.is_switch else "router" if node.node_type == 3 else "ca"
    state = ("", ", silent", ", dead")[node.silent] + (", runs an SM" if node.sm is not None else "")
    ports = counted(node.num_ports, "port")
    return f"{node.node_id} {node.description!r}: {kind} of {ports}, GUID 0x{node.guid:016x}{state}"


def node_lines(node: SimNode) -> list[str]:
    """Return one line about *node*, and one about each of its ports."""
    return [node_line(node), *(f"  {port.number}: {_summary(port)}" for port in node.all_ports)]


def _summary(port: SimPort) -> str:
    parts = [PORT_STATE_NAMES[PortState(port.state)]]
    if port.is_end_port:
        parts.append(f"LID {port.lid}")
    if port.peer is not None:
        parts.append(f"to {port.peer}")
    return ", ".join(parts)


def port_lines(port: SimPort) -> list[str]:
    """Return the state of *port* as lines. Leases of keys that have run out are applied first."""
    mkey_check.expire(port)
    physical = PORT_PHYSICAL_STATE_NAMES[PortPhysicalState(port.physical_state)]
    lines = [f"{port}: {_summary(port)}", f"  PortPhysicalState: {physical}"]
    if port.is_end_port:
        timer = _timer(port, port.lease_deadline)
        m_key = "set (not shown)" if port.m_key else "none"
        m_key_nv, p_key_nv = (
            "yes" if port.capability_mask & bit else "no"
            for bit in (CapabilityMask.IS_M_KEY_NVRAM, CapabilityMask.IS_P_KEY_NVRAM)
        )
        counts = f"M_Key {port.m_key_violations}, P_Key {port.p_key_violations}, Q_Key {port.q_key_violations}"
        lines += [
            f"  LMC: {port.lmc}, MasterSMLID: {port.sm_lid}, port GUID: 0x{port.guid:016x}",
            f"  M_Key: {m_key}, ProtectBits: {port.protect_bits}, lease: {port.lease_period} s, timer {timer}",
            f"  NV-RAM: M_Key {m_key_nv}, P_Keys {p_key_nv}",
            f"  violations: {counts}",
            *_class_lines(port),
            *([f"  virtual ports: {describe_virtual_ports(port)}"] if port.virtualization is not None else ()),
        ]
    else:
        inbound, outbound = ("on" if bit else "off" for bit in (port.inbound_enforcement, port.outbound_enforcement))
        received, sent = (port.counter(f"port_{direction}_constraint_errors") for direction in ("rcv", "xmit"))
        lines.append(f"  enforcement: inbound {inbound}, outbound {outbound}")
        lines.append(f"  constraint errors: received {received}, sent {sent}")
    keys = [f"0x{key:04x}" for key in port.p_keys if key]
    lines.append(f"  P_Keys: {' '.join(keys) or 'none'} (capacity {port.p_key_capacity})")
    return lines


def _class_lines(port: SimPort) -> list[str]:
    """Return a line for each management class with a key of its own at *port*."""
    lines = []
    for mgmt_class, agent in sorted((port.class_agents or {}).items()):
        class_keys.expire(port, agent)
        key_class, state = KEY_CLASS_OF[mgmt_class], KeySettings(bytes(agent.info))
        key = "set (not shown)" if state.key else "none"
        lines.append(
            f"  {key_class.key_name}: {key}, protect bit: {state.protect_bit}, lease: {state.lease_period} s, "
            f"timer {_timer(port, agent.deadline)}, violations: {state.violations}"
        )
    return lines


def _timer(port: SimPort, deadline: float | None) -> str:
    return "stopped" if deadline is None else f"{max(0.0, deadline - port.node.history.now):.3f} s left"


_HEX: Final = {"p_key": 4, "q_key": 8, "method": 2, "attribute": 4}
"""The values of events that are printed in hexadecimal, with the number of digits."""


def event_line(event: SimEvent) -> str:
    """Return an event as one line: time, kind, node and port, then each further value as name=value."""
    words = [f"{event.time:.3f} {event.kind} {event.node} port {event.port}"]
    words += [f"{name}={_detail(name, value)}" for name, value in event.detail.items()]
    return " ".join(words)


def _detail(name: str, value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return f"0x{value:0{_HEX[name]}x}" if name in _HEX else str(value)
