"""The errors of requests that failed, whose messages name method, attribute, destination and outcome."""

from __future__ import annotations

from typing import Final

from ibkeys.client.request import Failure, Request
from ibkeys.client.scheduler import NO_ROOM
from ibkeys.errors import IbkeysError, MadStatusError, NoReply, SendRefused
from ibkeys.mad import offsets as at
from ibkeys.mad.classes.gmp import KEY_CLASS_OF
from ibkeys.mad.const import MAD_SIZE, Method, MgmtClass, describe_status, method_name
from ibkeys.mad.decode import attribute_name
from ibkeys.mad.performance import PortCounters
from ibkeys.mad.sa import SA_HEADER_SIZE, SaHeader
from ibkeys.mad.smp import DATA_OFFSET, DirectedRouteSmp, Mad
from ibkeys.port_text import PortText
from ibkeys.printable import counted

_CLASS_WORDS: Final = {
    int(MgmtClass.SUBN_LID_ROUTED): "Subn",
    int(MgmtClass.SUBN_DIRECTED_ROUTE): "Subn",
    int(MgmtClass.PERF_MGMT): "Performance",
    int(MgmtClass.SUBN_ADM): "SubnAdm",
    **{mgmt_class: of.words for mgmt_class, of in KEY_CLASS_OF.items()},
}


def describe_request(request: Request, part: int = 0, outcome: str = "") -> PortText:
    """Return the description of one part of a request, like ``SubnGet(P_KeyTable, modifier 0x1) to route 0,1,4``,
    followed by *outcome*. No key is in it.

    Texts of several requests can be joined to one: their common part is ``SubnGet(P_KeyTable)`` and *outcome*.
    """
    mad = Mad(request.mad_of(part))
    attribute, mgmt_class = mad.attribute_id, mad.mgmt_class
    name = attribute_name(attribute, mgmt_class) or f"attribute 0x{attribute:04x}"
    destination = f"LID {request.envelope.lid}"
    if mgmt_class == MgmtClass.SUBN_DIRECTED_ROUTE:
        destination = "route " + ",".join(map(str, DirectedRouteSmp(mad.raw).initial_path))
    modifier = f"modifier 0x{mad.attribute_modifier:x}"
    if mgmt_class == MgmtClass.PERF_MGMT:
        modifier = f"port {PortCounters.port_select.decode(mad.raw[DATA_OFFSET:])}"
    elif mgmt_class == MgmtClass.SUBN_ADM:
        modifier = f"ComponentMask 0x{SaHeader(mad.raw[:SA_HEADER_SIZE]).component_mask:x}"
    call = f"{_CLASS_WORDS.get(mgmt_class, '')}{method_name(mad.method)}({name}"
    return PortText(f"{call}, {modifier}) to {destination}{outcome}", f"{call}){outcome}")


def status_error(request: Request, part: int, reply: bytes) -> MadStatusError:
    """Return the error for an answer to one part of a request whose Status is not 0."""
    status = Mad(reply.ljust(MAD_SIZE, b"\0")).status
    hint = "; the agent may have applied part of it: read it again" if request.envelope.method == Method.SET else ""
    return MadStatusError(describe_request(request, part, f": status {describe_status(status)}{hint}"), status)


def failure_error(request: Request, part: int, failure: Failure) -> IbkeysError:
    """Return the error for one part of a request that has no reply: SendRefused if the kernel did not send it, else
    NoReply. *failure*: not one of a limit, for which `SmpClient` raises LimitReached."""
    if failure.errno in NO_ROOM:
        text = f": the device had no room for it (errno {failure.errno}) in all attempts"
        return SendRefused(describe_request(request, part, text), failure.errno)
    if failure.errno:
        who = ": the kernel refused to send it"
        cause = "the route does not start on this port, or the address is not valid"
        if request.mad[at.MGMT_CLASS] == MgmtClass.SUBN_DIRECTED_ROUTE and not request.mad[at.HOP_COUNT]:
            who = " (the local port): the local driver refused it"
            cause = "a wrong M_Key, or an attribute that it does not support"
        text = f"{who} (errno {failure.errno}): {cause}"
        return SendRefused(describe_request(request, part, text), failure.errno)
    if failure.silent and not failure.attempts:
        text = ": not sent, because the node did not answer before"
        return NoReply(describe_request(request, part, text), 0, request.envelope.timeout)
    timeout = request.envelope.timeout
    attempts = f"{counted(failure.attempts, 'attempt')} of {timeout * 1000:.0f} ms"
    cause, more = "a wrong M_Key", "A port that refuses an M_Key does not answer, just like one that does not exist."
    if not request.envelope.is_smp:
        index = request.envelope.pkey_index
        cause, more = (
            "no P_Key in common",
            f"A port drops requests whose P_Key it does not have: this port uses its P_Key index {index}.",
        )
    text = f": no reply after {attempts} (no such node, a dead link, or {cause})"
    return NoReply(describe_request(request, part, text), failure.attempts, timeout).explained(more)
