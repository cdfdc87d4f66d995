"""OpenSMs whose options files are to be changed while they run: which file, whether it is read, whether it can be
replaced; and SMs that are on no host that was reached, which stop every such change.

Source: opensm osm_subnet.c (osm_subn_parse_conf_file, osm_subn_rescan_conf_files); facts of a running OpenSM, observed.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ibkeys.errors import FileError, Refused
from ibkeys.host.replacing.seen import SeenFile
from ibkeys.sm.hands.sm_hands import SmHands
from ibkeys.sm.managers import Manager
from ibkeys.sm.options import Setting
from ibkeys.sm.report import HostReport
from ibkeys.sm.site import Running
from ibkeys.sm.starting import command_to_start


@dataclass(slots=True)
class SmConf:
    """One OpenSM with its options file. ``path``: as its host names it; ``seen``: as it was last seen; ``options``:
    what it works with, as far as it was asked for."""

    running: Running
    path: Path
    seen: SeenFile
    options: Mapping[str, Setting]

    @property
    def hands(self) -> SmHands:
        """The hands on its host."""
        return self.running.hands

    @property
    def name(self) -> str:
        """The OpenSM, in words."""
        return self.running.instance.name

    @property
    def conf_name(self) -> str:
        """Its options file, with the host."""
        return f"{self.seen.path} on {self.hands.name}" if self.hands.name else str(self.seen.path)

    @property
    def key(self) -> tuple[str, str]:
        """Host and real path of the file: what the journal knows it by."""
        return self.hands.name, str(self.seen.path)


def look_at_conf(running: Running, options: Iterable[str], what_for: str, interlock: str) -> tuple[SmConf, list[str]]:
    """Return an OpenSM with its options file, and notes on what is not certain. *what_for*: what depends on *options*.

    Raises Refused (*interlock*) for a file that is not there, and (``file``, ``signal``) where it cannot be replaced or
    the OpenSM not be told; UsageError where an option is not known, FileError where the file is not to be reached, and
    HostNotReached.
    """
    instance, hands = running.instance, running.hands
    file = instance.files["options"]
    if file.is_there is False:
        raise Refused(_no_options_file(running), interlock)
    settings, notes = running.settings(options, what_for)
    path, _ = running.place_of("options")
    seen = hands.look(path)
    if seen.data is None:
        raise FileError(f"{path}: is not there any more")
    conf = SmConf(running, path, seen, settings)
    rights = rights_of(running, seen)
    for reason, name in ((hands.hindrance(seen, rights), "file"), (hands.may_signal(instance.process), "signal")):
        if reason is not None:
            raise Refused(f"{conf.name}: {reason}; nothing was changed", name)
    if file.doubt:
        notes.append(f"{conf.conf_name}: {file.doubt}")
    return conf, notes


def rights_of(running: Running, seen: SeenFile) -> int | None:
    """Return the permission bits for an options file with keys: the owner's alone, where its OpenSM can still read it
    then. None: as they are, for they are so already, or what else lets OpenSM read the file is not known."""
    if seen.found is None:
        return stat.S_IRUSR | stat.S_IWUSR
    metadata = seen.found.metadata
    if not metadata.mode & (stat.S_IRWXG | stat.S_IRWXO):
        return None
    try:
        user = running.hands.files.stat(running.instance.process.folder).uid
    except OSError:
        return None
    return metadata.mode & stat.S_IRWXU if user in (0, metadata.uid) else None


def _no_options_file(running: Running) -> str:
    instance = running.instance
    path = instance.files["options"].path
    words = command_to_start(instance, ["-c", str(path)])
    return (
        f"{instance.name} has no options file ({path}), and one that was not there when OpenSM started is never read: "
        f"make it, and restart that OpenSM once: (umask 077; {words}); nothing was changed"
    )


def refuse_strangers(
    managers: Iterable[tuple[Manager, Running | None]], hosts: Iterable[HostReport], would: str, interlock: str
) -> None:
    """Raise Refused (*interlock*) for an SM of the fabric that is on no host that was reached. *would*: what it would
    do, in words."""
    strangers = [_stranger(manager) for manager, running in managers if running is None]
    silent = [f"host {host.name}: {host.error}" for host in hosts if host.error]
    if strangers:
        raise Refused(
            f"{'; '.join([*strangers, *silent])}: {would}, so every SM must be on a host that is reached (--sm-host "
            "HOST), or be stopped for good; nothing was changed",
            interlock,
        )


def _stranger(manager: Manager) -> str:
    state = manager.state or "IsSM is set, SMInfo not answered"
    return f"the SM at {manager.port} ({state}) is on no host that was looked at"
