"""The master's own policy file, its options that affect the P_Keys, and whether it has read both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, cast

from ibkeys.agreement.causes import ReadByTheSm
from ibkeys.agreement.source_values import Protection
from ibkeys.errors import Refused, UsageError
from ibkeys.managers.instance import Instance, InstanceFile
from ibkeys.managers.report import SmReport
from ibkeys.managers.site import master_in
from ibkeys.partitions.model import Policy
from ibkeys.plan.model import Enforce, SmOptions
from ibkeys.printable import Detail

_ENFORCE: Final = ("both", "in", "out", "off")
_OPTIONS: Final = ("part_enforce", "no_partition_enforcement", "allow_both_pkeys")
_GUARDING: Final = ("m_key_protection_level", "m_key_lease_period", "sweep_interval")

_HIGHEST_LEVEL: Final = 3
_INSTEAD: Final = 2
"""The level that OpenSM uses in place of one above 3."""


@dataclass(frozen=True, slots=True)
class SmFile:
    """The policy file of the master.

    ``sm_port_guid``: the GUID of its port. ``policy``: None if there is no file, so that every port is a full member.
    ``allow_both``: the option allow_both_pkeys, False too if the options are not known. ``enforce``, ``protection``:
    None if they are not known. ``policy_read``, ``options_read``: whether the master has read the current files, and
    swept since. ``notes``: the name of the file, and uncertain facts about it and the options.
    """

    instance: Instance
    sm_port_guid: int
    policy: Policy | None
    allow_both: bool
    enforce: Enforce | None
    protection: Protection | None
    policy_read: ReadByTheSm
    options_read: ReadByTheSm
    notes: tuple[str, ...]

    @property
    def file(self) -> InstanceFile:
        """The policy file itself."""
        return self.instance.files["policy"]


def sm_file_of(report: SmReport) -> SmFile:
    """Return the file of the one master in a report.

    Raises UsageError if there is not exactly one master, if its OpenSM was not found or cannot be verified to be an
    OpenSM, or if its policy cannot be read. Raises HostNotReached if a host on which the master may run did not answer.
    """
    try:
        manager, instance = master_in(report)
    except Refused as error:
        raise UsageError(str(error)) from None
    file = instance.files["policy"]
    if instance.policy is None and file.is_there is not False:
        named = f"({file.path}) " if file.path is not None else ""
        raise UsageError(f"the policy of {instance.name} {named}{file.problem}")
    options = instance.options
    values = {name: options.setting(name) for name in _OPTIONS}
    known = all(setting.source != "not known" for setting in values.values())
    enforce = str(values["part_enforce"].value)
    allow_both = known and bool(values["allow_both_pkeys"].value)
    works_with = None
    if known and enforce in _ENFORCE:
        works_with = SmOptions(allow_both, cast(Enforce, enforce), bool(values["no_partition_enforcement"].value))
    return SmFile(
        instance,
        manager.guid,
        instance.policy,
        allow_both,
        works_with.enforce if works_with is not None else None,
        _protection(instance),
        _read(instance, file),
        _read(instance, instance.files["options"]),
        tuple(_notes(instance, file)),
    )


def _protection(instance: Instance) -> Protection | None:
    """Return the ProtectBits and lease that an OpenSM sets on every end port, whether or not it has an M_Key; None if
    one of the options is not known.

    Source: opensm osm_subnet.c (osm_subn_verify_config): a level above 3 is 2, and a lease that ends before the next
    sweep is made longer.
    """
    values = {name: instance.options.setting(name).value for name in _GUARDING}
    level, lease, interval = (value if isinstance(value, int) else None for value in values.values())
    if level is None or lease is None or interval is None:
        return None
    level = level if level <= _HIGHEST_LEVEL else _INSTEAD
    return Protection(level, interval + 1 if level and lease and lease <= interval else lease)


def _read(instance: Instance, file: InstanceFile) -> ReadByTheSm:
    """Return whether an OpenSM has read the current file, and ended a heavy sweep without errors since."""
    if file.reading == "not-read":
        return "not-read"
    was_read = file.reading in ("as-at-start", "absent-since-start", "may-have-been-read")
    return "read" if was_read and instance.last_sweep is not None else "unknown"


def _notes(instance: Instance, file: InstanceFile) -> Iterator[str]:
    yield Detail(f"the SM's own file is {file.path}, of {instance.name}")
    if file.doubt:
        yield f"{file.path}: {file.doubt}"
    if instance.policy is None:
        yield f"{file.path} does not exist: OpenSM makes every port a full member of the default partition"
    elif not instance.policy.accepted:
        yield f"{file.path}: OpenSM refuses this policy, and makes every port a full member of the default partition"
    for name in _OPTIONS:
        setting = instance.options.setting(name)
        if setting.source == "not known":
            yield f"{name} of {instance.name} is not known"
        elif not setting.is_certain:
            yield Detail(f"{name} is assumed to be {setting.shown}; a different value may be in force")
