"""The requirements on the OpenSMs for a change of the M_Key. Every option that would make an OpenSM lose the fabric, or
a lease run out, is refused, and the user cannot override that. Source: opensm osm_subnet.c, osm_sm_state_mgr.c,
osm_db_files.c; a running OpenSM, observed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from shlex import quote
from typing import Final

from ibkeys.arguments import given
from ibkeys.change.through_sm import POLLING, ManagedOpensm, OpensmManagers, find_opensms
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import Refused
from ibkeys.keys.key_setting import SWEEPS_OF_A_LEASE, KeySetting, least_lease
from ibkeys.keys.mkey import MKey
from ibkeys.keys.smkey import SMKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import CapabilityMask
from ibkeys.managers.files.journaled import is_proven
from ibkeys.managers.files.listeners import hindrance_to_closing
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.files.options_files import REFUSAL
from ibkeys.managers.instance import CHECK_FIRST
from ibkeys.managers.opensm.effective_options import EffectiveOption
from ibkeys.managers.opensm.m_key_lines import has_key_for_each_port
from ibkeys.managers.report import HostReport, shared_files
from ibkeys.managers.site import ReachedHost, RunningOpensm
from ibkeys.managers.subnet_managers import Manager
from ibkeys.printable import named
from ibkeys.store.journal import Journal
from ibkeys.topology.nodes import Port

KEY_LINES: Final = ("m_key", "m_key_protection_level", "m_key_lease_period")
"""The options of OpenSM that a change sets. Reading the ports proves whether these options are in force."""
KEY_OPTIONS: Final = ("m_key_lookup", "sweep_interval", "sa_key", "sm_key", *POLLING)
"""The options that a change of the M_Key depends on."""
AFTER_REPAIR: Final = (
    "that prints how to start it; when it is master again, continue with `ibkeys resume` or `ibkeys undo`"
)
"""The advice that follows the name of the command sm-repair."""
MIXED: Final = "mixed-keys"
"""The value of `Refused.interlock` if ports have different keys; the user cannot override it."""
_IF_ONE_IS_LEFT_OUT: Final = "an SM that keeps the former M_Key becomes a second master, or is lost"


def setting_in_options(manager: ManagedOpensm) -> KeySetting:
    """Return the M_Key, level and lease that an OpenSM sets by its options. At a level above 0, it raises a lease that
    its sweep interval reaches."""
    setting, interval = setting_of(manager.options[name].value for name in KEY_LINES), _sweep_interval(manager)
    if setting.protect and setting.lease and setting.lease <= interval:
        return replace(setting, lease=interval + 1 & 0xFFFF)
    return setting


def _sweep_interval(manager: ManagedOpensm) -> int:
    interval = manager.options["sweep_interval"].value
    return interval if isinstance(interval, int) else 0


def advice_if_dead(manager: ManagedOpensm) -> str:
    """Return the advice for the case that this OpenSM has died: its key files may then have other keys than the ports.
    Raises the errors of `ManagedOpensm.cache`."""
    repair = f"ibkeys sm-repair --cache-dir {quote(str(manager.cache))} --opensm-conf {quote(str(manager.file.path))}"
    where = f" on {manager.machine.name}" if manager.machine.name else ""
    return f"if it died, type{where}: {repair}; {AFTER_REPAIR}"


def setting_of(values: Iterable[object]) -> KeySetting:
    """Return the setting of which *values* are the M_Key, level and lease, in the order of `KEY_LINES`."""
    key, level, lease = values
    assert isinstance(key, MKey)
    assert isinstance(level, int)
    assert isinstance(lease, int)
    return KeySetting(key, level, lease)


def find_key_managers(
    writer: ChangeWriter, reached: Sequence[ReachedHost], found: Sequence[Manager], wanted: KeySetting
) -> OpensmManagers:
    """Return the OpenSMs that the fabric's SMs *found* are, and lock their hosts. *wanted*: the setting that all ports
    should get. Raises the errors of `find_opensms`, and Refused (`REFUSAL`) if an OpenSM would lose ports or let leases
    run out, or if two OpenSMs share their key files.
    """
    managers = find_opensms(writer, reached, found, partial(_read_options, writer), _IF_ONE_IS_LEFT_OUT)
    for manager in managers.all:
        for problem in (*_problems(manager, wanted), *_other_sm_key(manager, managers.master, wanted)):
            raise Refused(f"{manager.name}: {problem}", REFUSAL).unchanged()
    _refuse_shared(managers.report.hosts)
    return managers


def _read_options(
    writer: ChangeWriter, running: RunningOpensm, file: OpensmFile
) -> tuple[Mapping[str, EffectiveOption], list[str]]:
    """Return the options that a change of the M_Key depends on, and notes. Raises UsageError, StoreError."""
    changed, _ = running.settings(KEY_LINES, "which M_Key it sets")
    others, notes = running.settings(KEY_OPTIONS, "what it does with M_Keys")
    return {**changed, **others}, [] if notes and _is_file_proven(writer, file) else notes


def refusal_of_newcomers(
    managers: OpensmManagers, members: Collection[int], ports: Sequence[Port], infos: Mapping[int, PortInfo]
) -> Refused | None:
    """Return the refusal to continue if the IsSM bit of a port shows an SM that was not known when the run was planned;
    else None. An SM with other options than the master becomes a second master, or is lost, when the level rises.

    *members*: the port GUIDs of SMs that the run knows besides those of *managers*; *infos*: PortInfo of each of
    *ports*, by port GUID.
    """
    known = {*members, *(each.guid for each in managers.report.managers or ())}
    sms = [each for each in ports if infos[each.guid].capability_mask & CapabilityMask.IS_SM]
    new = [str(each) for each in sms if each.guid not in known]
    if not new:
        return None
    return Refused(
        f"an unknown SM has appeared at {named(new)}: stop it, or name its host ({given('--sm-host')}), then "
        "continue with `ibkeys resume`; nothing more was done",
        REFUSAL,
    )


def _is_file_proven(writer: ChangeWriter, file: OpensmFile) -> bool:
    """Return whether a change of ibkeys wrote the options file as it is now, and proved that OpenSM has read it."""
    with Journal.read(writer.fabric.stores.journal) as journal:
        return is_proven(file, journal, writer.keystore)


def _problems(manager: ManagedOpensm, wanted: KeySetting) -> Iterator[str]:
    """Yield the reasons why this OpenSM, as it runs, would lose ports or let leases run out."""
    options, data = manager.options, manager.file.data
    if options["m_key_lookup"].value is not True:
        yield (
            f"m_key_lookup is FALSE in {manager.file.name}: every request would carry the new M_Key, so the ports "
            f"would refuse each Set: set m_key_lookup to TRUE (exactly that word), {CHECK_FIRST}, and send OpenSM "
            "SIGHUP"
        )
    if has_key_for_each_port(data):
        yield (
            f"{manager.file.name} has m_key_per_port: how that SM makes its keys is not public; use that SM's own tools"
        )
    cache = manager.running.instance.files["cache"].fact
    if hindrance := hindrance_to_closing(manager.cache, cache, manager.file.user):
        yield hindrance
    interval = options["sweep_interval"].value
    if wanted.lease and not wanted.key.is_zero and interval == 0:
        yield (
            f"sweep_interval is 0 in {manager.file.name}: no sweep would stop a lease, and a running OpenSM does "
            "not start to sweep again: set it above 0 and restart that OpenSM, or ask for " + given("--lease 0")
        )
    if wanted.lease and not wanted.key.is_zero and isinstance(interval, int) and wanted.lease <= interval:
        least = least_lease(interval)
        yield (
            f"its sweep_interval is {interval} s, and a lease has to be above it: OpenSM would set {interval + 1} s "
            f"instead of {wanted.lease} s: ask for {given(f'--lease {least}', f'lease={least}')} or more, so that "
            f"{SWEEPS_OF_A_LEASE} sweeps have to be lost before it runs out"
        )


def _other_sm_key(manager: ManagedOpensm, master: ManagedOpensm, wanted: KeySetting) -> Iterator[str]:
    """Yield the reason why this OpenSM would be a second master when the run starts it again. A run that removes the
    M_Key starts none; an OpenSM with sm_key 0 accepts every master."""
    own = manager.options["sm_key"].value
    if wanted.key.is_zero or own == master.options["sm_key"].value or own == SMKey(0):
        return
    yield (
        "its sm_key is not that of the master, so it would be a second master when it is started again: finish an "
        f"interrupted smkey-rotate, or put the master's sm_key and sa_key into {manager.file.name} and restart it"
    )


def _refuse_shared(hosts: Sequence[HostReport]) -> None:
    """Raise Refused (`REFUSAL`) if two OpenSMs of a host write the same guid2mkey: each would overwrite newer keys of
    the other one."""
    for host in hosts:
        for one, other, files in shared_files(host):
            if any(file.role in ("cache", "keys") for file in files):
                raise Refused(
                    f"{one.name} and {other.name} share one folder for their key files "
                    f"({named([str(file.path) for file in files])}): give each an OSM_CACHE_DIR of its own in its unit "
                    "and restart it",
                    REFUSAL,
                ).unchanged()
