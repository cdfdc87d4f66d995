"""Checks before the options files of running OpenSMs are changed: whether OpenSM reads its file, whether the file can
be replaced, and whether every SM of the fabric is on a host that was reached.

Source: opensm osm_subnet.c (osm_subn_parse_conf_file, osm_subn_rescan_conf_files); observed with a running OpenSM.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ibkeys.arguments import given
from ibkeys.errors import Refused
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.instance import HOW_TO_MEND, Instance
from ibkeys.managers.report import HostReport
from ibkeys.managers.site import RunningOpensm
from ibkeys.managers.start_command import command_to_start
from ibkeys.managers.subnet_managers import Manager
from ibkeys.printable import named

REFUSAL: Final = "opensm-keys"
"""The `Refused.interlock` if new keys would make OpenSMs lose ports, or lose each other; nothing overrides it."""


def options_file(running: RunningOpensm, interlock: str) -> tuple[OpensmFile, list[str]]:
    """Return the options file of an OpenSM, and notes for the user if it is not certain that this is its file.

    Raises Refused (*interlock*) if the file does not exist, or if OpenSM would refuse its policy, which it reads at the
    same signal, and may not have read it yet; Refused (``file``) if the file cannot be replaced; Refused (``signal``)
    if the OpenSM cannot be signalled; Refused (``stale``) if it has ended; UsageError if it is not known which file the
    OpenSM reads; FileError and FileChanged if that file cannot be read; HostNotReached.
    """
    instance, machine = running.instance, running.machine
    _refuse_faulty_policy(instance, interlock)
    file = instance.files["options"]
    if file.is_there is False:
        raise Refused(
            f"{instance.name} has no options file ({file.path}), and OpenSM reads only a file that exists when it "
            "starts: create it, then restart that OpenSM: (umask 077; "
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
    """Raise Refused if OpenSM would refuse its policy and may not have read it yet. At the signal to read its options
    file OpenSM reads the policy too, and would then make every port a full member of the default partition.

    Reading a faulty policy again that is in force already changes nothing. Source: opensm osm_state_mgr.c (do_sweep),
    osm_prtn.c.
    """
    if instance.policy_fault and instance.files["policy"].reading in ("not-read", "changed"):
        raise Refused(
            f"{instance.name}: {instance.policy_fault}; the signal for this change would make it read that file: "
            f"{HOW_TO_MEND}; nothing was changed",
            interlock,
        )


def refuse_unreached_sms(
    managers: Iterable[tuple[Manager, RunningOpensm | None]], hosts: Iterable[HostReport], harm: str
) -> None:
    """Raise Refused (`REFUSAL`) if an SM of the fabric was not found on any host that was reached, or was found as two
    OpenSMs. *managers*: each SM with its OpenSM, None if it was not found. *harm*: the harm that such an SM would do,
    in words."""
    managers, hosts = list(managers), list(hosts)
    _refuse_ambiguous(managers, hosts)
    without_port = [each.name for host in hosts for each in host.instances if each.port_guid is None]
    unreached = [_unreached_in_words(manager, without_port) for manager, running in managers if running is None]
    silent = [f"host {host.name}: {host.error}" for host in hosts if host.error]
    if unreached:
        raise Refused(
            f"{'; '.join([*unreached, *silent])}: {harm}, so every SM must be on a host that is reached "
            f"({given('--sm-host HOST', 'hosts=')}), or be stopped for good",
            REFUSAL,
        ).unchanged()


def notes_on_idle_hosts(hosts: Iterable[HostReport]) -> list[str]:
    """Return a note for each host other than this one on which no OpenSM was found, because no OpenSM there gets the
    new keys."""
    return [
        f"host {host.name}: {host.error or 'no OpenSM runs there'}: no file there is changed; before you start one, "
        "give it the lines with keys of the master's options file, and its guid2mkey and neighbors"
        for host in hosts
        if host.name and not host.instances
    ]


def _refuse_ambiguous(managers: Iterable[tuple[Manager, RunningOpensm | None]], hosts: Iterable[HostReport]) -> None:
    """Raise Refused if two OpenSMs seem to run at the port of one SM: only one of them would get the keys, and it may
    be the wrong one.
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


def _unreached_in_words(manager: Manager, without_port: Sequence[str]) -> str:
    """Return the text that an SM was not found. *without_port*: as in `explain_missing_opensm`."""
    state = manager.state or "IsSM is set, SMInfo not answered"
    return f"the SM at {manager.port} ({state}): {explain_missing_opensm(without_port)}"


def explain_missing_opensm(without_port: Sequence[str]) -> str:
    """Return the likely reason, in words, why the OpenSM of an SM was not found. *without_port*: the names of the
    OpenSMs that were found and whose port is not known."""
    if without_port:
        return f"it may be {named(without_port)}, which does not show its port: set guid in its options and restart it"
    return "it is not on any host that was examined"
