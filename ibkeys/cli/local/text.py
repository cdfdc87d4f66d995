"""The text of `host-show`."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ibkeys.cli.documents.field import NOTHING
from ibkeys.cli.exits import clean, write
from ibkeys.cli.render import UNREADABLE, heading_of, write_table
from ibkeys.grouping import grouped
from ibkeys.printable import counted

if TYPE_CHECKING:
    from ibkeys.host.kernel.interfaces import Interface
    from ibkeys.host.kernel.ports import KernelPort
    from ibkeys.host.kernel.programs import JobScriptLine
    from ibkeys.host.kernel.selinux import SelinuxPolicy
    from ibkeys.host.kernel.view import HostView

_INDENT: Final = "  "
_PLAIN_NAME: Final = re.compile("[A-Za-z0-9._-]+")


def write_text(
    view: HostView, ports: Sequence[KernelPort], settings: Sequence[JobScriptLine], partition: int | None, folded: bool
) -> None:
    """Write each port with its table, then interfaces, settings for jobs, and a note about SELinux.

    *partition*: the 15 bits of --partition; None without it. *folded*: ports with the same contents are written once.
    """
    for group in grouped(ports, _content).values() if folded else [[port] for port in ports]:
        _write_port(group, view, partition)
        write("")
    if view.interfaces:
        _write_interfaces(view.interfaces)
        write("")
    _write_settings(settings, partition)
    for line in _selinux(view.selinux):
        write(line)


def _content(port: KernelPort) -> Hashable:
    """Return all facts about a port that are written, except the name of its device."""
    own = port.num, port.subnet_prefix, port.link_layer, port.state, port.p_keys, port.virtual, port.mapped
    return *own, *port.counters.values(), port.violations


def _write_port(group: Sequence[KernelPort], view: HostView, partition: int | None) -> None:
    port = group[0]
    if len(group) == 1:
        write(clean(f"{port.device}: {heading_of(port.id.to_json())}"))
    else:
        write(clean(f"{counted(len(group), 'port')}: {_folded([each.device for each in group])} port {port.num}"))
    write(clean(f"{_INDENT}{_link(port)}; {_function(port)}"))
    if port.occupied is None:
        write(f"{_INDENT}P_Key table not read")
        return
    write(f"{_INDENT}{len(port.occupied)} of {port.capacity} P_Key entries in use")
    if port.occupied:
        taken = _users_by_index(group, view.interfaces, partition)
        types = {index: view.selinux.type_of(port.subnet_prefix, key) for index, key in port.occupied}
        labelled = view.selinux.labels is not None
        rows = [
            [
                index,
                str(key),
                f"0x{key.partition:04x}",
                key.membership,
                *([types[index] or NOTHING] if labelled else []),
                ", ".join(taken.get(index, [])) or NOTHING,
            ]
            for index, key in port.occupied
        ]
        titles = ["Index", "P_Key", "Partition", "Membership", *(["SELinux"] if labelled else []), "Taken by"]
        write_table(titles, rows)
    if port.is_infiniband:
        for line in _programs_without_entry(port, partition):
            write(clean(f"{_INDENT}{line}"))
    counters = ", ".join(_counters(port))
    if counters:
        write(f"{_INDENT}{counters}")
    for function in port.mapped:
        keys = " ".join(
            f"{each.index}:{NOTHING if each.physical is None else each.p_key or UNREADABLE}"
            for each in function.entries
            if each.p_key is None or each.p_key.is_valid
        )
        write(clean(f"{_INDENT}function {function.pci} sees (index:P_Key): {keys or 'none'}"))


def _counters(port: KernelPort) -> Iterator[str]:
    """Yield each counter that was read, by its IBA name."""
    from ibkeys.mad.attributes import PortInfo
    from ibkeys.mad.performance import PortCounters

    rows = {**PortInfo.rows, **PortCounters.rows}
    violations = {"p_key_violations": port.violations.p_key, "q_key_violations": port.violations.q_key}
    for name, value in {**violations, **port.counters}.items():
        if value is not None:
            yield f"{rows[name].name} {value}"


def _folded(names: Sequence[str]) -> str:
    """Return names as one folded set, or as a list if a name has characters that a set cannot hold."""
    from ibkeys.topology.names.sets import fold

    if all(_PLAIN_NAME.fullmatch(name) for name in names):
        return fold(names)
    return ", ".join(map(clean, names))


def _link(port: KernelPort) -> str:
    parts = [port.link_layer or "link layer not read", port.state_name or "state not read"]
    if port.link_layer is not None and not port.is_infiniband:
        return f"{', '.join(parts)}: not InfiniBand, so its P_Keys are not partitions of a subnet"
    return ", ".join(parts)


def _function(port: KernelPort) -> str:
    words = {True: "a virtual function", False: "no virtual function", None: "virtual function or not is not known"}
    return f"{words[port.virtual.is_virtual]} ({port.virtual.reason})"


def _users_by_index(
    group: Sequence[KernelPort], interfaces: Iterable[Interface], partition: int | None
) -> dict[int, list[str]]:
    """Return the names of the programs and IPoIB interfaces that use each index of the P_Key table."""
    from ibkeys.host.kernel.programs import choose_entries

    users: dict[int, list[str]] = {}
    if not group[0].is_infiniband:
        return users
    for choice in choose_entries(group[0].p_keys, partition):
        if choice.index is not None:
            users.setdefault(choice.index, []).append(choice.program.name)
    interfaces_by_index = grouped((each for each in interfaces if each.port in group), lambda each: each.index)
    for index, same in interfaces_by_index.items():
        if index is not None:
            users.setdefault(index, []).append(_folded([each.name for each in same]))
    return users


def _programs_without_entry(port: KernelPort, partition: int | None) -> Iterator[str]:
    from ibkeys.host.kernel.programs import choose_entries

    for choice in choose_entries(port.p_keys, partition):
        if choice.reason is not None:
            yield f"{choice.program.name}: none: {choice.reason}"


def _write_interfaces(interfaces: Sequence[Interface]) -> None:
    rows = [
        [
            each.name,
            each.parent or NOTHING,
            None if each.p_key is None else str(each.p_key),
            NOTHING if each.port is None else str(each.port),
            NOTHING if each.index is None else each.index,
            each.mode,
            _state(each),
        ]
        for each in interfaces
    ]
    write_table(["IPoIB", "Parent", "P_Key", "Port", "Index", "Mode", "State"], rows)
    for each in interfaces:
        if each.problem is not None:
            write(clean(f"{_INDENT}{each.name}: {each.problem}"))


def _state(interface: Interface) -> str:
    if interface.is_up is None:
        return UNREADABLE
    if not interface.is_up:
        return "down"
    return {True: "running", False: "up", None: f"up, running {UNREADABLE}"}[interface.is_running]


def _write_settings(settings: Sequence[JobScriptLine], partition: int | None) -> None:
    if not any(setting.choices for setting in settings):
        write("no InfiniBand port is active, so there is nothing for a job to set")
        return
    title = "P_Keys that programs take by default"
    if partition is not None:
        title = f"Settings for a job in partition 0x{partition:04x}"
    write(f"{title} (-f env prints them for a job script):")
    for setting in settings:
        limited = " (a limited member: it reaches full members only)" if setting.is_limited else ""
        older = f" ({setting.older_versions})" if setting.older_versions is not None else ""
        value = f"{setting.program.variable}={setting.value}{limited}{older}"
        what = value if setting.value is not None else setting.reason
        write(clean(f"{_INDENT}{setting.program.name}: {what}"), hang=len(_INDENT) * 2)


def _selinux(policy: SelinuxPolicy) -> Iterator[str]:
    if policy.can_refuse:
        yield (
            "SELinux enforces a policy that can refuse P_Keys or SMPs: an error EACCES may come from it; root sees the "
            f"labels{' of ports' if policy.labels is not None else ' here, and'} with semanage ibendport -l"
        )
    elif policy.mode is None:
        yield "whether SELinux decides could not be read"
