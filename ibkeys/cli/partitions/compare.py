"""The command `compare`: whether policy, the SM's own file, SA and nodes agree, and if not, which differs and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import exits, options
from ibkeys.cli.documents.agreement import COMPARE, COMPARED
from ibkeys.cli.exits import clean, write
from ibkeys.cli.given import refuse_given
from ibkeys.cli.help.command import command
from ibkeys.cli.listing.aliases import note_aliases
from ibkeys.cli.listing.filters import PortFilter
from ibkeys.cli.opening import open_fabric, open_recorded, open_sa
from ibkeys.cli.options import AskSa, Listing, SmHosts, Where
from ibkeys.cli.render import write_document
from ibkeys.cli.screen.colour import ColouredValue, paint
from ibkeys.cli.showing import errors_of, finish, progress_bar, say_notes, write_ports
from ibkeys.cli.sm.hosts import hosts_of
from ibkeys.cli.sm.policy import is_opensm, name_partitions, read_accepted, refuse_with_a_file
from ibkeys.cli.sm.ufm import UfmOptions, ufm_options
from ibkeys.errors import UsageError
from ibkeys.printable import Detail, counted
from ibkeys.topology.names.folded import FoldedNames

if TYPE_CHECKING:
    from ibkeys.agreement.agreement import Agreement, AgreementValue, What
    from ibkeys.agreement.causes import AgreementState
    from ibkeys.partitions.model import Policy

_PORT_OPTIONS: Final = ("--allow-both-pkeys", "--full", "--wait", "--each", "--fold", "--sm-host", "--sudo")
"""Options that have no effect on a comparison of multicast groups."""
_WITHOUT_SA: Final = "the snapshot was taken without --sa, so it has no answers of the SA"


@dataclass(frozen=True, slots=True)
class _CompareOptions:
    """The options of `compare`: the policy, the time to wait for agreement, and the values to list."""

    policy: str | None = options.field_of(
        options.policy(
            "The wanted policy; opensm: the master's own file (an error if it is not found); ufm:URL: UFM's partitions."
        )
    )
    allow_both_pkeys: bool = options.flag_field(
        "--allow-both-pkeys", help="The policy is for an OpenSM with allow_both_pkeys."
    )
    full: bool = options.flag_field("--full", help="List all values, not only those that differ or are unknown.")
    ipoib: bool = options.flag_field(
        "--ipoib", help="Compare only the IPoIB multicast groups of the policy with those in the SA."
    )
    members: bool = options.flag_field("--members", help="With --ipoib: show too which members can join each group.")
    wait: int | None = options.number_field("--wait", 1, 86_400, "S", "Look again for S seconds until all agree.")


@command("compare")
@options.group("command_options", _CompareOptions)
@options.listing_as_is
@options.format
@options.sa
@options.sm_hosts
@ufm_options
@options.reading
def compare(
    where: Where,
    ufm: UfmOptions,
    sm_hosts: SmHosts,
    sa: AskSa,
    command_options: _CompareOptions,
    listing: Listing,
    format: str,
) -> int:
    """Compare policy, SM's file, SA and nodes for every port.

    Compares four sources: the policy (--policy), the master SM's own files, its SA, and the node. Compared are each
    P_Key, enforcement, and level and lease of M_Keys. Where they differ, it shows which source differs and why. Reads
    only. Exits 1 when anything differs, 3 when a value is missing that the comparison needs. With --ipoib it compares
    the multicast groups of the policy with those that the SA has.
    """
    from ibkeys.agreement.looking import SourcesToRead, wait_for_agreement
    from ibkeys.change.clock import REAL_TIME

    if command_options.ipoib:
        return _compare_ipoib(where, ufm, sa, command_options, listing, format)
    refuse_given(["--members"], "{} goes with --ipoib")
    folded, chosen = listing.is_folded(format), PortFilter(listing)
    policy = read_accepted(command_options.policy, ufm) if command_options.policy is not None else None
    if where.snapshot is not None:
        hosts_of(where, sm_hosts)  # raises UsageError for --sm-host, which does not go with a snapshot
        agreement = _of_chosen_ports(_recorded(where, command_options, policy, chosen), chosen)
    else:
        hosts = hosts_of(where, sm_hosts)
        with open_fabric(where) as fabric, progress_bar(where) as progress:
            name_partitions(chosen, fabric, bool(where.verbose), policy)
            client, needs_sm_file = open_sa(fabric, where, sa), is_opensm(command_options.policy)
            sources = SourcesToRead(
                fabric, client, hosts, policy, command_options.allow_both_pkeys, needs_sm_file=needs_sm_file
            )
            if command_options.wait is None:
                agreement = _of_chosen_ports(sources.once(progress), chosen)
            else:
                agreement = wait_for_agreement(
                    lambda: _of_chosen_ports(sources.once(progress), chosen), command_options.wait, REAL_TIME
                )
    return _show(agreement, command_options.full, folded, format, chosen)


def _compare_ipoib(
    where: Where, ufm: UfmOptions, sa: AskSa, command_options: _CompareOptions, listing: Listing, format: str
) -> int:
    from ibkeys.cli.partitions.ipoib import compare_groups_of_ipoib

    if command_options.policy is None:
        raise UsageError("--ipoib needs the policy: --policy FILE, opensm or ufm:URL")
    if where.snapshot is not None:
        raise UsageError("a snapshot has no multicast groups: --ipoib and --from exclude each other")
    if PortFilter(listing).is_given:
        raise UsageError("--ipoib compares groups, not ports: omit the filters")
    refuse_given(_PORT_OPTIONS, "--ipoib and {} exclude each other")
    return compare_groups_of_ipoib(where, ufm, sa, command_options.policy, command_options.members, format)


def _of_chosen_ports(agreement: Agreement, chosen: PortFilter) -> Agreement:
    """Return *agreement* with only the values of ports that the filters choose.

    Raises AddressError for a name in a filter that the fabric does not have.
    """
    if not chosen.is_given:
        return agreement
    chosen.look_up(agreement.inputs.found)
    return replace(agreement, values=tuple(value for value in agreement.values if chosen.keeps(value.port)))


def _recorded(where: Where, command_options: _CompareOptions, policy: Policy | None, chosen: PortFilter) -> Agreement:
    from ibkeys.agreement.agreement import Inputs, agreement_of
    from ibkeys.discovery.wanted import Wanted

    refuse_with_a_file(command_options.policy, "wait")
    recorded = open_recorded(where)
    name_partitions(chosen, recorded, bool(where.verbose), policy)
    topology = recorded.sweep(wanted=Wanted(p_keys=True, sm_info=True))
    recorded.read_alias_guids(topology, policy.named_guids if policy is not None else ())
    view = recorded.snapshot.sa_view
    if view is None:
        exits.note(_WITHOUT_SA)
    why_no_file = Detail("a snapshot does not contain the SM's own file")
    return agreement_of(Inputs(topology, view, policy, command_options.allow_both_pkeys, None, why_no_file))


# --- output -----------------------------------------------------------------------------------------------------------


def _show(agreement: Agreement, full: bool, folded: bool, format: str, chosen: PortFilter) -> int:
    from ibkeys.agreement.document import to_json, to_row

    topology = agreement.inputs.found
    say_notes(topology)
    listed = [value for value in agreement.values if full or value.verdict.state != "agree"]
    errors = errors_of(topology, chosen.concerns)
    counts = chosen.counts_of(topology)

    def document() -> dict[str, Any]:
        part = counts.to_json() if counts is not None else None
        return {"looked_at": part, **to_json(agreement, listed), "errors": errors, "unreached": topology.unreached}

    if not write_document(format, COMPARE, document, map(to_row, listed)):
        if counts is not None:
            write(str(counts))
        _write_words(agreement, listed, folded)
    _note_uncertainties(agreement)
    return _finish(agreement, finish(errors, format))


def _write_words(agreement: Agreement, listed: Sequence[AgreementValue], folded: bool) -> None:
    from ibkeys.agreement.causes import IN_WORDS

    rows = [_row(value) for value in listed]
    if rows:
        topology = agreement.inputs.found
        write_ports(COMPARED, rows, FoldedNames((port.identity() for port in topology.ports()), topology), folded)
    counts = agreement.counts()
    write(f"{len(agreement.values)} values compared: " + ", ".join(_counted(state, counts[state]) for state in _STATES))
    for cause, count in agreement.causes().items():
        write(clean(f"  {count}: {IN_WORDS[cause]}"))


def _counted(state: AgreementState, count: int) -> str:
    text = f"{count} {_STATES[state]}"
    return paint(text, "changed") if state == "differs" and count else text


def _row(value: AgreementValue) -> dict[str, Any]:
    """Return a value as a row for people."""
    from ibkeys.agreement.causes import IN_WORDS
    from ibkeys.agreement.document import to_row

    row = to_row(value)
    what = f"{_WHAT[value.what]} {row['partition'] or ''}".rstrip()
    causes = [IN_WORDS[cause] for cause in value.verdict.causes]
    differs = row["state"] == "differs"
    return {**row, "what": what, "causes": [ColouredValue(cause, "changed") for cause in causes] if differs else causes}


_WHAT: Final[Mapping[What, str]] = {
    "pkey": "P_Key",
    "enforcement": "enforcement",
    "m_key_protection": "M_Key level",
}
_STATES: Final[Mapping[AgreementState, str]] = {"agree": "agree", "differs": "differ", "unknown": "unknown"}


def _note_uncertainties(agreement: Agreement) -> None:
    """Write notes about the SM's own file and the SA's answers, and about sources that are not known."""
    inputs = agreement.inputs
    if inputs.policy is not None:
        note_aliases(inputs.found, inputs.policy.path, inputs.policy.named_guids)
    exits.warn_each(inputs.sm.notes if inputs.sm is not None else (), "note")
    if inputs.sm_unknown:
        say = exits.detail if isinstance(inputs.sm_unknown, Detail) else exits.note
        say(f"the content of the SM's own file is not known: {inputs.sm_unknown}")
    for record, answer in inputs.view.answers.items() if inputs.view is not None else ():
        if answer.outcome == "refused":
            exits.note(f"the SA does not show its {record}s: {answer.detail}")
        elif answer.outcome == "answered" and answer.detail:
            exits.warn(f"this part of the SA's answer was rejected ({record}): {answer.detail}")
    if hidden := agreement.hidden_ports():
        ports = counted(hidden, "port")
        exits.note(f"the SA hides the P_Keys of {ports}: OpenSM shows only ports that share a P_Key with the requester")


def _finish(agreement: Agreement, code: int) -> int:
    """Write errors about facts that could not be determined, and return the exit code.

    *code*: the exit code so far, from the sweep.
    """
    for text in (*agreement.inputs.sa_failures, *agreement.inputs.hosts_not_reached):
        exits.warn(text, "error")
        code = exits.NOT_COMPLETED
    counts = agreement.counts()
    if counts["unknown"]:
        exits.warn(
            f"the result is partial: too little is known about {counts['unknown']} values to compare them", "error"
        )
        code = exits.NOT_COMPLETED
    if code != exits.DONE:
        return code
    return exits.SAYS_NO if counts["differs"] else exits.DONE
