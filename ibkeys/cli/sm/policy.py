"""Reading policies, also by words in place of a file's name.

``opensm`` is the policy that the master on this host uses; ``ufm:URL`` is the partitions of a UFM.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ibkeys.cli import exits
from ibkeys.cli.given import is_typed
from ibkeys.cli.listing.partition_names import names_in
from ibkeys.cli.sm.hosts import settings_of
from ibkeys.cli.sm.ufm import UfmOptions, ufm_policy
from ibkeys.errors import FileFormatError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ibkeys.cli.listing.filters import PortFilter
    from ibkeys.managers.hosts import SmHost
    from ibkeys.managers.master_policy import MasterPolicy
    from ibkeys.partitions.model import Policy
    from ibkeys.source import Source


def is_opensm(name: str | None) -> bool:
    """Return whether *name* means the master's policy; a file of this name is typed ``./opensm``."""
    return name == "opensm"


def read_accepted(name: str, ufm: UfmOptions | None = None) -> Policy | None:
    """Return the policy of the file or UFM *name*; None if *name* is ``opensm``.

    *ufm*: the options for a UFM; None if only a file is possible. Raises FileFormatError, also for a policy that OpenSM
    would reject; UsageError, UfmNotReached and UfmRefused for a UFM.
    """
    from ibkeys.managers.ufm.access import is_ufm
    from ibkeys.partitions.reader import read_policy

    if is_opensm(name):
        return None
    if ufm is not None and is_ufm(name):
        return ufm_policy(name, ufm)
    refuse_url(name)
    policy = read_policy(name)
    policy.require_accepted()
    return policy


def require_file(name: str, why: str) -> None:
    """Raise UsageError with the message *why* if *name* is ``opensm``, a UFM or a URL, and not a file.

    The message does not repeat *name*: a URL may hold a password.
    """
    from ibkeys.managers.ufm.access import is_ufm

    if is_opensm(name) or is_ufm(name) or "://" in name:
        raise UsageError(why)


def refuse_url(name: str) -> None:
    """Raise UsageError for a URL in place of a policy file.

    The message does not repeat it, because it may hold a password.
    """
    if "://" in name:
        raise UsageError(
            "the policy is a URL: write ufm:URL, with ufm in lower case, and only for commands that can query UFM"
        )


def refuse_with_a_file(policy: str | None, option: str) -> None:
    """Raise UsageError for a *policy* or *option* (click's name) that needs the fabric, if --from names a file."""
    if is_opensm(policy):
        raise UsageError(
            "--policy opensm needs the fabric to find the master, and --from reads a file: name the policy file"
        )
    if is_typed(option):
        raise UsageError(f"--from reads a file, not the fabric: omit --{option.replace('_', '-')}")


def master_policy(source: Source, hosts: Sequence[SmHost] | None = None, *, can_name_file: bool = True) -> MasterPolicy:
    """Return the policy of the master. A note on standard error names the file.

    *hosts*: the hosts that the user named, this one first; None if the command has no option for them.
    *can_name_file*: whether the command has an option for a policy file. Raises UsageError for a snapshot, and if the
    master is on none of these hosts; FileFormatError for its files, and HostNotReached.
    """
    from ibkeys.fabric.live import LiveFabric
    from ibkeys.managers.master_policy import policy_of_master

    if not isinstance(source, LiveFabric):
        raise UsageError("opensm needs the fabric to find the master, and --from reads a file: name the policy file")
    here = hosts[0].entry if hosts else settings_of(None).here
    master = policy_of_master(
        source, here, others=hosts[1:] if hosts is not None else None, can_name_file=can_name_file
    )
    exits.warn_each(master.notes, "note")
    return master


def policy_if_known(source: Source, verbose: bool) -> Policy | None:
    """Return the policy of the master if that is an OpenSM on this host, for a command that can do without; else None.

    A note on standard error says if the policy cannot be read or OpenSM would refuse it; with *verbose* also which file
    it is, or why there is none.
    """
    from ibkeys.fabric.live import LiveFabric

    if not isinstance(source, LiveFabric) or source.is_simulated:
        return None
    from ibkeys.managers.master_policy import policy_of_master

    try:
        master = policy_of_master(source, settings_of(None).here)
    except (UsageError, FileFormatError) as error:
        if verbose or isinstance(error, FileFormatError):
            exits.note(f"no names of partitions: {error}")
        return None
    if verbose:
        exits.warn_each(master.notes, "note")
    return master.policy


def name_partitions(filters: PortFilter, source: Source, verbose: bool, policy: Policy | None = None) -> None:
    """Look up the partitions that *filters* choose by name, in *policy*; None: in the master's policy, if it is known.

    Raises UsageError for a name that is not known, EncodeError for an invalid P_Key.
    """
    if filters.partition_names:
        known = policy if policy is not None else policy_if_known(source, verbose)
        filters.take_partitions(names_in(known))


def partition_names_here() -> Mapping[int, str]:
    """Return the names of partitions in the policy of the only OpenSM of this host, for a command without a fabric.

    None are known if this host has no OpenSM or several. Raises FileFormatError.
    """
    from ibkeys.managers.master_policy import policy_of_only_one

    try:
        return names_in(policy_of_only_one(settings_of(None).here, require_accepted=False).policy)
    except UsageError:
        return {}


def only_policy() -> Policy:
    """Return the policy of the only OpenSM of this host, without a fabric.

    A note on standard error names the file. The policy may be one that OpenSM would reject. Raises UsageError if this
    host has no OpenSM or several; FileFormatError for its files.
    """
    from ibkeys.managers.master_policy import policy_of_only_one
    from ibkeys.store.paths import store_paths

    named = os.environ.get("IBKEYS_JOURNAL")  # policy-check has no option for it
    journal = store_paths(journal=named).journal
    policy_in_use = policy_of_only_one(settings_of(None).here, require_accepted=False, journal=journal)
    exits.warn_each(policy_in_use.notes, "note")
    return policy_in_use.policy
