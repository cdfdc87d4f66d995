"""M_Keys that are known before any port is read: those in OpenSM's guid2mkey, in addition to those in the key store.

A port that was offline during a rotation keeps its former key. When the port returns, OpenSM gives it the new key,
which the key store cannot know. Reading the port with the former key would then count a violation. OpenSM records in
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
from ibkeys.managers.site import ReachedHost, RunningOpensm
from ibkeys.mkeys.opensm.last_run_record import key_of_last_run
from ibkeys.mkeys.rollout.found_ports import hides_key
from ibkeys.mkeys.rollout.planned_run import PlannedRun
from ibkeys.printable import counted, named
from ibkeys.store.opensm import MKEY_FILE, NEIGHBORS_FILE, parse_m_keys

UNKNOWN_KEYS_INTERLOCK: Final = "unknown-keys"
"""The value of `Refused.interlock` if ports have keys that ibkeys does not have; the user cannot override it."""


@dataclass(frozen=True, slots=True)
class Guid2MKeyFile:
    """The guid2mkey of an OpenSM. ``host``: the name of its host, "" for this one; ``cache``: the folder of the file;
    ``keys``: the M_Keys in it, by port GUID."""

    host: str
    instance: Instance
    cache: Path
    keys: Mapping[int, MKey]

    @property
    def level(self) -> int | None:
        """The ProtectBits in the options of this OpenSM; None if they are not known."""
        value = self.instance.options.setting("m_key_protection_level").value
        return value if isinstance(value, int) else None

    @property
    def import_command(self) -> str:
        """How to import the keys of this file into the key store, in words with the command."""
        conf = self.instance.files["options"].path
        option = f" --opensm-conf {conf}" if conf is not None else ""
        if not self.host:
            return f"`ibkeys keystore import {self.cache}{option}`"
        return (
            f"copy {MKEY_FILE} and {NEIGHBORS_FILE} from {self.cache} on {self.host} into a folder of your own (umask "
            "077), then `ibkeys keystore import FOLDER`"
        )


def read_key_files(reached: Sequence[ReachedHost], own_guid: int) -> list[Guid2MKeyFile]:
    """Return the guid2mkey of each OpenSM of these hosts that has one that can be read. *own_guid*: the GUID of the
    local port.

    If an OpenSM may belong to another subnet than the local port, and its file cannot be found or is invalid, it is
    left out: if the sweep finds that OpenSM on this subnet, its files are read again. Raises the errors of
    `RunningOpensm.place_of`, FileFormatError, HostNotReached.
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
    """Return the options file of each OpenSM of these hosts that belongs to this subnet. *own_guid*: the GUID of the
    local port.

    A file that cannot be read is left out here. It is reported later, when the sweep has found the port of its OpenSM.
    """
    found: list[OpensmFile] = []
    for each, instance, is_of_this_subnet in _instances(reached, own_guid):
        if not is_of_this_subnet or instance.files["options"].is_there is False:
            continue
        running = RunningOpensm(instance, each.machine, None)
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
    """Yield the guid2mkey of an OpenSM, if there is one that can be read. Raises as `read_key_files`."""
    _, cache = RunningOpensm(instance, reached.machine, None).place_of("cache")
    path = cache / MKEY_FILE
    try:
        data = reached.machine.files.read(path, files.LIST)
    except OSError:
        return  # the file does not exist before the first key; later the run checks that it can read the master's
    yield Guid2MKeyFile(reached.machine.name, instance, cache, parse_m_keys(data, str(path)))


def take_keys_that_opensm_gave(writer: ChangeWriter, key_files: Sequence[Guid2MKeyFile]) -> None:
    """Put the key of the last run into the key ring for each port of the ring for which guid2mkey has it, so that the
    next sweep reads the port with it.

    Only the key of that run is taken from guid2mkey: OpenSM notes it there when it has set it on a port. Another key in
    that file may be older than the one of the key store. If two OpenSMs have different keys for a port, one of the
    files is old, so neither key is taken. Raises StoreError.
    """
    run_key, ring = key_of_last_run(writer), writer.fabric.ring
    if run_key is None:
        return
    for file in key_files:
        for guid, key in file.keys.items():
            is_agreed = all(other.keys.get(guid, key) == key for other in key_files)
            if key == run_key and guid in ring.by_guid and is_agreed:
                ring.by_guid[guid] = key


def refuse_without_keys(writer: ChangeWriter, key_files: Sequence[Guid2MKeyFile]) -> None:
    """Raise Refused (`UNKNOWN_KEYS_INTERLOCK`) if OpenSM has M_Keys of this subnet and the key ring has none: a sweep
    would only count violations. A guid2mkey without the local port is of another subnet, and is ignored. So is that of
    an OpenSM whose level is 0, where every port answers.
    """
    ring = writer.fabric.ring
    if ring.for_all is not None or not ring.fallback.is_zero or ring.has_keys:
        return
    for file in key_files:
        if file.level != 0 and not file.keys.get(writer.fabric.own_guid, NO_MKEY).is_zero:
            raise Refused(
                f"{file.instance.name} has M_Keys for the subnet, but the key store has none, so no port would answer",
                UNKNOWN_KEYS_INTERLOCK,
            ).unchanged(f"first import them: {file.import_command}")


def refuse_hidden_keys(writer: ChangeWriter, run: PlannedRun, key_files: Sequence[Guid2MKeyFile]) -> None:
    """Raise Refused (`UNKNOWN_KEYS_INTERLOCK`) if ports at level 1 hide a key that is not in the key ring. The new keys
    of such ports could not be proven, and an OpenSM that does not have the key either reports errors at every sweep.
    """
    hidden = [
        port
        for port in run.found.end_ports()
        if port not in run.found.doubtful and (info := port.port_info) is not None and hides_key(writer, info)
    ]
    if not hidden:
        return
    # An import of the keys that were sent already would not help.
    sent = {port.port_guid: writer.fabric.ring.key_of(port.port_guid) for port in hidden}
    imports = [
        file.import_command for file in key_files if any(file.keys.get(guid, key) != key for guid, key in sent.items())
    ]
    repair = "stop every OpenSM, then `ibkeys sm-repair` finds which key of the key store each port has"
    moved = "`ibkeys keystore list --settle` if a port was moved, or "
    advice = f"import the keys that OpenSM has: {imports[0]}" if imports else f"{moved}{repair}"
    more = "If no key of the key store fits: `ibkeys mkey-recover` while no OpenSM runs."
    if imports:
        more = f"If OpenSM does not know a key either: {repair}. {more}"
    hide, its = ("hides", "its") if len(hidden) == 1 else ("hide", "their")
    raise Refused(
        f"{counted(len(hidden), 'port')} {hide} an M_Key that is not {its} current one in the key store: "
        f"{named([str(port) for port in hidden])}",
        UNKNOWN_KEYS_INTERLOCK,
    ).unchanged(advice, more)
