"""The ports of a sweep that a run can change, their present settings, and their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ibkeys.arguments import given
from ibkeys.change.edits import wrong_fields
from ibkeys.change.writer import ChangeWriter
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY
from ibkeys.mad.attributes import PortInfo
from ibkeys.mkeys.key_edit import shown_key
from ibkeys.mkeys.rollout.planned_run import PlannedRun
from ibkeys.mkeys.rollout.port_job import PortJob
from ibkeys.port_text import PortText
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port


def _why_hidden(writer: ChangeWriter, port: Port) -> str:
    why = "it is at level 1 and hides its M_Key, and "
    sources, none = given("-y, --keystore or --security-keys"), given("-y 0")
    known = writer.fabric.ring.by_guid
    if port.port_guid not in known:
        text = f"{why}no known key is the right one: give the key with {sources}, or {none} if it has none"
        if all(key.is_zero for key in known.values()):
            return text
        to_all = given("-y", "m_key=")
        return f"{text}; {to_all} goes to all ports, and those at level 2 or 3 with another key count a violation"
    return (
        f"{why}its known key is not the right one, or was not sent because the port may have moved: `ibkeys keystore "
        f"list --settle` records where ports are now; {sources} give another key, {none} says that it has none"
    )


def candidate_ports(writer: ChangeWriter, found: Topology) -> list[tuple[Port, str]]:
    """Return every end port of the sweep with the reason why a run leaves it alone, in words, "" if there is none."""
    ports = list(found.end_ports())
    guids = Counter(port.port_guid for port in ports if port not in found.doubtful)
    errors = {id(trouble.port): trouble.error for trouble in reversed(found.troubles)}
    listed = []
    for port in ports:
        info = port.port_info
        if port in found.doubtful:
            reason = found.doubtful[port]
        elif info is None:
            reason = PortText.joined("its PortInfo could not be read: ", errors.get(id(port), "no reply"))
        elif not port.port_guid or guids[port.port_guid] > 1:
            reason = "its port GUID belongs to another port too, and keys are stored by port GUID"
        elif hides_key(writer, info):
            reason = _why_hidden(writer, port)
        else:
            reason = ""
        listed.append((port, reason))
    return listed


def hides_key(writer: ChangeWriter, info: PortInfo) -> bool:
    """Return whether a port with this PortInfo hides a key that is not known. False if the user said (``-y 0``) that no
    port has a key."""
    return shown_key(info) is None and writer.fabric.ring.for_all != NO_MKEY


def reachable_ports(writer: ChangeWriter, found: Topology) -> dict[int, tuple[Port, str]]:
    """Return a mapping from the GUID of every end port of the sweep to the port, and the reason why a run leaves it
    alone, "" if there is none."""
    return {port.port_guid: (port, reason) for port, reason in candidate_ports(writer, found)}


def ports_without_neighbour(found: Topology) -> list[tuple[Port, str]]:
    """Return the ports whose neighbour does not answer, each with the error. The neighbour may be a node whose key is
    not known."""
    troubles = {id(trouble.port): trouble for trouble in found.troubles if _leads_nowhere(trouble.port)}
    return [(each.port, each.error) for each in troubles.values()]


def _leads_nowhere(port: Port) -> bool:
    """Return whether a port at which the sweep had trouble should have a neighbour, and none was found."""
    if port.peer is not None:
        return False
    return not port.is_end_port or (port.path == () and port.is_linked)


def present_setting(info: PortInfo) -> KeySetting:
    """Return the key, level and lease in PortInfo. If the key may be hidden, key 0 is returned."""
    return KeySetting(shown_key(info) or NO_MKEY, info.m_key_protect_bits, info.m_key_lease_period)


def has_wanted_setting(job: PortJob) -> bool:
    """Return whether a port already has its wanted setting."""
    return job.keeps_key and not wrong_fields(job.shown, job.wanted.fields())


def put_in_stages(writer: ChangeWriter, run: PlannedRun, jobs: Iterable[PortJob]) -> None:
    """Sort *jobs* into the stages of *run*: first all other ports, then the ports of SMs, then the local port. So local
    tools that do not have the new keys work as long as possible, and the run can be rolled back.
    """
    own = writer.fabric.own_guid
    stages: list[list[PortJob]] = [[], [], []]
    for job in jobs:
        stages[2 if job.port.port_guid == own else 1 if job.port.is_sm else 0].append(job)
    run.stages = stages
