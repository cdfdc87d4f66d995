"""SMs that earlier changes found in this subnet and that are absent now: each has a policy and keys of its own.

A former master that comes back brings its old policy into force, and newer partitions are lost. The journal keeps the
SMs that each start of an operation found, whatever it changes (`ibkeys.store.origin.Origin`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ibkeys.managers.document import guid_text
from ibkeys.managers.policy_checks import NAME
from ibkeys.managers.report import HostReport
from ibkeys.printable import named
from ibkeys.store.journal import Journal
from ibkeys.umad.probe import ProbeResult

_KEPT_MANAGERS: Final = "managers"
"""The name of the SMs among the options of an operation, where earlier versions kept them: port GUID → port."""
_ACCEPTED: Final = "standby-differs"


@dataclass(frozen=True, slots=True)
class ManagersAway:
    """The SMs that earlier changes found and that are absent, in words. ``unaccepted``: those that no change left out
    on purpose yet; ``accepted``: those that a change left out by an override, and that still have their former
    policy."""

    unaccepted: tuple[str, ...]
    accepted: tuple[str, ...]


def managers_away(journal: Journal, present: Mapping[str, str], brings: str) -> ManagersAway:
    """Return the SMs of this subnet that the journal lists and that are absent now. *present*: port GUID → port of the
    SMs that answer; they identify the subnet (`managers_of_subnet`). *brings*: the settings that an absent SM would
    bring back, in words."""
    away: dict[str, str] = {}
    accepted: dict[str, str] = {}
    kept = list(_kept_managers(journal))
    subnet = managers_of_subnet((names for _, names, _ in kept), present)
    for operation, names, is_accepted in kept:
        if subnet.isdisjoint(names):
            continue  # the operation is of another subnet
        if is_accepted:
            accepted |= {guid: f"{text}; operation {operation} left it out on purpose" for guid, text in away.items()}
            away.clear()
        for guid, port in names.items():
            accepted.pop(guid, None)
            away[guid] = (
                f"the SM at {port} (port GUID {guid}), seen in operation {operation}, is not there now, and would "
                f"bring its own {brings} when it comes back"
            )
    return ManagersAway(
        *(tuple(text for guid, text in each.items() if guid not in present) for each in (away, accepted))
    )


def managers_of_subnet(found: Iterable[Collection[str]], present: Collection[str]) -> set[str]:
    """Return the SMs of the subnet of those that are *present*: an operation found them together with one of these, or
    with another SM of the subnet. *found*: the SMs that each operation found; all by their port GUIDs. Thus an
    operation that found the former master alone, while the present one was off, is known to be of this subnet."""
    subnet, others = set(present), list(found)
    while joined := [each for each in others if not subnet.isdisjoint(each)]:
        subnet.update(*joined)
        others = [each for each in others if subnet.isdisjoint(each)]
    return subnet


def check_managers_elsewhere(host: HostReport, journal: Journal) -> Iterator[ProbeResult]:
    """Yield a note for each SM that the last change through OpenSM found and that does not run on this *host*: its
    policy is not known here, and it applies that policy when it takes over."""
    here = {guid_text(each.port_guid) for each in host.instances}
    without_port = [each.name for each in host.instances if each.port_guid is None]
    where = f"may be {named(without_port)}, which does not show its port" if without_port else "is not on this host"
    *_, names = ({}, *(names for _, names, _ in _kept_managers(journal)))
    for guid, port in names.items():
        if guid not in here:
            yield ProbeResult(
                NAME,
                None,
                f"the SM at {port} (port GUID {guid}), known from the journal, {where}: which policy it has is not "
                "known here",
                "compare the SHA-256 of all policies: `ibkeys sm-show --sm-host HOST`",
            )


def known_managers(journal: Journal) -> dict[int, dict[str, str]]:
    """Return the SMs of the subnet that operations found, port GUID → port, by operation. An undo or resume adds those
    that it found. Operations that looked for no SM are left out."""
    earlier = {record.id: _kept_in_options(journal, record.id) for record in journal.list_operations()}
    found = journal.managers()
    names = {operation: kept | found.get(operation, {}) for operation, kept in earlier.items()}
    return {operation: each for operation, each in names.items() if each}


def _kept_managers(journal: Journal) -> Iterator[tuple[int, dict[str, str], bool]]:
    """Yield each operation that found SMs, these SMs (port GUID → port), and whether it left some of them out on
    purpose."""
    for operation, names in known_managers(journal).items():
        yield operation, names, _ACCEPTED in journal.options_of(operation).get("overrides", ())


def _kept_in_options(journal: Journal, operation: int) -> dict[str, str]:
    found = journal.options_of(operation).get(_KEPT_MANAGERS)  # damaged options are reported when it is resumed
    return {str(guid): str(port) for guid, port in found.items()} if isinstance(found, dict) else {}
