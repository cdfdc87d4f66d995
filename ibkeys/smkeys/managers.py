"""The OpenSMs that a change of sm_key and sa_key goes through: every SM of the fabric, each with its options file.

One that is not reached would go on with the former sm_key. It ignores the others then, and they ignore it: after its
polling time there are two masters. Source: opensm osm_sminfo_rcv.c, osm_sm_state_mgr.c; a running OpenSM, observed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from ibkeys.change.writer import Writer
from ibkeys.errors import Refused, UsageError
from ibkeys.host.opensm_options import read_options
from ibkeys.host.replacing.seen import SeenFile
from ibkeys.keys.mkey import MKey
from ibkeys.keys.smkey import SMKey
from ibkeys.printable import named
from ibkeys.sm.conf_of_sm import SmConf, look_at_conf, refuse_strangers
from ibkeys.sm.hands.sm_hands import SmHands
from ibkeys.sm.managers import Manager, managers_of
from ibkeys.sm.options import Setting
from ibkeys.sm.site import MASTER, Reached, Running, find_master, look_around, taking_part
from ibkeys.topology.model import Topology

Kind = Literal["sm_key", "sa_key"]
KINDS: Final[tuple[Kind, ...]] = ("sm_key", "sa_key")
DEFAULT: Final = SMKey(1)
"""OpenSM's default of both."""
REFUSAL: Final = "opensm-keys"
"""What `Refused.interlock` is where the change would leave the SMs without a common key; nothing overrides that."""
_POLLING: Final = ("polling_retry_number", "sminfo_polling_timeout")
_OPTIONS: Final = (*KINDS, *_POLLING, "m_key", "daemon")


@dataclass(slots=True)
class KeyFile:
    """One options file, and the OpenSMs that read it. ``confs``: at least one."""

    confs: list[SmConf]

    @property
    def seen(self) -> SeenFile:
        """The file as it was last seen."""
        return self.confs[0].seen

    @seen.setter
    def seen(self, seen: SeenFile) -> None:
        for conf in self.confs:
            conf.seen = seen

    @property
    def hands(self) -> SmHands:
        """The hands on its host."""
        return self.confs[0].hands

    @property
    def name(self) -> str:
        """The file, with its host."""
        return self.confs[0].conf_name

    @property
    def keys(self) -> dict[Kind, SMKey]:
        """Return the keys that it says now."""
        return keys_in(self.seen.data or b"")


def keys_in(data: bytes) -> dict[Kind, SMKey]:
    """Return sm_key and sa_key that an OpenSM has that starts with the options file *data*."""
    options = read_options(data)
    found: dict[Kind, SMKey] = {}
    for kind in KINDS:
        value = options.value(kind)
        assert isinstance(value, MKey)
        found[kind] = SMKey(value.reveal())
    return found


@dataclass(slots=True)
class KeyManagers:
    """All SMs of the fabric. ``files``: their options files, that of the master last; ``managers``: their ports;
    ``window``: seconds after which the first of them takes over from a master with another sm_key, None where there is
    only one SM; ``longest``: the same of the last of them, 0 with one SM; ``notes``: what is not certain."""

    files: list[KeyFile]
    managers: tuple[Manager, ...]
    window: float | None
    longest: float
    notes: list[str] = field(default_factory=list)

    @property
    def confs(self) -> Iterator[SmConf]:
        """Every OpenSM."""
        return (conf for file in self.files for conf in file.confs)

    def verify(self) -> None:
        """Look again whether each OpenSM is the same process, with its options file as it was seen.

        Raises Refused (``stale``), HostNotReached.
        """
        for conf in self.confs:
            conf.running.verify_process()
            conf.running.verify_options()


def find_key_managers(writer: Writer, reached: Sequence[Reached], found: Topology, goes_on: bool) -> KeyManagers:
    """Return the OpenSMs of the fabric that a sweep with SMInfo *found*. *goes_on*: a change that was cut off goes on,
    so that there may be several masters by now.

    Raises Refused (``master``, `REFUSAL`, ``file``, ``signal``) where there is no one master, where an SM is on no host
    that was reached, or an OpenSM could not be given a key; UsageError where an option is not known, FileError where a
    file is not to be reached, and HostNotReached.
    """
    own_guid, socket = writer.fabric.own_guid, os.environ.get("IBSIM_SOCKNAME", "")
    if goes_on:
        report = look_around(managers_of(found), reached, own_guid, socket)
        if not report.masters:
            raise Refused("no subnet manager says that it is master; see `ibkeys sm-show`", MASTER)
    else:
        report = find_master(managers_of(found), reached, own_guid, socket).report
    managers = list(taking_part(report, reached))
    refuse_strangers(
        managers, report.hosts, "an SM that goes on with the former sm_key becomes a second master", REFUSAL
    )
    # That of the master last.
    confs = [_conf(each) for _, each in sorted(managers, key=lambda each: each[0].is_master) if each is not None]
    polling = [_polling_seconds(conf.options) for conf in confs] if len(confs) > 1 else []
    files = _by_file(confs)
    _refuse_one_file_of_several_hosts(files)
    _refuse_several_files_of_another_host(files)
    return KeyManagers(
        files,
        tuple(manager for manager, _ in managers),
        min(polling, default=None),
        max(polling, default=0.0),
        list(_notes(confs)),
    )


def _notes(confs: Sequence[SmConf]) -> Iterator[str]:
    """Yield what is not certain."""
    yield from (
        f"{conf.conf_name}: {doubt}" for conf in confs if (doubt := conf.running.instance.files["options"].doubt)
    )
    if len(confs) > 1 and not all(conf.options[name].is_certain for conf in confs for name in _POLLING):
        yield (
            "after how long a standby takes over is taken from the options files as they are now; whether each OpenSM "
            "has read that is not known"
        )


def _conf(running: Running) -> SmConf:
    """Return an OpenSM with its file. Raises Refused, UsageError, FileError, HostNotReached."""
    instance = running.instance
    if not instance.process.program_known:
        raise UsageError(f"{instance.name}: whether it is an OpenSM cannot be seen; run as root")
    conf, _ = look_at_conf(running, _OPTIONS, "a change of its keys", REFUSAL)
    told = [kind for kind in KINDS if conf.options[kind].source == "command line"]
    if told:
        raise Refused(
            f"{conf.name} has its {named(told)} from its command line, where every user of the host sees it: put it "
            "into the options file instead and restart that OpenSM; nothing was changed",
            REFUSAL,
        )
    return conf


def _polling_seconds(options: Mapping[str, Setting]) -> float:
    """Return for how long a standby with these options asks a master in vain before it takes over."""
    retries, milliseconds = (options[name].value for name in _POLLING)
    assert isinstance(retries, int)
    assert isinstance(milliseconds, int)
    return retries * milliseconds / 1000


def _by_file(confs: Sequence[SmConf]) -> list[KeyFile]:
    """Return the files, each once: OpenSMs of one host may share one."""
    files: dict[tuple[str, str], KeyFile] = {}
    for conf in confs:
        files.setdefault(conf.key, KeyFile([])).confs.append(conf)
    return list(files.values())


def _refuse_one_file_of_several_hosts(files: Sequence[KeyFile]) -> None:
    """Raise Refused where hosts have one file from a server: it is replaced once, and the others see that late."""
    seen: dict[tuple[int, int, bytes], KeyFile] = {}
    for file in files:
        found = file.seen.found
        if found is None:
            continue
        other = seen.setdefault((found.inode, found.modified_ns, found.data), file)
        if other is not file and other.hands.name != file.hands.name:
            raise Refused(
                f"{other.name} and {file.name} are one file, which both hosts have from one server: give each host its "
                "own options file; nothing was changed",
                "file",
            )


def _refuse_several_files_of_another_host(files: Sequence[KeyFile]) -> None:
    """Raise Refused where two files of one other host would have to wait beside each other: its hands hold one."""
    seen: dict[str, KeyFile] = {}
    for file in files:
        other = seen.setdefault(file.hands.name, file)
        if file.hands.name and other is not file:
            raise Refused(
                f"{other.name} and {file.name} belong to two OpenSMs of this subnet, and both would have to be "
                "replaced at the same moment: stop one of them, or run ibkeys on that host; nothing was changed",
                "file",
            )
