"""The carriers by name. The journal has the name of the carrier of each apply, and the same carrier finishes or undoes
the operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ibkeys.apply.by_sm.changed_together import ChangedTogether
from ibkeys.apply.by_sm.course import CarrierSettings
from ibkeys.apply.carrier import Carrier
from ibkeys.apply.direct import DirectCarrier
from ibkeys.apply.opensm.carrier import KEPT_SPREADS, OpensmCarrier
from ibkeys.apply.opensm.interlocks import STANDBY_DIFFERS
from ibkeys.apply.ufm.carrier import KEPT_URL, UfmCarrier
from ibkeys.arguments import given
from ibkeys.change.choosing import choose_method, refuse_other_choice
from ibkeys.change.method import AUTO, METHOD
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import HostNotReached, Refused, StoreError, UsageError
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.site import hosts_in, reach
from ibkeys.managers.ufm.access import is_ufm, via_option
from ibkeys.managers.ufm.rest import Ufm
from ibkeys.plan.model import PartitionPlan
from ibkeys.store.journal import PlanRecord


@dataclass(frozen=True, slots=True)
class CarrierChoice:
    """The user's options on the method of a change. ``name``: the name of the carrier; None means the carrier with
    which the operation began, or, for a new operation, the same as `AUTO`: `ibkeys.change.method` chooses.
    ``settings``: options of a change through a subnet manager; ``hosts``: the hosts with OpenSMs, this one first.
    ``may_leave_out``: a host of an earlier operation that does not answer is left out, if ``standby-differs`` is
    overridden. ``url``: the URL of UFM, "" if it is in the journal; ``open_ufm``: returns the UFM at a URL.
    ``command``: the command that was typed, for a message that names it with another --via."""

    name: str | None = None
    settings: CarrierSettings = field(default_factory=CarrierSettings)
    hosts: Sequence[SmHost] = (SmHost(),)
    command: str = ""
    url: str = ""
    open_ufm: Callable[[str], Ufm] | None = None
    may_leave_out: bool = False


def _opensm(writer: ChangeWriter, via: CarrierChoice, options: Mapping[str, Any]) -> Carrier:
    this_host, *others = via.hosts or [SmHost()]
    had_gaps = bool(options.get("breaks"))
    spreads = via.settings.spreads or bool(options.get(KEPT_SPREADS))
    settings = replace(via.settings, gaps=via.settings.gaps or had_gaps, had_gaps=had_gaps, spreads=spreads)
    settings = replace(settings, changed_together=settings.changed_together or ChangedTogether.in_journal(options))
    reached = reach(writer.enter, [this_host])
    notes = []
    for host in others or hosts_in(options):
        try:
            reached += reach(writer.enter, [host])
        except HostNotReached as error:
            if not via.may_leave_out:
                raise
            if not writer.consent.covers(STANDBY_DIFFERS):
                override = given(f"--override {STANDBY_DIFFERS}", f"Consent(overrides={{{STANDBY_DIFFERS!r}}})")
                raise error.going_on(
                    f"if only a standby runs there, {override} leaves its policy file as it is"
                ) from None
            notes.append(f"{error}: left out")
    carrier = OpensmCarrier(writer, reached, settings)
    carrier.notes_on_hosts = notes
    return carrier


def _ufm(writer: ChangeWriter, via: CarrierChoice, options: Mapping[str, Any]) -> Carrier:
    began = options.get(KEPT_URL)
    url = str(began or via.url)
    if via.open_ufm is None:
        raise UsageError(f"the operation goes through UFM at {url}, but the caller gave no access to UFM (open_ufm)")
    if began is not None and via.url and via.open_ufm(via.url).url != began:
        raise UsageError(f"the operation goes through UFM at {began}; omit the URL to continue it")
    return UfmCarrier(writer, via.open_ufm(url), via.settings)


@dataclass(frozen=True, slots=True)
class CarrierRow:
    """A row of `CARRIERS`. ``make``: makes a carrier of this ``kind`` from the user's options and the options in the
    journal."""

    kind: type[Carrier]
    make: Callable[[ChangeWriter, CarrierChoice, Mapping[str, Any]], Carrier]


CARRIERS: Final[Mapping[str, CarrierRow]] = {
    row.kind.name: row
    for row in (
        CarrierRow(DirectCarrier, lambda writer, via, kept: DirectCarrier(writer, via.command)),
        CarrierRow(OpensmCarrier, _opensm),
        CarrierRow(UfmCarrier, _ufm),
    )
}
"""Name → kind of carrier."""


def carrier_for(writer: ChangeWriter, via: CarrierChoice, plan: PartitionPlan) -> Carrier:
    """Return the carrier for *plan*: the one that the user names, else the one that ibkeys chooses. On a simulated
    subnet that is direct.

    Raises Refused (`ibkeys.change.method.METHOD`) if none is chosen or the policy is UFM's, (``stale``) if the plan
    names another method; and the errors of `choose_method` and `carrier_of`.
    """
    if via.name not in (None, AUTO):
        return carrier_of(writer, via)
    if is_ufm(plan.policy.file) and not writer.fabric.is_simulated:
        raise Refused("the policy of the plan is UFM's, and UFM is never chosen as the method", METHOD).unchanged(
            given(f"type it: `{via.command} {via_option(plan.policy.file)}`", "give via=ThroughUFM(URL)")
        )
    choice = choose_method(writer, via.hosts or [SmHost()])
    if choice is None:
        return carrier_of(writer, replace(via, name=DirectCarrier.name))
    refuse_other_choice(plan.method, choice)
    carrier = carrier_of(writer, replace(via, name=choice.require()))
    carrier.choice = choice
    return carrier


def carrier_of(writer: ChangeWriter, via: CarrierChoice, record: PlanRecord | None = None) -> Carrier:
    """Return the carrier of an operation of the journal (direct if it names none, as in earlier versions), or that of a
    new operation.

    Raises StoreError for a carrier that this version does not know, UsageError if the user names another carrier than
    the operation's or another UFM, or gives no access to its UFM; HostNotReached, and the errors of ``open_ufm``.
    """
    kept = record.kept if record is not None else {}
    began = None if record is None else str(kept.get("carrier", DirectCarrier.name))
    name = began or via.name or DirectCarrier.name
    row = CARRIERS.get(name)
    if row is None:
        raise StoreError(
            f"this operation was made through {name!r}, which this version of ibkeys does not know; use a newer version"
        )
    if via.name not in (None, name):
        raise UsageError(
            f"the operation was started with the method {name}, and continues with it: name no other method"
        )
    return row.make(writer, via, kept)
