"""The audit before and after a hardening, and the options for the wanted state of the fabric."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ibkeys.audit.findings import SEVERITIES, Profile, Severity
from ibkeys.cli import exits, options
from ibkeys.cli.audit.compared import ComparedSources, input_of, read_comparisons, waivers_of
from ibkeys.cli.audit.shared_options import DEFAULT_PROFILE, PROFILE, SM_GUIDS, WAIVERS
from ibkeys.cli.options import Where
from ibkeys.cli.types import NearChoice

if TYPE_CHECKING:
    from ibkeys.audit.findings import Report
    from ibkeys.scripting import Fabric


@dataclass(frozen=True, slots=True)
class Goal:
    """The options for the state that the fabric is to reach, and for the changes that are allowed."""

    profile: Profile = options.field_of(PROFILE, DEFAULT_PROFILE)
    fail_on: Severity = options.field(
        "--fail-on",
        type=NearChoice(SEVERITIES),
        default="high",
        help="Fix findings of this severity or worse; they also set the exit status.  [default: high]",
    )
    policy_to_reach: str | None = options.field(  # not "policy": the site file never changes P_Keys
        "--policy", "policy_to_reach", metavar="FILE", help="Change P_Keys to what this partitions.conf says."
    )
    allow_removals: bool = options.flag_field(
        "--allow-removals", help="Remove P_Keys that the policy does not have; full to limited counts as one."
    )
    allow_break: bool = options.field_of(options.allow_break, default=False)
    lease: int = options.number_field(
        "--lease", 1, 65535, "SECONDS", "M_KeyLeasePeriod, above OpenSM's sweep_interval.", default=60, env=False
    )
    sm_guids: tuple[str, ...] = options.field_of(SM_GUIDS, ())
    waivers: str | None = options.field_of(WAIVERS)


goal: Final = options.group("wanted", Goal)


class GoalAudit:
    """The audit before and after a hardening: both have the same rules, profile, waivers and comparisons.

    Files are read once, by the constructor. ``given``: the result of `read_comparisons`.
    """

    def __init__(self, where: Where, goal: Goal) -> None:
        self._where = where
        self.goal = goal
        self._compare = ComparedSources(policy=goal.policy_to_reach, sm_guids=goal.sm_guids, probe_sa=True)
        self.given = read_comparisons(self._compare)
        self._waivers = waivers_of(goal.waivers)
        exits.warn_each(self._waivers.warnings)

    def run(self, fabric: Fabric, dry_run: bool = False) -> Report:
        """Read the fabric, run all rules, and return the report.

        A *dry_run* does not ask the SA with OpenSM's default SA_Key, because an OpenSM with another sa_key writes its
        own key to its log, in clear, each time (osm_sa_mad_ctrl.c, ERR 1A04).
        """
        from ibkeys.audit.catalogue import CATALOGUE
        from ibkeys.audit.engine import audit

        fabric.reload_keys()
        compare = replace(self._compare, with_default_key=not dry_run)
        data, source = input_of(fabric, self._where, self.given, compare)
        return audit(data, self.goal.profile, CATALOGUE, self._waivers, source)
