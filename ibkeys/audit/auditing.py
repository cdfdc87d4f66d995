"""The audit for scripts: of an open fabric or a snapshot, against a policy, baseline or waivers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ibkeys.arguments import require
from ibkeys.audit.catalogue import CATALOGUE
from ibkeys.audit.engine import DEFAULT_PROFILE, audit
from ibkeys.audit.findings import PROFILES, Profile, Report
from ibkeys.audit.gather import look_at_store
from ibkeys.audit.inputs import AuditInput, Thresholds
from ibkeys.audit.rule import Rule
from ibkeys.audit.waivers import Waivers, read_waivers
from ibkeys.errors import UsageError
from ibkeys.fabric.recorded import RecordedFabric
from ibkeys.partitions.model import Policy
from ibkeys.partitions.reader import read_policy

if TYPE_CHECKING:
    from ibkeys.fabric.snapshot import Snapshot
    from ibkeys.store.paths import StorePaths


class AuditSource(Protocol):
    """The source of an audit: an open fabric or a snapshot (`ibkeys.Source`)."""

    def take_snapshot(self) -> Snapshot:
        """Read everything that a snapshot holds in one sweep, and return the snapshot."""


def run(
    source: AuditSource,
    *,
    rules: Sequence[Rule] = CATALOGUE,
    profile: Profile = DEFAULT_PROFILE,
    policy: Policy | str | Path | None = None,
    baseline: RecordedFabric | None = None,
    waivers: Waivers | str | Path | None = None,
    thresholds: Thresholds | None = None,
) -> Report:
    """Read *source* once, run *rules* over the data, and return the report.

    A rule that lacks data which could not be read has the result unknown; it never passes.

    *policy*: the partitions.conf that P_Key tables are compared with. *baseline*: an earlier snapshot from
    `ibkeys.load`, with which counters and indexes are compared. *waivers*: findings that are accepted. *thresholds*:
    the limits that rules compare with. The key store of an open fabric is examined; files of this host are not, so the
    rules that need them are unknown.

    Raises the errors of `Source.take_snapshot`, UsageError (an argument of a wrong type, profile), FileFormatError
    (policy, waivers), StoreError, StoreSealed.
    """
    if not hasattr(source, "take_snapshot"):
        raise UsageError(f"source= takes an open fabric or the result of ibkeys.load, not {type(source).__name__}")
    require("rules", rules, Collection, "rules")
    for rule in rules:
        require("rules", rule, Rule, "rules, as ibkeys.audit.select returns them")
    if profile not in PROFILES:
        raise UsageError(f"profile {profile!r}: it must be one of {', '.join(PROFILES)}")
    if isinstance(policy, str | Path):
        policy = read_policy(policy)
    if policy is not None:
        require("policy", policy, Policy, "a file or an ibkeys.partitions.Policy")
        policy.require_accepted()
    if isinstance(waivers, str | Path):
        waivers = read_waivers(Path(waivers), datetime.now(UTC).date())
    require("waivers", waivers, (Waivers, type(None)), "a file or an ibkeys.audit.Waivers")
    require("baseline", baseline, (RecordedFabric, type(None)), "the result of ibkeys.load")
    require("thresholds", thresholds, (Thresholds, type(None)), "an ibkeys.audit.Thresholds")
    snapshot = source.take_snapshot()
    stores: StorePaths | None = getattr(source, "stores", None)
    data = AuditInput(
        snapshot,
        policy=policy,
        baseline=baseline.snapshot if baseline is not None else None,
        store=look_at_store(stores.keystore, stores.journal, stores.passphrase) if stores is not None else None,
        thresholds=thresholds or Thresholds(),
    )
    about = snapshot.about
    return audit(data, profile, rules, waivers, f"{about.ca_name} port {about.port} of {about.host}")
