"""Dangers between several OpenSMs, and between OpenSMs and the fabric.

Source: opensm osm_sminfo_rcv.c, osm_subnet.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ibkeys.grouping import gathered
from ibkeys.managers.dangers.danger import FoundDanger, danger_of
from ibkeys.managers.instance import Instance, InstanceFile
from ibkeys.managers.report import SmReport, shared_files

MUST_AGREE: Final = (
    *("sm_key", "sa_key", "m_key", "m_key_protection_level", "m_key_lease_period", "m_key_lookup", "subnet_prefix"),
    *("part_enforce", "allow_both_pkeys", "keep_pkey_indexes"),
)
"""The options for which a standby must have the same values as the master: after a takeover its own values apply."""


def _find_wrong_number_of_masters(report: SmReport) -> Iterator[FoundDanger]:
    if report.managers is None:
        return
    if len(report.masters) > 1:
        ports = ", ".join(str(each.port) for each in report.masters)
        yield FoundDanger(
            "two-masters",
            "the fabric",
            f"{len(report.masters)} subnet managers say they are master: {ports}",
            "each overwrites the LIDs, routes, P_Keys and M_Keys of the other",
            "stop all but one; with OpenSM the reason is usually a different sm_key, or ignore_other_sm",
        )
    elif not report.masters and report.managers:
        yield FoundDanger(
            "no-master",
            "the fabric",
            "there are subnet managers, but none says that it is master",
            "a port that comes back gets no LID and no P_Keys",
            "check its log; a standby takes over after polling_retry_number times sminfo_polling_timeout",
        )


def _find_silent_sms(report: SmReport) -> Iterator[FoundDanger]:
    for each in report.managers or ():
        if each.state is None:
            yield FoundDanger(
                "manager-silent",
                str(each.port),
                "its IsSM bit is set, and SMInfo was not answered",
                "a subnet manager may run there, master or not; one with a different M_Key, or one that hangs, "
                "looks the same",
                "read it with its M_Key (key store, OpenSM's key files), or check that host",
            )


def _find_unexamined_sms(report: SmReport) -> Iterator[FoundDanger]:
    seen = {each.port_guid for each in report.instances()}
    if not report.hosts or any(each.port_guid is None for each in report.instances()):
        return  # the SM may be an OpenSM on a host that was not examined, or one whose port is not known
    for each in report.managers or ():
        if each.guid not in seen and (each.state or "") not in ("", "not active"):
            yield FoundDanger(
                "manager-not-seen",
                str(each.port),
                f"a subnet manager ({each.state}) on a host that was not examined",
                "its files and options are not known, but they apply after a takeover",
                "name its host: `ibkeys sm-show --sm-host HOST`",
            )


def _compare_standbys(report: SmReport) -> Iterator[FoundDanger]:
    master = report.master_instance()
    if master is None:
        return
    for other in report.instances():
        if other is master:
            continue
        differing = list(_find_differences(master, other))
        if differing:
            yield danger_of(
                other,
                "standby-differs",
                f"it differs from the master, {master.name}, in {', '.join(differing)}",
                "when it takes over, its own files apply; another sm_key or M_Key makes it a second master",
                "find out which policy is the newer one (the hosts' part shows time and SHA-256 of each): the present "
                "master may be the one with the old policy; `ibkeys partition-spread` gives all the master's; give "
                "it the master's keys too, and restart it",
            )
        unknown = list(_find_unknowns(master, other))
        if unknown:
            yield danger_of(
                other,
                "standby-not-compared",
                f"it cannot be compared with the master, {master.name}: not read: {', '.join(unknown)}",
                "it is not known whether it keeps policy and keys when it takes over",
                "read them as root; on another host through sudo, or as root@HOST",
            )


def _find_differences(master: Instance, other: Instance) -> Iterator[str]:
    """Yield, in words, the policy and the options that differ between two OpenSMs, as far as they are known of both."""
    mine, theirs = (each.files["policy"] for each in (master, other))
    if mine.digest != theirs.digest and not any(map(_is_unread, (mine, theirs))):
        yield "its policy"
    for name in MUST_AGREE:
        values = [each.options.setting(name) for each in (master, other)]
        if not any(each.source == "not known" for each in values) and values[0].value != values[1].value:
            yield name


def _find_unknowns(master: Instance, other: Instance) -> Iterator[str]:
    """Yield, in words, the OpenSMs whose policy could not be read, and those of which an option is not known."""
    unread = [each.name for each in (master, other) if _is_unread(each.files["policy"])]
    if unread:
        yield f"the policy of {' and of '.join(unread)}"
    unknown = [each for each in (master, other) if any(_is_unknown(each, name) for name in MUST_AGREE)]
    if unknown:
        yield f"the options of {' and of '.join(each.name for each in unknown)}"


def _is_unread(file: InstanceFile) -> bool:
    return file.digest is None and file.is_there is not False


def _is_unknown(instance: Instance, name: str) -> bool:
    return instance.options.setting(name).source == "not known"


def _find_ports_claimed_twice(report: SmReport) -> Iterator[FoundDanger]:
    claims = gathered((each.port_guid, each) for each in report.instances() if each.port_guid is not None)
    for guid, claiming in claims.items():
        if len(claiming) > 1:
            number = "two" if len(claiming) == 2 else str(len(claiming))
            named = ", ".join(each.name for each in claiming)
            yield FoundDanger(
                "port-claimed-twice",
                "the fabric",
                f"{number} OpenSMs say that they run on port GUID 0x{guid:016x}: {named}",
                "at most one of them does; it is not known which one is the manager there, so the others cannot be "
                "compared",
                "name each host once; if these are several hosts, find out which of them gives a false port GUID",
            )


def _find_self_in_policies(report: SmReport) -> Iterator[FoundDanger]:
    if len(report.managers or ()) < 2:
        return
    for each in report.instances():
        names_self = each.policy is not None and any(
            rule.who == "SELF" for partition in each.policy.partitions for rule in partition.rules
        )
        if names_self:
            yield danger_of(
                each,
                "self-takeover",
                f"its policy {each.files['policy'].path} names SELF",
                "SELF is the port of the current master: after a takeover the former master's port loses "
                "the P_Keys that SELF gave it",
                "list every host with a subnet manager by its GUID",
            )


def _find_shared_files(report: SmReport) -> Iterator[FoundDanger]:
    for host in report.hosts:
        for one, other, same in shared_files(host):
            named = ", ".join(f"{file.role} {file.path}" for file in same)
            if {file.role for file in same} & {"cache", "dumps"}:
                means = "each overwrites the newer keys of the other in guid2mkey with its own older copy"
                remedy = (
                    "give each its own OSM_CACHE_DIR and OSM_TMP_DIR (a drop-in of the unit); set no M_Keys before that"
                )
            else:
                means = "changing a file for one changes it for both"
                remedy = "give each its own file where they serve different subnets"
            yield danger_of(
                one,
                "shared-files",
                f"it shares with process {other.process.pid}: {named}",
                means,
                remedy,
            )


BETWEEN: Final[tuple[Callable[[SmReport], Iterator[FoundDanger]], ...]] = (
    _find_wrong_number_of_masters,
    _find_silent_sms,
    _find_unexamined_sms,
    _find_ports_claimed_twice,
    _compare_standbys,
    _find_self_in_policies,
    _find_shared_files,
)
