"""Collecting all sources: the nodes by a sweep, the SA, and the hosts of the master; on request repeatedly until they
agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ibkeys.agreement.agreement import Agreement, Inputs, agreement_of
from ibkeys.agreement.sm_file import sm_file_of
from ibkeys.change.clock import Clock
from ibkeys.client.sa import SaClient
from ibkeys.discovery.wanted import OnFound, Wanted
from ibkeys.errors import HostNotReached, UsageError
from ibkeys.fabric.live import LiveFabric
from ibkeys.fabric.sa_view import ask_sa_view
from ibkeys.managers.hosts import SmHost, report_on_hosts
from ibkeys.managers.opensm.on_this_host import own_socket
from ibkeys.managers.report import join_reports
from ibkeys.managers.subnet_managers import managers_of
from ibkeys.partitions.model import Policy

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 5.0
"""The longest pause in seconds between two comparisons: each is a sweep of the whole fabric."""
_NO_HOSTS: Final = "a simulated subnet has no OpenSM on this host"


@dataclass(frozen=True, slots=True)
class SourcesToRead:
    """The sources to read.

    ``hosts``: the hosts whose OpenSMs are examined; none for a simulated subnet. ``needs_sm_file``: the comparison is
    of no use without the SM's own file.
    """

    fabric: LiveFabric
    sa: SaClient
    hosts: Sequence[SmHost] = ()
    policy: Policy | None = None
    allow_both: bool = False
    needs_sm_file: bool = False

    def once(self, progress: OnFound | None = None) -> Agreement:
        """Read all sources once, and compare them.

        Raises the errors of `LiveFabric.sweep`, `LiveFabric.reload_keys` and `ask_sa_view`, and UsageError or
        HostNotReached if the SM's file is needed and not known.
        """
        if self.needs_sm_file and not self.hosts:
            raise UsageError(f"{_NO_HOSTS}: name the policy file")
        self.fabric.reload_keys()  # another command may have changed some during the pause
        found = self.fabric.sweep(progress=progress, wanted=Wanted(p_keys=True, sm_info=True))
        self.fabric.read_alias_guids(found, self.policy.named_guids if self.policy is not None else ())
        inputs = Inputs(found, None, self.policy, self.allow_both, None, _NO_HOSTS)
        if self.hosts:
            inputs = self._with_sm_file(inputs)
        return agreement_of(replace(inputs, view=ask_sa_view(self.sa, found)))

    def _with_sm_file(self, inputs: Inputs) -> Inputs:
        hosts = report_on_hosts(self.hosts, socket=own_socket())
        silent = tuple(f"host {host.name}: {host.error}" for host in hosts if host.error)
        report = join_reports(managers_of(inputs.found), hosts, [self.fabric.own_guid])
        try:
            return replace(inputs, sm=sm_file_of(report), sm_unknown="", hosts_not_reached=silent)
        except (UsageError, HostNotReached) as error:
            if self.needs_sm_file:
                raise
            return replace(inputs, sm_unknown=str(error), hosts_not_reached=silent)


def wait_for_agreement(look: Callable[[], Agreement], seconds: float, clock: Clock) -> Agreement:
    """Compare until all sources agree, for at most *seconds*; return the last result."""
    end, pause = clock.now() + seconds, _FIRST_PAUSE
    while True:
        agreement = look()
        left = end - clock.now()
        if agreement.is_reached or left <= 0:
            return agreement
        clock.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE)
