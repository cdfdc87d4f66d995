"""The report on subnet managers: those of the fabric, and the OpenSMs on the hosts that were inspected.

Which OpenSM is which of the fabric's managers follows from its port: the one in its options, else the only port of its
host with an IsSM bit if it is the only OpenSM there. If neither applies, it is not known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ibkeys.errors import HostNotReached
from ibkeys.host.host_files import HostFiles
from ibkeys.managers.host_ports import HostPort, host_ports
from ibkeys.managers.instance import NO_ENTRY, HostEntry, Instance, InstanceFile, describe
from ibkeys.managers.opensm import process as opensm_host
from ibkeys.managers.opensm.on_this_host import is_of_subnet
from ibkeys.managers.opensm.process import OpensmProcess, opensm_processes
from ibkeys.managers.subnet_managers import Manager

_ASKED_FOR: Final = (1 << 64) - 1
"""The value of the option guid with which an OpenSM asks at its terminal which port to use."""


MOST_OPENSMS: Final = 64
"""The most OpenSMs that are examined on another host; each needs about fifty questions."""


@dataclass(frozen=True, slots=True)
class HostReport:
    """One host. ``name``: "" for this one. ``error``: why it could not be examined; "" if it could."""

    name: str
    instances: tuple[Instance, ...] = ()
    ports: tuple[HostPort, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class SmReport:
    """``managers``: those of the fabric; None if it was not queried or did not answer, with the reason in ``error``."""

    managers: tuple[Manager, ...] | None
    hosts: tuple[HostReport, ...]
    error: str = ""

    def instances(self) -> Iterator[Instance]:
        """Yield every OpenSM that was found."""
        return (each for host in self.hosts for each in host.instances)

    @property
    def masters(self) -> tuple[Manager, ...]:
        """The managers whose SMInfo has the state master."""
        return tuple(each for each in self.managers or () if each.is_master)

    def master_instance(self) -> Instance | None:
        """Return the OpenSM that is the one master; None if there is no single master, or its OpenSM is not known."""
        guids = {each.guid for each in self.masters}
        found = [each for each in self.instances() if each.port_guid in guids]
        return found[0] if len(guids) == len(found) == 1 else None


def look_at_host(host: HostFiles, entry: HostEntry = NO_ENTRY, socket: str = "") -> HostReport:
    """Return the OpenSMs of one host and its ports. *socket*: that of the simulator whose subnet is meant, "" for none.

    An error of another host is not raised: if it does not answer, or answers something invalid, the report has the
    reason.
    """
    try:
        found = opensm_processes(opensm_host.PROC, opensm_host.OPENSM_CACHE, host=host)
        if host.name and len(found) > MOST_OPENSMS:
            return HostReport(host.name, error=f"it says that more than {MOST_OPENSMS} OpenSMs run there")
        meant = [each for each in found if is_of_subnet(each, socket) and _is_meant(each, entry)]
        report = HostReport(host.name, tuple(describe(process, host, entry) for process in meant))
        shared = {
            each.process.pid
            for one, other, same in shared_files(report)
            if any(file.role == "dumps" for file in same)
            for each in (one, other)
        }
        instances = (describe(process, host, entry, process.pid in shared) for process in meant)
        return HostReport(host.name, tuple(instances) if shared else report.instances, host_ports(host))
    except HostNotReached as error:
        return not_reached(error)
    except (OSError, ValueError, ArithmeticError):
        if not host.name:
            raise
        return HostReport(host.name, error="its answer is impossible")


def not_reached(error: HostNotReached) -> HostReport:
    """Return the report of a host that does not answer. Its error text leaves out the host's name, with which the text
    of *error* begins."""
    return HostReport(error.host, error=error.why)


def _is_meant(process: OpensmProcess, entry: HostEntry) -> bool:
    return entry.unit is None or process.unit in (entry.unit, f"{entry.unit}.service")


def join(
    managers: Sequence[Manager] | None, hosts: Sequence[HostReport], own_guids: Collection[int] = (), error: str = ""
) -> SmReport:
    """Return the report of fabric and hosts together. *own_guids*: port GUIDs of this host, besides those that its
    kernel shows."""
    states = {each.guid: each.state for each in managers or ()}
    joined = [with_ports(host, states, own_guids if not host.name else ()) for host in hosts]
    return SmReport(tuple(managers) if managers is not None else None, tuple(joined), error)


def with_ports(host: HostReport, states: Mapping[int, str | None], own_guids: Collection[int] = ()) -> HostReport:
    """Return the report of a host with the port of each OpenSM, where it can be concluded. *states*: port GUID → SMInfo
    state of each manager of the fabric. *own_guids*: port GUIDs of the host, besides those that its kernel shows."""
    configured = {each.process.pid: _configured_port(each) for each in host.instances}
    own = {*own_guids, *(port.guid for port in host.ports)}
    candidates = {port.guid for port in host.ports if port.is_sm}
    candidates |= {*states} & own
    candidates -= {guid for guid in configured.values() if guid is not None}
    unconfigured = sum(guid is None for guid in configured.values())
    instances = []
    for instance in host.instances:
        guid = configured[instance.process.pid]
        if guid is None and unconfigured == len(candidates) == 1:
            [guid] = candidates
        if host.ports and guid not in own and "IBSIM_SOCKNAME" not in (instance.process.environment or {}):
            guid = None  # no port of this host, so it is not the manager there, whatever its options are
        state = states.get(guid) if guid is not None else None
        instances.append(replace(instance, port_guid=guid, state=state))
    return replace(host, instances=tuple(instances))


def _configured_port(instance: Instance) -> int | None:
    """Return the port that is set in the options of an OpenSM, if that is certain."""
    setting = instance.options.setting("guid")
    guid = setting.value if setting.is_certain else None
    return guid if isinstance(guid, int) and guid not in (0, _ASKED_FOR) else None


def shared_files(host: HostReport) -> Iterator[tuple[Instance, Instance, tuple[InstanceFile, ...]]]:
    """Yield each pair of OpenSMs of a host that use the same files, with these files as the first one has them."""
    for at, one in enumerate(host.instances):
        for other in host.instances[at + 1 :]:
            same = tuple(
                file for role, file in one.files.items() if role in _SHARED and _is_same(file, other.files[role])
            )
            if same:
                yield one, other, same


_SHARED: Final[frozenset[str]] = frozenset({"options", "policy", "dumps", "cache", "log"})


def _is_same(file: InstanceFile, theirs: InstanceFile) -> bool:
    if file.fact is not None and theirs.fact is not None:
        return file.fact.identity is not None and file.fact.identity == theirs.fact.identity
    is_never_read = file.role == "options" and file.reading == "absent-since-start"
    return file.place is not None and file.place == theirs.place and not is_never_read
