"""The carriers by name: the journal notes which one an operation went by, and it is finished and undone by the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ibkeys import jsonfile
from ibkeys.apply.carrier import Carrier
from ibkeys.apply.direct import DirectCarrier
from ibkeys.apply.opensm.carrier import OpensmCarrier
from ibkeys.apply.opensm.course import Settings
from ibkeys.apply.opensm.site import reach
from ibkeys.change.writer import Writer
from ibkeys.errors import FileFormatError, StoreError
from ibkeys.sm.elsewhere.ssh import SshHost
from ibkeys.sm.hosts import SmHost
from ibkeys.store.journal import Journal, OperationRecord, PlanRecord


def _opensm(writer: Writer, kept: Mapping[str, Any], settings: Settings, hosts: Sequence[SmHost]) -> Carrier:
    hosts = hosts if any(each.ssh is not None for each in hosts) else [*hosts[:1], *hosts_in(kept)]
    had_gaps = bool(kept.get("breaks"))
    settings = replace(settings, gaps=settings.gaps or had_gaps, had_gaps=had_gaps)
    return OpensmCarrier(writer, reach(writer, hosts), settings)


def _direct(writer: Writer, kept: Mapping[str, Any], settings: Settings, hosts: Sequence[SmHost]) -> Carrier:
    return DirectCarrier(writer, str(kept.get("command", "")))


CARRIERS: Final[Mapping[str, Callable[[Writer, Mapping[str, Any], Settings, Sequence[SmHost]], Carrier]]] = {
    DirectCarrier.name: _direct,
    OpensmCarrier.name: _opensm,
}
"""Name → what makes it: of what the journal kept, what the user asks for now, and the hosts that the user named, this
one first."""


def carrier_of(
    writer: Writer,
    record: PlanRecord | None,
    settings: Settings | None = None,
    hosts: Sequence[SmHost] = (),
) -> Carrier:
    """Return the carrier by which an operation of the journal went; those of earlier versions went the direct way, and
    so do operations without a plan. Raises StoreError for one that this version does not know, and HostNotReached."""
    kept = options_of(record)
    return carrier_named(writer, str(kept.get("carrier", DirectCarrier.name)), kept, settings, hosts)


def carrier_named(
    writer: Writer,
    name: str,
    kept: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    hosts: Sequence[SmHost] = (),
) -> Carrier:
    """Return the carrier called *name*. Raises StoreError for one that there is not, and HostNotReached."""
    make = CARRIERS.get(name)
    if make is None:
        raise StoreError(
            f"this operation was made by way of {name!r}, which this ibkeys does not know; use a newer one"
        )
    return make(writer, kept or {}, settings or Settings(), hosts or [SmHost()])


def record_of(journal: Journal, record: OperationRecord) -> PlanRecord | None:
    """Return the plan of an operation; of an undo that of what it gave back. None where there is none."""
    while record.undoes is not None:
        record = journal.find(record.undoes)
    return journal.plan_of(record.id)


def options_of(record: PlanRecord | None) -> dict[str, Any]:
    """Return what the journal kept of an operation besides its plan; nothing where there is none, or it is damaged."""
    if record is None:
        return {}
    try:
        kept = jsonfile.loads(record.options.encode("utf-8", "surrogatepass"))
    except FileFormatError:
        return {}  # who reads the permissions says that this is damaged
    return kept if isinstance(kept, dict) else {}


def hosts_in(kept: Mapping[str, Any]) -> list[SmHost]:
    """Return the hosts that the journal kept. Raises UsageError for what is no host, StoreError for what is no list."""
    try:
        return [
            SmHost(SshHost(str(each["name"]), each["sudo"] is True, each["ssh_config"]))
            for each in kept.get("sm_hosts", [])
        ]
    except (TypeError, KeyError):
        raise StoreError("the journal is damaged: the hosts of the operation cannot be read") from None
