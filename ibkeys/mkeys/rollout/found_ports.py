"""The ports of a sweep that a run can change, their current settings, and their order."""

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
from ibkeys.mkeys.rollout.beginning import PlannedRun
from ibkeys.mkeys.rollout.port_job import PortJob
from ibkeys.port_text import PortText
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port


def _why_hidden(is_known: bool) -> str:
    why = "it is at level 1 and hides its M_Key, and "
    sources, none = given("-y, --keystore or --security-keys"), given("-y 0")
    if not is_known:
        return f"{why}no known key is the right one: give the key with {sources}, or {none} if it has none"
    return (
        f"{why}its known key is not the right one, or was not sent because the port may have moved: `ibkeys keystore "
        f"list --settle` records where ports are now; {sources} give another key, {none} says that it has none"
    )


def candidates(writer: ChangeWriter, found: Topology) -> list[tuple[Port, str]]:
    """Return every end port with the reason why a run leaves it alone, "" if there is none."""
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
            reason = _why_hidden(port.port_guid in writer.fabric.ring.by_guid)
        else:
            reason = ""
        listed.append((port, reason))
    return listed


def hides_key(writer: ChangeWriter, info: PortInfo) -> bool:
    """Return whether a port hides a key that is not known; False if the user said that no port has a key."""
    return shown_key(info) is None and writer.fabric.ring.for_all != NO_MKEY


def reachable_ports(writer: ChangeWriter, found: Topology) -> dict[int, tuple[Port, str]]:
    """Return every end port by its GUID, with the reason why a run leaves it alone, "" if there is none."""
    return {port.port_guid: (port, reason) for port, reason in candidates(writer, found)}


def nothing_behind(found: Topology) -> list[tuple[Port, str]]:
    """Return the ports behind which a node does not answer, each with the error: it may be a node whose key is not
    known."""
    troubles = {id(trouble.port): trouble for trouble in found.troubles if _leads_nowhere(trouble.port)}
    return [(each.port, each.error) for each in troubles.values()]


def _leads_nowhere(port: Port) -> bool:
    """Return whether a port that the sweep had trouble with should have a peer, and has none."""
    if port.peer is not None:
        return False
    return not port.is_end_port or (port.path == () and port.is_linked)


def has_now(info: PortInfo) -> KeySetting:
    """Return key, level and lease in PortInfo; a key that may be hidden counts as none."""
    return KeySetting(shown_key(info) or NO_MKEY, info.m_key_protect_bits, info.m_key_lease_period)


def has_it_already(job: PortJob) -> bool:
    """Return whether a port already has its wanted setting."""
    return job.keeps_key and not wrong_fields(job.shown, job.wanted.fields())


def put_in_stages(writer: ChangeWriter, run: PlannedRun, jobs: Iterable[PortJob]) -> None:
    """Sort *jobs* into stages: all other ports, then those of the SMs, the local port last. So local tools without the
    new keys work as long as possible, and so does the rollback.
    """
    own = writer.fabric.own_guid
    stages: list[list[PortJob]] = [[], [], []]
    for job in jobs:
        stages[2 if job.port.port_guid == own else 1 if job.port.is_sm else 0].append(job)
    run.stages = stages
