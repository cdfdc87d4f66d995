"""OpenSMs whose options files are to be changed while they run: the file, whether OpenSM reads it, and whether it can
be replaced; and SMs that are on no host that was reached, which prevent every such change.

Source: opensm osm_subnet.c (osm_subn_parse_conf_file, osm_subn_rescan_conf_files); observed of a running OpenSM.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ibkeys.arguments import given
from ibkeys.errors import Refused
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.instance import HOW_TO_MEND, Instance
from ibkeys.managers.report import HostReport
from ibkeys.managers.site import Running
from ibkeys.managers.starting import command_to_start
from ibkeys.managers.subnet_managers import Manager
from ibkeys.printable import named

REFUSAL: Final = "opensm-keys"
"""The `Refused.interlock` for OpenSMs that would lose ports, or each other, by new keys; nothing overrides it."""


def options_file(running: Running, interlock: str) -> tuple[OpensmFile, list[str]]:
    """Return the options file of an OpenSM that is to be changed, and notes on what is not certain.

    Raises Refused (*interlock*) if the file does not exist, and if OpenSM would refuse its policy, which it reads at
    the same signal; Refused (``file``, ``signal``) if the file cannot be replaced or the OpenSM cannot be signalled;
    UsageError if it is not known which file the OpenSM reads, FileError if that file cannot be reached, and
    HostNotReached.
    """
    instance, machine = running.instance, running.machine
    _refuse_faulty_policy(instance, interlock)
    file = instance.files["options"]
    if file.is_there is False:
        raise Refused(
            f"{instance.name} has no options file ({file.path}), and one that was not there when OpenSM started is "
            "never read: make it, and restart that OpenSM once: (umask 077; "
            f"{command_to_start(instance, ['-c', str(file.path)])})",
            interlock,
        ).unchanged()
    conf = OpensmFile.of(running, "options", holds_keys=True).require()
    for reason, name in (
        (machine.hindrance(conf.seen, conf.rights), "file"),
        (machine.may_signal(instance.process), "signal"),
    ):
        if reason is not None:
            raise Refused(f"{instance.name}: {reason}", name).unchanged()
    return conf, [f"{conf.name}: {file.doubt}"] if file.doubt else []


def _refuse_faulty_policy(instance: Instance, interlock: str) -> None:
    """Raise Refused if the signal to read the options file would open the fabric, because OpenSM reads its policy at it
    too.

    A faulty policy that OpenSM has read already is in force, and reading it again changes nothing. Source: opensm
    osm_state_mgr.c (do_sweep), osm_prtn.c.
    """
    if instance.faulty_policy and instance.files["policy"].reading in ("not-read", "changed"):
        raise Refused(
            f"{instance.name}: {instance.faulty_policy}; the signal for this change would make it read that file: "
            f"{HOW_TO_MEND}; nothing was changed",
            interlock,
        )


def refuse_strangers(
    managers: Iterable[tuple[Manager, Running | None]], hosts: Iterable[HostReport], would: str
) -> None:
    """Raise Refused (`REFUSAL`) for an SM of the fabric that is on no host that was reached. *would*: the harm that it
    would do, in words."""
    managers, hosts = list(managers), list(hosts)
    _refuse_doubles(managers, hosts)
    untold = [each.name for host in hosts for each in host.instances if each.port_guid is None]
    strangers = [_stranger(manager, untold) for manager, running in managers if running is None]
    silent = [f"host {host.name}: {host.error}" for host in hosts if host.error]
    if strangers:
        raise Refused(
            f"{'; '.join([*strangers, *silent])}: {would}, so every SM must be on a host that is reached "
            f"({given('--sm-host HOST', 'hosts=')}), or be stopped for good",
            REFUSAL,
        ).unchanged()


def notes_on_idle_hosts(hosts: Iterable[HostReport]) -> list[str]:
    """Return a note for each host that the user named and where no OpenSM was found: no OpenSM there gets the new
    keys."""
    return [
        f"host {host.name}: {host.error or 'no OpenSM runs there'}: no file there is changed; before you start one, "
        "give it the lines with keys of the master's options file, and its guid2mkey and neighbors"
        for host in hosts
        if host.name and not host.instances
    ]


def _refuse_doubles(managers: Iterable[tuple[Manager, Running | None]], hosts: Iterable[HostReport]) -> None:
    """Raise Refused if two OpenSMs that were found have the port of one SM: one of the two would get the keys, and it
    may be the wrong one.
    """
    instances = [instance for host in hosts for instance in host.instances]
    for manager, _ in managers:
        same = [instance.name for instance in instances if instance.port_guid == manager.guid]
        if len(same) > 1:
            raise Refused(
                f"the SM at {manager.port} was found as {named(same)}: name each host only once, and stop "
                "the process that is not that SM",
                REFUSAL,
            ).unchanged()


def _stranger(manager: Manager, untold: Sequence[str]) -> str:
    """Return the text that an SM was not found. *untold*: the OpenSMs that were found and whose port is not known."""
    state = manager.state or "IsSM is set, SMInfo not answered"
    return f"the SM at {manager.port} ({state}): {where_it_may_be(untold)}"


def where_it_may_be(untold: Sequence[str]) -> str:
    """Return the likely reason why the OpenSM of an SM was not found. *untold*: the OpenSMs that were found and whose
    port is not known."""
    if untold:
        return f"it may be {named(untold)}, which does not show its port: set guid in its options and restart it"
    return "it is not on any host that was examined"
