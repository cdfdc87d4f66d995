"""Keys that are known before any port is read: those in OpenSM's guid2mkey, besides those in the key store.

A port that was offline during a rotation keeps its former key. When it returns, OpenSM gives it the new key, and the
key store does not learn of this. Asking the port with the former key would count a violation. OpenSM records in
guid2mkey which ports it gave the key to. Source: opensm osm_lid_mgr.c, osm_db_pack.c; a running OpenSM, observed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import FileError, FileFormatError, Refused, UsageError
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.instance import Instance
from ibkeys.managers.opensm.on_this_host import own_socket
from ibkeys.managers.report import HostReport, assign_ports, report_on_host
from ibkeys.managers.site import ReachedHost, Running
from ibkeys.mkeys.opensm.earlier import key_of_last_run
from ibkeys.mkeys.rollout.beginning import PlannedRun
from ibkeys.mkeys.rollout.found_ports import hides_key
from ibkeys.printable import counted, named
from ibkeys.store.opensm import MKEY_FILE, NEIGHBORS_FILE, parse_m_keys

UNKNOWN: Final = "unknown-keys"
"""``Refused.interlock`` when ports have keys that are not available; nothing overrides it."""


@dataclass(frozen=True, slots=True)
class Guid2MKeyFile:
    """The guid2mkey of an OpenSM on ``host`` ("" for this one), in ``cache``. ``keys``: by port GUID."""

    host: str
    instance: Instance
    cache: Path
    keys: Mapping[int, MKey]

    @property
    def level(self) -> int | None:
        """The ProtectBits that the options of this OpenSM say; None if they are not known."""
        value = self.instance.options.setting("m_key_protection_level").value
        return value if isinstance(value, int) else None

    @property
    def way_in(self) -> str:
        """The command that imports its keys into the key store."""
        conf = self.instance.files["options"].path
        option = f" --opensm-conf {conf}" if conf is not None else ""
        if not self.host:
            return f"`ibkeys keystore import {self.cache}{option}`"
        return (
            f"copy {MKEY_FILE} and {NEIGHBORS_FILE} from {self.cache} on {self.host} into a folder of your own (umask "
            "077), then `ibkeys keystore import FOLDER`"
        )


def read_key_files(reached: Sequence[ReachedHost], own_guid: int) -> list[Guid2MKeyFile]:
    """Return the guid2mkey of each OpenSM of these hosts that has one. *own_guid*: the GUID of the local port.

    Errors of an OpenSM that may belong to another subnet than that port are ignored: if the sweep finds it on this
    subnet, its files are checked again. Raises the errors of `Running.place_of`, FileFormatError, HostNotReached.
    """
    found: list[Guid2MKeyFile] = []
    for each, instance, is_of_this_subnet in _instances(reached, own_guid):
        try:
            found += _key_file(each, instance)
        except (UsageError, FileError, FileFormatError):
            if is_of_this_subnet:
                raise
    return found


def options_files(reached: Sequence[ReachedHost], own_guid: int) -> list[OpensmFile]:
    """Return the options file of each OpenSM of these hosts that belongs to this subnet. Files that cannot be read are
    left out: they are reported when the OpenSMs are found by their ports."""
    found: list[OpensmFile] = []
    for each, instance, is_of_this_subnet in _instances(reached, own_guid):
        if not is_of_this_subnet or instance.files["options"].is_there is False:
            continue
        running = Running(instance, each.machine, None)
        try:
            found.append(OpensmFile.at(each.machine, running.place_of("options")[0], user=0).require())
        except (UsageError, FileError, FileFormatError):
            continue
    return found


def _instances(reached: Sequence[ReachedHost], own_guid: int) -> Iterator[tuple[ReachedHost, Instance, bool]]:
    """Yield each OpenSM of these hosts, and whether it certainly belongs to the subnet of the local port."""
    for each in reached:
        host = report_on_host(each.machine.files, each.host.entry, own_socket())
        host = assign_ports(host, {}, () if host.name else [own_guid])
        for instance in host.instances:
            yield each, instance, not _may_be_of_another_subnet(host, instance, own_guid)


def _may_be_of_another_subnet(host: HostReport, instance: Instance, own_guid: int) -> bool:
    """Return whether an OpenSM may belong to another subnet than the local port: on this host if it uses another port,
    on a host that the user named if it is one of several.
    """
    return len(host.instances) > 1 if host.name else instance.port_guid not in (None, own_guid)


def _key_file(reached: ReachedHost, instance: Instance) -> Iterator[Guid2MKeyFile]:
    """Yield the guid2mkey of an OpenSM, if there is one. Raises as `read_key_files`."""
    _, cache = Running(instance, reached.machine, None).place_of("cache")
    path = cache / MKEY_FILE
    try:
        data = reached.machine.files.read(path, files.LIST)
    except OSError:
        return  # it is not there before the first key; that a file of the master can be read is seen to later
    yield Guid2MKeyFile(reached.machine.name, instance, cache, parse_m_keys(data, str(path)))


def take_keys_that_opensm_gave(writer: ChangeWriter, key_files: Sequence[Guid2MKeyFile]) -> None:
    """Put the key of the last run into the key ring for the ports for which OpenSM has noted it, so that the next sweep
    uses it. Only the key of that run is taken from guid2mkey: OpenSM notes it when it has set it, while another key in
    that file may be older than that of the key store. If two OpenSMs have different keys for a port, one file is old,
    and neither key is taken.
    """
    given, ring = key_of_last_run(writer), writer.fabric.ring
    if given is None:
        return
    for file in key_files:
        for guid, key in file.keys.items():
            is_agreed = all(other.keys.get(guid, key) == key for other in key_files)
            if key == given and guid in ring.by_guid and is_agreed:
                ring.by_guid[guid] = key


def refuse_without_keys(writer: ChangeWriter, key_files: Sequence[Guid2MKeyFile]) -> None:
    """Raise Refused (`UNKNOWN`) if OpenSM has keys and none is available: a sweep would only count violations.

    An OpenSM of another subnet, which does not know the local port, says nothing about this one.
    """
    ring = writer.fabric.ring
    if ring.for_all is not None or not ring.fallback.is_zero or ring.has_keys:
        return
    for file in key_files:
        if file.level != 0 and not file.keys.get(writer.fabric.own_guid, NO_MKEY).is_zero:
            raise Refused(
                f"{file.instance.name} has M_Keys for the subnet, but the key store has none, so no port would answer",
                UNKNOWN,
            ).unchanged(f"first import them: {file.way_in}")


def refuse_hidden_keys(writer: ChangeWriter, run: PlannedRun, key_files: Sequence[Guid2MKeyFile]) -> None:
    """Raise Refused (`UNKNOWN`) if ports at level 1 hide a key that is not available. Their new keys could not be
    proven, and an OpenSM that lacks the key too reports errors at every sweep.
    """
    hidden = [
        port
        for port in run.found.end_ports()
        if port not in run.found.doubtful and (info := port.port_info) is not None and hides_key(writer, info)
    ]
    if not hidden:
        return
    ways = [file.way_in for file in key_files if any(port.port_guid in file.keys for port in hidden)]
    way = f"import what OpenSM has: {ways[0]}" if ways else "`ibkeys mkey-recover` opens them"
    also = "If OpenSM does not know a key either: `ibkeys mkey-recover`." if ways else ""
    hide = "hides" if len(hidden) == 1 else "hide"
    raise Refused(
        f"{counted(len(hidden), 'port')} {hide} an M_Key that is not in the key store: "
        f"{named([str(port) for port in hidden])}",
        UNKNOWN,
    ).unchanged(way, also)
