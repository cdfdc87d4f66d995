"""Comparing the values of ports in four sources: the policy, the SM's own policy file, the SA, and the nodes.

Partition membership, enforcement bits and M_Key protection are compared. P_Key indexes are not compared, nor are values
that no source manages (a switch port without a link, the table of a port between switches).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ibkeys.agreement.causes import AgreementState, Cause, FourViews, ReadByTheSm, ValueFacts, ValueVerdict, judge
from ibkeys.agreement.sm_file import SmFile
from ibkeys.agreement.source_values import NOTHING, PortView, values_of_node, values_of_sa
from ibkeys.agreement.wanted import wanted_values
from ibkeys.fabric.sa_view import SaView
from ibkeys.mad.records import PKeyTableRecord
from ibkeys.partitions.model import Policy
from ibkeys.topology.enforcement import leaf_of
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from ibkeys.topology.subnet_manager import shown_subnet_manager

What = Literal["pkey", "enforcement", "m_key_protection"]


@dataclass(frozen=True, slots=True)
class AgreementValue:
    """One value of a port in the four sources.

    ``partition``: the partition of a P_Key; None for other values, and for an end port if no source names a partition
    of it. The values in the sources are `ibkeys.agreement.source_values.MemberGuids` for a P_Key,
    `ibkeys.topology.enforcement.Enforcement` for enforcement, and `ibkeys.agreement.source_values.Protection` for the
    protection by an M_Key.
    """

    port: Port
    what: What
    partition: int | None
    words: FourViews
    verdict: ValueVerdict


@dataclass(frozen=True, slots=True)
class Inputs:
    """The sources to compare.

    ``found``: a sweep with P_Key tables and SMInfo. ``view``: the SA's records, None if it was not queried. ``policy``:
    None if none was given. ``allow_both``: whether the policy is read with allow_both_pkeys, whatever the master's
    options have. ``sm``: the SM's file, None if it is not known; ``sm_unknown`` then has the reason.
    ``hosts_not_reached``: hosts whose OpenSMs could not be examined, each with the reason.
    """

    found: Topology
    view: SaView | None = None
    policy: Policy | None = None
    allow_both: bool = False
    sm: SmFile | None = None
    sm_unknown: str = ""
    hosts_not_reached: tuple[str, ...] = ()

    @property
    def sa_failures(self) -> tuple[str, ...]:
        """The reasons why the SA did not answer queries; a refusal is an answer."""
        answers = self.view.answers.values() if self.view is not None else ()
        return tuple(dict.fromkeys(each.detail for each in answers if each.outcome == "failed"))


@dataclass(frozen=True, slots=True)
class Agreement:
    """All values of all ports, in the order of the sweep."""

    inputs: Inputs
    values: tuple[AgreementValue, ...]

    @property
    def is_reached(self) -> bool:
        """Whether all sources agree, and everything that should have been read is known."""
        missing = self.inputs.found.troubles or self.inputs.sa_failures or self.inputs.hosts_not_reached
        return not missing and all(value.verdict.state == "agree" for value in self.values)

    def hidden_ports(self) -> int:
        """Return the number of ports for which the SA answered but shows no P_Keys."""
        answers = self.inputs.view.answers if self.inputs.view is not None else {}
        answer = answers.get(PKeyTableRecord.name)
        if answer is None or answer.outcome != "answered":
            return 0
        return len({value.port for value in self.values if value.what == "pkey" and value.words.sa is None})

    def counts(self) -> Counter[AgreementState]:
        """Return the number of values that agree, differ and are unknown."""
        return Counter(value.verdict.state for value in self.values)

    def causes(self) -> Counter[Cause]:
        """Return each cause with the number of values that it explains."""
        return Counter(cause for value in self.values for cause in value.verdict.causes)


def agreement_of(inputs: Inputs) -> Agreement:
    """Compare the values of every port in the policy, the SM's file, the SA and the nodes. Sends nothing."""
    return Agreement(inputs, tuple(_values(inputs)))


def _values(inputs: Inputs) -> Iterator[AgreementValue]:
    found, sm = inputs.found, inputs.sm
    sm_guid = sm.sm_port_guid if sm is not None else shown_subnet_manager(found).port_guid
    enforce = sm.enforce if sm is not None else None
    both = inputs.allow_both or (sm is not None and sm.allow_both)
    policy: Mapping[Port, PortView] = {}
    if inputs.policy is not None:
        policy = wanted_values(inputs.policy, found, sm_guid, allow_both=both, enforce=enforce)
    file: Mapping[Port, PortView] = {}
    if sm is not None:
        file = wanted_values(
            sm.policy, found, sm_guid, allow_both=sm.allow_both, enforce=enforce, protection=sm.protection
        )
    least = 1 if inputs.sa_failures else 2
    leaves = {leaf for port in found.end_ports() if (leaf := leaf_of(port)) is not None}
    for port in found.ports():
        views = _Four(
            policy.get(port, NOTHING), file.get(port, NOTHING), values_of_sa(inputs.view, port), values_of_node(port)
        )
        if port.is_end_port or (port in leaves and port.capacity):
            yield from _p_keys(port, views, sm.policy_read if sm is not None else "unknown", least)
        by_options = ValueFacts(sm.options_read if sm is not None else "unknown", not port.is_known_inactive)
        if port.is_end_port:
            yield from _option(port, "m_key_protection", views.protection(), by_options, least)
        elif port.peer is not None and port.capacity:
            yield from _option(port, "enforcement", views.enforcement(), by_options, least)


class _Four(NamedTuple):
    """One port in the four sources."""

    policy: PortView
    sm_file: PortView
    sa: PortView
    node: PortView

    def members(self, partition: int) -> FourViews:
        return FourViews(*(view.of(partition) for view in self))

    def partitions(self) -> list[int]:
        """Return the partitions that any source names."""
        return sorted({partition for view in self for partition in (*(view.keys or ()), *view.uncertain)})

    def enforcement(self) -> FourViews:
        """Return the enforcement bits in the sources; they are an option of the SM, so a policy has none."""
        return FourViews(None, self.sm_file.enforcement, self.sa.enforcement, self.node.enforcement)

    def protection(self) -> FourViews:
        return FourViews(None, self.sm_file.protection, self.sa.protection, self.node.protection)


def _p_keys(port: Port, views: _Four, file: ReadByTheSm, least: int) -> Iterator[AgreementValue]:
    has_room = port.occupied is None or port.capacity is None or len(port.occupied) < port.capacity
    facts = ValueFacts(file, not port.is_known_inactive, has_room)
    partitions = views.partitions()
    if not partitions and port.is_end_port:
        yield AgreementValue(port, "pkey", None, views.members(0), judge(views.members(0), facts))
    for partition in partitions:
        words = views.members(partition)
        if port.is_end_port or _is_comparable(words, least):
            yield AgreementValue(port, "pkey", partition, words, judge(words, facts))


def _option(port: Port, what: What, words: FourViews, facts: ValueFacts, least: int) -> Iterator[AgreementValue]:
    if _is_comparable(words, least):
        yield AgreementValue(port, what, None, words, judge(words, facts))


def _is_comparable(words: FourViews, least: int) -> bool:
    """Return whether at least *least* sources have a value, so that the value is compared.

    *least* is 2, because a value in only one source need not be managed. It is 1 if the query to the SA failed, because
    the SA may have the value too.
    """
    return sum(word is not None for word in words) >= least
