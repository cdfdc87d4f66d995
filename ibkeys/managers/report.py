"""The report on subnet managers: the SMs of the fabric, and the OpenSMs on the hosts that were examined.

The port of an OpenSM shows which of the fabric's SMs it is. Its port is the one in its option guid. Without that
option, it is the only port of the host with an IsSM bit, if only one OpenSM of the host lacks the option. Otherwise it
is not known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ibkeys.errors import HostNotReached
from ibkeys.host.host_files import HostFiles
from ibkeys.managers.host_ports import HostInfinibandPort, host_ports
from ibkeys.managers.instance import NO_ENTRY, HostEntry, Instance, InstanceFile, read_instance
from ibkeys.managers.opensm import process as opensm_host
from ibkeys.managers.opensm.on_this_host import is_of_subnet
from ibkeys.managers.opensm.process import OpensmProcess, opensm_processes
from ibkeys.managers.subnet_managers import Manager

_ASK_AT_TERMINAL: Final = (1 << 64) - 1
"""The value of the option guid with which an OpenSM asks at its terminal which port to use."""


MOST_OPENSMS: Final = 64
"""The most OpenSMs that are examined on another host; each needs about fifty questions to the host."""


@dataclass(frozen=True, slots=True)
class HostReport:
    """The OpenSMs and InfiniBand ports of one host. ``name``: "" for this host. ``error``: why the host could not be
    examined; "" if it could."""

    name: str
    instances: tuple[Instance, ...] = ()
    ports: tuple[HostInfinibandPort, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class SmReport:
    """The SMs of the fabric and the OpenSMs on hosts. ``managers``: None if the fabric was not queried or did not
    answer; ``error`` then has the reason, "" if it was not queried."""

    managers: tuple[Manager, ...] | None
    hosts: tuple[HostReport, ...]
    error: str = ""

    def instances(self) -> Iterator[Instance]:
        """Yield every OpenSM that was found, of all hosts."""
        return (each for host in self.hosts for each in host.instances)

    @property
    def masters(self) -> tuple[Manager, ...]:
        """The managers whose SMInfo has the state master."""
        return tuple(each for each in self.managers or () if each.is_master)

    def master_instance(self) -> Instance | None:
        """Return the OpenSM that is the master; None if there is not exactly one master, or not exactly one OpenSM at
        its port."""
        guids = {each.guid for each in self.masters}
        found = [each for each in self.instances() if each.port_guid in guids]
        return found[0] if len(guids) == len(found) == 1 else None


def report_on_host(host: HostFiles, entry: HostEntry = NO_ENTRY, socket: str = "") -> HostReport:
    """Return the report on one host: its OpenSMs and its ports. *entry*: its entry in ``sm.toml``. *socket*: the socket
    of the simulator whose subnet is meant, "" for a real subnet.

    If another host does not answer, its answer is invalid, or more than `MOST_OPENSMS` OpenSMs seem to run there, the
    report has the reason, and nothing is raised.
    """
    try:
        found = opensm_processes(opensm_host.PROC, opensm_host.OPENSM_CACHE, host=host)
        if host.name and len(found) > MOST_OPENSMS:
            return HostReport(host.name, error=f"more than {MOST_OPENSMS} OpenSMs seem to run there")
        selected = [each for each in found if is_of_subnet(each, socket) and _is_selected(each, entry)]
        report = HostReport(host.name, tuple(read_instance(process, host, entry) for process in selected))
        shared = {
            each.process.pid
            for one, other, same in shared_files(report)
            if any(file.role == "dumps" for file in same)
            for each in (one, other)
        }
        instances = (read_instance(process, host, entry, process.pid in shared) for process in selected)
        return HostReport(host.name, tuple(instances) if shared else report.instances, host_ports(host))
    except HostNotReached as error:
        return report_not_reached(error)
    except (OSError, ValueError, ArithmeticError):
        if not host.name:
            raise
        return HostReport(host.name, error="its answer is impossible")


def report_not_reached(error: HostNotReached) -> HostReport:
    """Return the report on a host that did not answer. Its error text is that of *error* without the host's name."""
    return HostReport(error.host, error=error.why)


def _is_selected(process: OpensmProcess, entry: HostEntry) -> bool:
    return entry.unit is None or process.unit in (entry.unit, f"{entry.unit}.service")


def join_reports(
    managers: Sequence[Manager] | None, hosts: Sequence[HostReport], own_guids: Collection[int] = (), error: str = ""
) -> SmReport:
    """Return one report on the fabric's *managers* and on *hosts*, with the port of each OpenSM where it is known.
    *own_guids*: port GUIDs of this host, besides those that its kernel shows. *error*: why *managers* is None."""
    states = {each.guid: each.state for each in managers or ()}
    joined = [assign_ports(host, states, own_guids if not host.name else ()) for host in hosts]
    return SmReport(tuple(managers) if managers is not None else None, tuple(joined), error)


def assign_ports(host: HostReport, states: Mapping[int, str | None], own_guids: Collection[int] = ()) -> HostReport:
    """Return the report on a host with the port and SMInfo state of each OpenSM, where they are known. *states*: port
    GUID → SMInfo state, for each SM of the fabric. *own_guids*: port GUIDs of the host, besides those that its kernel
    shows."""
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
            guid = None  # the option names a port of another host, so this OpenSM is not the SM at that port
        state = states.get(guid) if guid is not None else None
        instances.append(replace(instance, port_guid=guid, state=state))
    return replace(host, instances=tuple(instances))


def _configured_port(instance: Instance) -> int | None:
    """Return the port GUID that is set in the options of an OpenSM; None if none is set or it is not certain."""
    setting = instance.options.setting("guid")
    guid = setting.value if setting.is_certain else None
    return guid if isinstance(guid, int) and guid not in (0, _ASK_AT_TERMINAL) else None


def shared_files(host: HostReport) -> Iterator[tuple[Instance, Instance, tuple[InstanceFile, ...]]]:
    """Yield each pair of OpenSMs of a host that use the same files, with these files of the first OpenSM."""
    for at, one in enumerate(host.instances):
        for other in host.instances[at + 1 :]:
            same = tuple(
                file for role, file in one.files.items() if role in _SHARED and _is_same(file, other.files[role])
            )
            if same:
                yield one, other, same


_SHARED: Final[frozenset[str]] = frozenset({"options", "policy", "dumps", "cache", "log"})


def _is_same(file: InstanceFile, other: InstanceFile) -> bool:
    if file.fact is not None and other.fact is not None:
        return file.fact.identity is not None and file.fact.identity == other.fact.identity
    is_never_read = file.role == "options" and file.reading == "absent-since-start"
    return file.place is not None and file.place == other.place and not is_never_read
