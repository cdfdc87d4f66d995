"""The performance management agent of every node (IBA 16.1): PortCounters, PortCountersExtended, ClassPortInfo.

No M_Key protects it, because M_Keys are for SMPs. A real port compares the P_Key of a GMP with its table; here any GMP
is accepted, because ibsim's protocol does not carry the sender's P_Key. Of the traffic only data packets
(`Subnet.packet`) are counted, not MADs; errors are always counted.
"""

from __future__ import annotations

from typing import Final

from ibkeys.mad.attributes import ClassPortInfo
from ibkeys.mad.const import MadStatus, Method
from ibkeys.mad.performance import (
    CLASS_PORT_INFO,
    DATA_OFFSET,
    EXTENDED_WIDTH,
    PORT_COUNTERS,
    PORT_COUNTERS_EXTENDED,
    SELECTED,
    SELECTED_EXTENDED,
    XMIT_WAIT,
    PortCounters,
    PortCountersExtended,
)
from ibkeys.mad.smp import Mad
from ibkeys.sim.nodes import SimNode, SimPort

DATA_SIZE: Final = 192
_NOTHING: Final = bytes(DATA_SIZE)
# The capabilities that ibsim shows. RespTimeValue 18 means one second.
_CLASS_PORT_INFO: Final = ClassPortInfo.new(
    base_version=1, class_version=1, capability_mask=EXTENDED_WIDTH | XMIT_WAIT, resp_time_value=18
).raw.ljust(DATA_SIZE, b"\0")

PmaAnswer = tuple[int, bytes]


def answer(node: SimNode, mad: bytes) -> PmaAnswer:
    """Return the status and the 192 bytes of data with which the agent of *node* answers *mad*."""
    request = Mad(mad)
    attribute, method = request.attribute_id, request.method
    data = mad[DATA_OFFSET:]
    if request.class_version != 1:
        return MadStatus.BAD_VERSION, data
    if method not in (Method.GET, Method.SET):
        return MadStatus.METHOD_NOT_SUPPORTED, data
    if attribute == CLASS_PORT_INFO and method == Method.GET:
        return MadStatus.OK, _CLASS_PORT_INFO
    if attribute not in (PORT_COUNTERS, PORT_COUNTERS_EXTENDED):
        return MadStatus.METHOD_ATTRIBUTE_NOT_SUPPORTED, data
    number = PortCounters.port_select.decode(data)
    if request.attribute_modifier or not (0 if node.is_switch else 1) <= number <= node.num_ports:
        return MadStatus.INVALID_FIELD, _NOTHING  # AllPortSelect (255) is not supported, as in ibsim.
    port = node.ports[number]
    extended = attribute == PORT_COUNTERS_EXTENDED
    if method == Method.SET:
        _clear(port, data, extended)
    return MadStatus.OK, _port_counters(port, extended)


def _clear(port: SimPort, data: bytes, extended: bool) -> None:
    """Clear the counters whose bits are set in CounterSelect and CounterSelect2. The values in the Set are ignored, as
    in the Linux qib PMA."""
    counters = port.counters
    if counters is None:
        return
    select = PortCounters.counter_select.decode(data)
    if extended:
        layout, names, buffer = PortCountersExtended, SELECTED_EXTENDED, counters.extended
    else:
        layout, names, buffer = PortCounters, SELECTED, counters.basic  # type: ignore[assignment]
        select |= PortCounters.counter_select2.decode(data) << PortCounters.counter_select.width
    for bit, name in enumerate(names):
        if select >> bit & 1:
            layout.rows[name].patch(buffer, 0)
    port.touch()
    port.node.history.changes += 1


def _port_counters(port: SimPort, extended: bool) -> bytes:
    if port.counters is None:
        answered = bytearray(DATA_SIZE)
    else:
        answered = bytearray((port.counters.extended if extended else port.counters.basic).ljust(DATA_SIZE, b"\0"))
    PortCounters.port_select.patch(answered, port.number)  # PortSelect is at the same offset in both attributes.
    return bytes(answered)
