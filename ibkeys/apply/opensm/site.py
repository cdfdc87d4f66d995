"""The master OpenSM as a change of partitions needs it: its policy, the options that decide its tables, its standbys.
All of it is examined when a change is planned. The process, the master and the options file are examined again before
each step, because a change there could make the step wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from ibkeys.apply.opensm.guards import Guards
from ibkeys.apply.opensm.last_policy import LastChange, last_change
from ibkeys.apply.opensm.policy_files import PolicyFiles, digest_of
from ibkeys.arguments import given
from ibkeys.change.former_managers import known_managers, managers_away
from ibkeys.change.through_sm import find_and_lock_sms
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import FileError, UsageError
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.files.options_files import explain_missing_opensm
from ibkeys.managers.instance import Instance, Role
from ibkeys.managers.opensm.effective_options import EffectiveOption
from ibkeys.managers.reading import WORDS
from ibkeys.managers.site import FoundSms, ReachedHost, RunningOpensm
from ibkeys.managers.subnet_managers import Manager, managers_of
from ibkeys.partitions.model import Policy
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.model import Enforce, PartitionPlan, SmOptions
from ibkeys.store.journal import Journal
from ibkeys.topology.model import Topology

OPTIONS: Final = ("allow_both_pkeys", "part_enforce", "no_partition_enforcement", "keep_pkey_indexes")
"""The options of OpenSM that decide the tables that it makes from a policy."""


@dataclass(slots=True)
class OpensmSite:
    """The master OpenSM and its surroundings. ``standbys``: the other SMs whose policy files can be reached and are
    different files; ``out_of_reach``: the other SMs whose files cannot be reached, in words; ``left_out``: absent SMs
    that a change left out on purpose, in words; ``options``: the options of the master; ``other_sm_count``: the number
    of other SMs; ``notes``: uncertain facts, in words; ``last_change``: the last change of the policy in force by the
    journal, None if there is none; ``earlier_sms``: the port GUIDs of all SMs that the journal knows."""

    writer: ChangeWriter
    reached: Sequence[ReachedHost]
    manager: Manager
    master: RunningOpensm
    options: SmOptions
    standbys: tuple[RunningOpensm, ...] = ()
    out_of_reach: tuple[str, ...] = ()
    other_sm_count: int = 0
    notes: list[str] = field(default_factory=list)
    last_change: LastChange | None = None
    left_out: tuple[str, ...] = ()
    earlier_sms: frozenset[str] = frozenset()

    @property
    def policy(self) -> Policy | None:
        """The policy in the master's file now, None if there is no file."""
        return self.master.instance.policy

    def policy_files(self) -> list[OpensmFile]:
        """Read all policy files, the master's last. Raises FileError, FileChanged, HostNotReached."""
        return [OpensmFile.of(each, "policy", holds_keys=False) for each in (*self.standbys, self.master)]

    def unread_edit(self, role: Role) -> str:
        """Return, in words, that the master's file of that *role* was edited and OpenSM has not read the edit; "" if
        nothing shows that. The next signal puts such an edit into force."""
        file = self.master.instance.files[role]
        return f"{file.path}: {WORDS['not-read']}" if file.reading == "not-read" else ""

    @property
    def is_of_last_change(self) -> bool:
        """Whether the last change of the journal wrote the present policy of the master, and is finished: it
        told OpenSM to read the policy. If no P_Key changed, the sweep that reads it may still be under way."""
        last, policy = self.last_change, self.policy
        return (
            last is not None
            and policy is not None
            and not last.operation.is_unfinished
            and digest_of(policy.data) == last.digest
        )

    @property
    def policy_was_written(self) -> bool:
        """Whether the bytes of the master's policy are newer than its last sweep, by the time of the last write; True
        if one of the times is not known. A new mode, owner or name also looks like an edit."""
        fact, swept = self.master.instance.files["policy"].fact, self.master.instance.last_sweep
        return fact is None or fact.written is None or swept is None or fact.written > swept

    def make_policy_files(self, files: list[OpensmFile], guards: Guards, check: Callable[[], None]) -> PolicyFiles:
        """Return the object that writes policies and signals the master. *files*: the files that are replaced; *check*:
        raises if the user asked to stop."""

        def check_stop() -> None:
            check()
            guards.keep_alive()

        master = self.master
        verify = master.verify_options
        return PolicyFiles(self.writer, self.manager, master, [master], files, verify, check_stop, guards=guards)


def find_site(writer: ChangeWriter, reached: Sequence[ReachedHost], topology: Topology) -> OpensmSite:
    """Return the site of the one master in *topology*, the result of a sweep, whose OpenSM has to run on one of the
    hosts *reached*. Raises Refused if there is not exactly one master, its OpenSM is not found, or (``unknown-sm``) it
    is of an unknown kind; UsageError if its policy or one of `OPTIONS` is not known; FileError if its policy file
    cannot be reached, HostNotReached if a host on which it may run did not answer, StoreError.
    """
    return site_of(writer, reached, find_and_lock_sms(writer, managers_of(topology), reached))


def site_of(writer: ChangeWriter, reached: Sequence[ReachedHost], found_sms: FoundSms) -> OpensmSite:
    """Return the site of the master of *found_sms*, on the hosts *reached*. Raises UsageError, FileError and
    StoreError, as `find_site`."""
    settings, notes = found_sms.master.settings(OPTIONS, "what it makes of a policy")
    options = _options(found_sms.master.instance, settings)
    site = OpensmSite(writer, reached, found_sms.manager, found_sms.master, options, notes=notes)
    _find_others(site, found_sms)
    return site


def _options(instance: Instance, settings: Mapping[str, EffectiveOption]) -> SmOptions:
    enforce = str(settings["part_enforce"].value)
    if enforce not in ("both", "in", "out", "off"):
        raise UsageError(f"{instance.name}: part_enforce is {enforce!r}, which is not one of both, in, out, off")
    return SmOptions(
        bool(settings["allow_both_pkeys"].value),
        cast(Enforce, enforce),
        bool(settings["no_partition_enforcement"].value),
        bool(settings["keep_pkey_indexes"].value),
    )


def _place_of_policy(running: RunningOpensm) -> tuple[str, Path]:
    """Return the host of an OpenSM's policy file, and the path there. Raises UsageError, FileError."""
    instance = running.instance
    file = instance.files["policy"]
    if file.path is not None and file.is_there is not False and instance.policy is None:
        raise UsageError(f"the policy of {instance.name} ({file.path}) {file.problem}")
    return running.machine.name, running.place_of("policy")[0]


def _find_others(site: OpensmSite, found_sms: FoundSms) -> None:
    """Note the other SMs in *site*: those whose policy file can be reached, and those whose file cannot."""
    untold = [each.name for each in found_sms.report.instances() if each.port_guid is None]
    missing = explain_missing_opensm(untold)
    known = {_place_of_policy(site.master)}
    standbys, unreached = [], []
    for manager, running in found_sms.non_masters():
        site.other_sm_count += 1
        state = manager.state or "IsSM is set, SMInfo not answered"
        if running is None:
            unreached.append(f"the SM at {manager.port} ({state}): {missing}")
            continue
        try:
            place = _place_of_policy(running)
        except (UsageError, FileError) as error:
            unreached.append(f"the SM at {manager.port} ({state}): {error}")
            continue
        if place not in known:
            known.add(place)
            standbys.append(running)
    unreached += [f"host {host.name}: {host.error}" for host in found_sms.report.hosts if host.error]
    with Journal.read(site.writer.fabric.stores.journal) as journal:
        away = managers_away(journal, site.writer.managers, "policy")
        site.last_change = last_change(journal, site.writer.managers)
        site.earlier_sms = frozenset(guid for each in known_managers(journal).values() for guid in each)
    unreached += away.unaccepted
    site.notes += away.accepted
    site.standbys, site.out_of_reach, site.left_out = tuple(standbys), tuple(unreached), away.accepted


def policy_for(plan: PartitionPlan, site: OpensmSite) -> Policy:
    """Return the policy of a plan. Raises UsageError if the plan disconnects ports or was made for other options than
    those of *site*, FileFormatError for a policy that OpenSM would refuse, and if the plan does not have its text."""
    if plan.options.disconnect_unconfigured:
        raise UsageError(
            "the plan disconnects ports that no partition names, which OpenSM cannot do: plan again without "
            + given("--disconnect-unconfigured")
        ).explained("OpenSM gives each port its default P_Key.")
    text, made_for = plan.policy.require_text(), plan.sm_options
    policy = parse_policy(text, plan.policy.file)
    policy.require_accepted()
    if made_for is not None and (made_for.enforce, made_for.allow_both_pkeys) != (
        site.options.enforce,
        site.options.allow_both_pkeys,
    ):
        raise UsageError(
            f"the plan was made for options that differ from those of {site.master.instance.name}: plan again with "
            + given(
                f"--enforce {site.options.enforce}{' --allow-both-pkeys' if site.options.allow_both_pkeys else ''}",
                f"enforce={site.options.enforce!r}, allow_both_pkeys={site.options.allow_both_pkeys}",
            )
        ).explained(
            f"The plan: enforcement {made_for.enforce}, allow_both_pkeys {str(made_for.allow_both_pkeys).upper()}.",
            f"OpenSM: enforcement {site.options.enforce}, allow_both_pkeys "
            f"{str(site.options.allow_both_pkeys).upper()}.",
        )
    return policy
