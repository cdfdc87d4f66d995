"""The options that name the sources an audit compares the fabric with, and making the input of the rules."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import exits, options, typed
from ibkeys.cli.audit.shared_options import SM_GUIDS
from ibkeys.cli.opening import load, open_fabric, open_recorded, passphrase_of
from ibkeys.cli.options import Where
from ibkeys.cli.showing import say_notes, take_snapshot
from ibkeys.cli.sm.policy import is_opensm, master_policy, name_partitions, read_accepted, refuse_with_a_file
from ibkeys.cli.sm.ufm import UfmOptions, open_ufm, ufm_options
from ibkeys.errors import UsageError
from ibkeys.keys.pkey import DEFAULT_INBOUND_CHECK

if TYPE_CHECKING:
    from ibkeys.audit.inputs import AuditedHost, AuditInput
    from ibkeys.audit.waivers import Waivers
    from ibkeys.cli.listing.filters import PortFilter
    from ibkeys.fabric.snapshot import Snapshot
    from ibkeys.keys.pkey import InboundCheck
    from ibkeys.managers.ufm.sm_settings import UfmSmSettings
    from ibkeys.partitions.model import Policy
    from ibkeys.scripting import Fabric


@dataclass(frozen=True, slots=True)
class ComparedSources:
    """The sources that the fabric is compared with, and the thresholds of rules.

    ``with_default_key`` is no option: whether --probe-sa also asks the SA with OpenSM's default SA_Key.
    """

    policy: str | None = options.field_of(
        options.policy(
            "The policy to compare P_Key tables with; opensm: the policy of the master on this host; ufm:URL: UFM's "
            "partitions."
        )
    )
    allow_both_pkeys: bool = options.flag_field("--allow-both-pkeys", help="OpenSM runs with allow_both_pkeys.")
    baseline: str | None = options.field(
        "--baseline", metavar="SNAPSHOT", help="An earlier snapshot: counters, indexes and cables are compared."
    )
    registry: str | None = options.field(
        "--registry", metavar="FILE", help="File of partition owners, one P_KEY OWNER per line."
    )
    inventory: str | None = options.field(
        "--inventory", metavar="FILE", help="The GUIDs that belong to this fabric, one per line."
    )
    sm_guids: tuple[str, ...] = options.field_of(SM_GUIDS, ())
    max_share: int = options.number_field(
        "--max-share", 1, 1 << 20, "N", "Number of nodes that may share one M_Key.", default=1
    )
    lease_limit: int = options.number_field(
        "--lease-limit", 1, 65535, "SECONDS", "Longest allowed M_Key lease.", default=3600
    )
    sweep_interval: int | None = options.number_field(
        "--sweep-interval", 1, 65535, "SECONDS", "The subnet manager's sweep interval."
    )
    inbound_check: InboundCheck = options.field_of(options.inbound_check, DEFAULT_INBOUND_CHECK)
    probe_sa: bool = options.field_of(options.probe_sa, default=False)
    sm_port: int | None = options.field_of(options.sm_port)
    pkey_idx: int | None = options.field_of(options.pkey_idx)
    ufm_smconf: str | None = options.field(
        "--ufm-smconf", metavar="ufm:URL", help="Ask UFM whether its SM's keys are unset, default or set."
    )
    ufm: UfmOptions | None = options.field_of(ufm_options)
    with_default_key: bool = True


compare: Final = options.group("compared", ComparedSources)


def words_of(values: Iterable[str]) -> list[str]:
    """Return all words of a repeatable option. In each value they are separated by commas, or by blanks."""
    return [word for value in values for word in value.replace(",", " ").split()]


def read_comparisons(compare: ComparedSources) -> dict[str, Any]:
    """Return the keyword arguments of `AuditInput` that come from files, options and UFM.

    Raises FileFormatError, StoreError, EncodeError, UsageError, and for a UFM the errors of `read_sm_settings`.
    """
    from ibkeys.audit.files import read_guids, read_registry
    from ibkeys.audit.inputs import Thresholds

    policy = read_accepted(compare.policy, compare.ufm) if compare.policy is not None else None
    if policy is not None:
        _say_warnings(policy)
    return {
        "policy": policy,
        "allow_both": compare.allow_both_pkeys,
        "baseline": load(Path(compare.baseline)) if compare.baseline is not None else None,
        "registry": read_registry(Path(compare.registry)) if compare.registry is not None else None,
        "inventory": read_guids(Path(compare.inventory)) if compare.inventory is not None else None,
        "sm_guids": _sm_guids(compare.sm_guids),
        "inbound_check": compare.inbound_check,
        "thresholds": Thresholds(compare.max_share, compare.lease_limit, compare.sweep_interval),
        "ufm": _ufm_settings(compare),
    }


def _ufm_settings(compare: ComparedSources) -> UfmSmSettings | None:
    if compare.ufm_smconf is None or compare.ufm is None:
        return None
    from ibkeys.managers.ufm.sm_settings import read_sm_settings

    return read_sm_settings(open_ufm(compare.ufm_smconf, compare.ufm))


def _say_warnings(policy: Policy) -> None:
    exits.warn_each(problem.located(policy.path) for problem in policy.warnings)


def _sm_guids(values: tuple[str, ...]) -> frozenset[int] | None:
    from ibkeys.audit.files import parse_guid, read_guids

    guids: set[int] = set()
    for word in words_of(values):
        guids |= read_guids(Path(word[1:])) if word.startswith("@") else {parse_guid(word)}
    for guid in guids:
        typed.exempt_guid(guid)
    return frozenset(guids) if values else None


def read_input(
    where: Where,
    compare: ComparedSources,
    ask_class_keys: Callable[[Fabric, Snapshot], None] | None = None,
    chosen: PortFilter | None = None,
) -> tuple[AuditInput, str]:
    """Return the input of an audit, from the fabric or from the snapshot of ``--from``, and the name of its source.

    Files are read before anything is sent. *ask_class_keys* adds the keys of other management classes to the snapshot
    of the sweep; with ``--from`` it must be None. *chosen*: the filters, whose partitions are looked up by name.
    Raises UsageError, and the errors of `read_comparisons`, of a sweep and of `load`.
    """
    given = read_comparisons(compare)
    if where.snapshot is not None:
        refuse_with_a_file(compare.policy, "probe_sa")
        if ask_class_keys is not None:
            raise UsageError("--from reads a file, not the fabric: omit --class-keys")
        return recorded_input(where, given, chosen), where.snapshot
    with open_fabric(where) as fabric:
        if chosen is not None:
            name_partitions(chosen, fabric, bool(where.verbose), given["policy"])
        data, source = input_of(fabric, where, given, compare)
        if ask_class_keys is not None:
            ask_class_keys(fabric, data.snapshot)
        return data, source


def input_of(fabric: Fabric, where: Where, given: dict[str, Any], compare: ComparedSources) -> tuple[AuditInput, str]:
    """Sweep the fabric once; return the input of an audit made from the sweep, and the name of the local port.

    *given*: the result of `read_comparisons`. Raises the errors of a sweep.
    """
    from ibkeys.audit.gather import look_at_store
    from ibkeys.audit.inputs import AuditInput
    from ibkeys.fabric.probes import probe_sa

    if is_opensm(compare.policy):
        master = master_policy(fabric)
        _say_warnings(master.policy)
        both = given["allow_both"] or bool(master.allow_both_pkeys)
        given = {**given, "policy": master.policy, "allow_both": both}
    snapshot = take_snapshot(fabric, where, make_secret=False)
    if compare.probe_sa:
        snapshot.sa_probes = probe_sa(
            fabric, compare.sm_port, compare.pkey_idx, with_default_key=compare.with_default_key
        )
    store = look_at_store(fabric.stores.keystore, fabric.stores.journal, fabric.stores.passphrase)
    host = None if fabric.is_simulated else host_of(fabric.stores.keystore, where)
    say_notes(snapshot.fabric)
    about = snapshot.about
    return AuditInput(snapshot, store=store, host=host, **given), f"{about.ca_name} port {about.port} of {about.host}"


def host_of(keystore: Path | None, where: Where) -> AuditedHost:
    """Return the facts about key files and devices of this host. *keystore*: the file of the key store, if any."""
    from ibkeys.audit.gather import report_on_host

    return report_on_host(keystore, [Path(where.security_keys)] if where.security_keys else [])


def recorded_input(where: Where, given: dict[str, Any], chosen: PortFilter | None = None) -> AuditInput:
    """Return the input of an audit made from the snapshot of ``--from``. *given*: the result of `read_comparisons`.

    The key files and devices of this host are examined only if the snapshot was taken on this host, of a real fabric.
    Raises the errors of `load`.
    """
    from ibkeys.audit.gather import look_at_store
    from ibkeys.audit.inputs import AuditInput
    from ibkeys.store.keystore.sealing import Passphrase
    from ibkeys.store.paths import StorePaths, store_paths

    recorded = open_recorded(where)
    if chosen is not None:
        name_partitions(chosen, recorded, bool(where.verbose), given["policy"])
    snapshot = recorded.snapshot
    say_notes(snapshot.fabric)
    own = StorePaths(None, None) if snapshot.about.simulated else store_paths()
    keystore = Path(where.keystore) if where.keystore else own.keystore
    journal = Path(where.journal) if where.journal else own.journal
    store = look_at_store(keystore, journal, Passphrase(passphrase_of(where.keystore_passphrase)))
    is_here = not snapshot.about.simulated and snapshot.about.host == socket.gethostname()
    host = host_of(keystore, where) if is_here else None
    return AuditInput(snapshot, store=store, host=host, **given)


def waivers_of(path: str | None) -> Waivers:
    """Return the waivers of a file, judged by today's date; none without a file. Raises FileFormatError, StoreError."""
    from ibkeys.audit.waivers import Waivers, read_waivers

    return Waivers() if path is None else read_waivers(Path(path), datetime.now(UTC).date())
