"""The OpenSMs that a change of the M_Key goes through: the master and every other SM, each with its files.

An SM that is not reached would keep the former key: at level 1 it becomes a second master, at level 2 it loses the
fabric. Anything that would make OpenSM lose the fabric, or never read its file, is refused. Nothing overrides that.
Source: opensm osm_subnet.c, osm_sm_state_mgr.c, osm_db_files.c; a running OpenSM, observed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Final

from ibkeys.change.through_sm import master_for
from ibkeys.change.writer import Writer
from ibkeys.errors import Refused
from ibkeys.host.opensm_conf import has_key_for_each_port
from ibkeys.keys.key_setting import SWEEPS_OF_A_LEASE, KeySetting, least_lease
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import CapabilityMask
from ibkeys.printable import named
from ibkeys.sm.files.listeners import hindrance_to_closing
from ibkeys.sm.files.opensm_file import OpensmFile, merged
from ibkeys.sm.files.options_files import REFUSAL, notes_on_idle_hosts, options_file, refuse_strangers
from ibkeys.sm.files.proven import is_proven
from ibkeys.sm.instance import CHECK_FIRST
from ibkeys.sm.machines.machine import Machine
from ibkeys.sm.managers import Manager
from ibkeys.sm.options import Setting
from ibkeys.sm.report import HostReport, shared_files
from ibkeys.sm.site import Reached, Running, Seen, stale
from ibkeys.store.journal import Journal
from ibkeys.topology.nodes import Port

KEY_LINES: Final = ("m_key", "m_key_protection_level", "m_key_lease_period")
"""The options of OpenSM that are changed. What the ports show proves whether they are in force."""
KEY_OPTIONS: Final = (
    *("m_key_lookup", "sweep_interval", "sa_key", "sm_key"),
    *("polling_retry_number", "sminfo_polling_timeout"),
)
"""Those that a change of the M_Key depends on."""
AFTER_REPAIR: Final = "that prints how to start it; when it is master again, continue with --resume or --abort"
"""Advice that follows sm-repair."""
MIXED: Final = "mixed-keys"
"""What `Refused.interlock` is where ports have different keys; nothing overrides that."""
_IF_ONE_IS_LEFT_OUT: Final = "an SM that keeps the former M_Key becomes a second master, or is lost"


@dataclass(slots=True)
class KeyManager:
    """One OpenSM with what holds keys. ``conf``: its options file; ``cache``: the folder of its key files;
    ``options``: what it works with."""

    running: Running
    conf: OpensmFile
    cache: Path
    options: Mapping[str, Setting]

    @property
    def machine(self) -> Machine:
        """Its host."""
        return self.running.machine

    @property
    def name(self) -> str:
        """The OpenSM, in words."""
        return self.running.instance.name

    @property
    def setting(self) -> KeySetting:
        """The M_Key, level and lease that its options say."""
        return setting_of(self.options[name].value for name in KEY_LINES)

    @property
    def way_on(self) -> str:
        """What to do when it died: its key files may say other keys than the ports have."""
        repair = f"ibkeys sm-repair --cache-dir {quote(str(self.cache))} --opensm-conf {quote(str(self.conf.path))}"
        where = f" on {self.machine.name}" if self.machine.name else ""
        return f"if it died, type{where}: {repair}; {AFTER_REPAIR}"


def setting_of(values: Iterable[object]) -> KeySetting:
    """Return the values of the options `KEY_LINES` as a setting."""
    key, level, lease = values
    assert isinstance(key, MKey)
    assert isinstance(level, int)
    assert isinstance(lease, int)
    return KeySetting(key, level, lease)


@dataclass(slots=True)
class KeyManagers:
    """The master, and every other SM. ``seen``: what was seen of all; ``notes``: what is not certain."""

    seen: Seen
    master: KeyManager
    standbys: tuple[KeyManager, ...]
    notes: list[str]

    @property
    def all(self) -> tuple[KeyManager, ...]:
        """All of them, the master last."""
        return (*self.standbys, self.master)

    def verify_same_master(self, later: KeyManagers) -> None:
        """Raise Refused (``stale``) if another process is master *later*."""
        if self._which() != later._which():
            raise stale(f"the master was {self.master.name}; now it is {later.master.name}")

    def _which(self) -> tuple[object, ...]:
        process = self.master.running.instance.process
        return self.master.machine.name, process.pid, process.ticks, self.seen.manager.guid


def find_key_managers(
    writer: Writer, reached: Sequence[Reached], found: Sequence[Manager], wanted: KeySetting
) -> KeyManagers:
    """Return the OpenSMs of the fabric's managers, with the locks on their hosts. *wanted*: what all ports should have.

    Raises Refused (``master``, ``unknown-sm``, `REFUSAL`) if there is no one master, if an SM is on no host that was
    reached, or an OpenSM is of an unknown kind, or would lose ports or not read its file; UsageError if an option is
    not known, FileError if a file is not to be reached, and HostNotReached.
    """
    seen = master_for(writer, found, reached)
    refuse_strangers(seen.others(), seen.report.hosts, _IF_ONE_IS_LEFT_OUT)
    others = [running for _, running in seen.others() if running is not None]
    managers, notes = [], list[str]()
    for running in [*others, seen.master]:
        manager, uncertain = _manager(writer, running)
        managers.append(manager)
        notes += uncertain
    files = {file.key: file for file in merged(manager.conf for manager in managers)}
    for manager in managers:
        manager.conf = files[manager.conf.key]  # of OpenSMs that share a file one sees what the other wrote
        _refuse_unfit(manager, wanted)
    _refuse_shared(seen.report.hosts)
    notes += notes_on_idle_hosts(seen.report.hosts)
    return KeyManagers(seen, managers[-1], tuple(managers[:-1]), notes)


def refuse_newcomers(
    managers: KeyManagers, members: Collection[int], ports: Sequence[Port], infos: Mapping[int, PortInfo]
) -> None:
    """Raise Refused if a port shows an SM that nobody knew when the run was planned: with other options than the master
    it becomes a second one, or is lost, when the level rises.

    *members*: port GUIDs of SMs that the run knows besides; *infos*: PortInfo of *ports*, by port GUID.
    """
    known = {*members, *(each.guid for each in managers.seen.report.managers or ())}
    sms = [each for each in ports if infos[each.guid].capability_mask & CapabilityMask.IS_SM]
    new = [str(each) for each in sms if each.guid not in known]
    if new:
        raise Refused(
            f"an unknown SM has appeared at {named(new)}: stop it, or name its host (--sm-host HOST), then "
            "continue with --resume; nothing more was done",
            REFUSAL,
        )


def _manager(writer: Writer, running: Running) -> tuple[KeyManager, list[str]]:
    """Return an OpenSM with its files, and notes. Raises UsageError, FileError, Refused, HostNotReached, StoreError."""
    conf, doubts = options_file(running, REFUSAL)
    changed, _ = running.settings(KEY_LINES, "which M_Key it sets")
    settings, notes = running.settings(KEY_OPTIONS, "what it does with M_Keys")
    if notes and _is_proven(writer, conf):
        notes = []
    cache, _ = running.place_of("cache")  # the name that lasts when this process has ended
    return KeyManager(running, conf, cache, {**changed, **settings}), [*notes, *doubts]


def _is_proven(writer: Writer, conf: OpensmFile) -> bool:
    """Return whether the options file is as a change of ours left it, which OpenSM has read."""
    with Journal.read(writer.fabric.stores.journal) as journal, writer.open_store() as store:
        return is_proven(conf, journal, store)


def _refuse_unfit(manager: KeyManager, wanted: KeySetting) -> None:
    """Raise Refused if this OpenSM, as it runs, would lose ports or leases."""
    for problem in _problems(manager, wanted):
        raise Refused(f"{manager.name}: {problem}", REFUSAL).unchanged()


def _problems(manager: KeyManager, wanted: KeySetting) -> Iterator[str]:
    options, data = manager.options, manager.conf.data
    if options["m_key_lookup"].value is not True:
        yield (
            f"m_key_lookup is FALSE in {manager.conf.name}: every request would carry the new M_Key, and each Set be "
            f"refused: set it to TRUE (exactly that word), {CHECK_FIRST}, and send it SIGHUP"
        )
    if has_key_for_each_port(data):
        yield (
            f"{manager.conf.name} has m_key_per_port: how that SM makes its keys is not public; use that SM's own tools"
        )
    cache = manager.running.instance.files["cache"].fact
    if hindrance := hindrance_to_closing(manager.cache, cache, manager.conf.user):
        yield hindrance
    interval = options["sweep_interval"].value
    if wanted.lease and not wanted.key.is_zero and interval == 0:
        yield (
            f"sweep_interval is 0 in {manager.conf.name}: no sweep would stop a lease, and a running OpenSM does "
            "not start to sweep again: set it above 0 and restart that OpenSM, or ask for --lease 0"
        )
    if wanted.lease and not wanted.key.is_zero and isinstance(interval, int) and wanted.lease <= interval:
        yield (
            f"its sweep_interval is {interval} s, and a lease has to be above it: OpenSM would make {wanted.lease} s "
            f"{interval + 1} s: ask for --lease {least_lease(interval)} or more, so that {SWEEPS_OF_A_LEASE} sweeps "
            "have to be lost before it runs out"
        )


def _refuse_shared(hosts: Sequence[HostReport]) -> None:
    """Raise Refused if two OpenSMs write one guid2mkey: each writes its own memory over the other's newer keys."""
    for host in hosts:
        for one, other, files in shared_files(host):
            if any(file.role in ("cache", "keys") for file in files):
                raise Refused(
                    f"{one.name} and {other.name} share one folder for their key files "
                    f"({named([str(file.path) for file in files])}): give each an OSM_CACHE_DIR of its own in its unit "
                    "and restart it",
                    REFUSAL,
                ).unchanged()
