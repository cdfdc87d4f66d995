"""The command `audit`: rules over a fabric or a snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from ibkeys.audit.findings import Profile
from ibkeys.cli import exits, options
from ibkeys.cli.audit.compared import ComparedSources, compare, read_input, waivers_of, words_of
from ibkeys.cli.audit.formats import (
    FOR_CHECKS,
    FOR_OTHERS,
    ForChecks,
    code_of,
    for_checks_of,
    for_checks_options,
    text_for_others,
    write_for_checks,
)
from ibkeys.cli.audit.shared_options import DEFAULT_FAIL_ON, DEFAULT_PROFILE, FAIL_ON, PROFILE, WAIVERS, FailOn
from ibkeys.cli.comparing.replaced import note_replaced
from ibkeys.cli.documents.audit import AUDIT, WITHOUT_REMEDY
from ibkeys.cli.exits import write, write_exact
from ibkeys.cli.help.command import command
from ibkeys.cli.listing.aliases import note_aliases
from ibkeys.cli.listing.filters import PortFilter
from ibkeys.cli.mkeys.asking_class_keys import ASK_UNKEYED, CLASS_KEYS, ask_all_ports, refuse_unkeyed_alone
from ibkeys.cli.opening import load
from ibkeys.cli.options import Listing, Where
from ibkeys.cli.render import write_document
from ibkeys.cli.showing import errors_of, finish
from ibkeys.printable import NAMED
from ibkeys.topology.names.folded import FoldedNames

if TYPE_CHECKING:
    from ibkeys.audit.engine import FabricPart
    from ibkeys.audit.findings import Report
    from ibkeys.audit.inputs import AuditInput

FORMATS: Final = ("table", "json", "csv", *FOR_OTHERS, *FOR_CHECKS)


@dataclass(frozen=True, slots=True)
class RuleChoice:
    """The options of `audit`: the rules to run, their severities, the results to show, and other documents to write.

    ``explain``: the rule to explain; None: an audit.
    """

    profile: Profile = options.field_of(PROFILE, DEFAULT_PROFILE)
    fail_on: FailOn = options.field_of(FAIL_ON, DEFAULT_FAIL_ON)
    check: tuple[str, ...] = options.field(
        "--check", multiple=True, metavar="ID[,ID...]", help="Only these rules; repeatable."
    )
    group: tuple[str, ...] = options.field(
        "--group",
        multiple=True,
        metavar="GROUP[,...]",
        help="Only rules of these groups: MK, KF, CK, PK, SE, QK, SM, HY.",
    )
    skip: tuple[str, ...] = options.field(
        "--skip", multiple=True, metavar="ID[,ID...]", help="Skip these rules; repeatable."
    )
    waivers: str | None = options.field_of(WAIVERS)
    no_remedy: bool = options.field("--no-remedy", is_flag=True, help="Omit the remedies.")
    for_checks: ForChecks = options.field_of(for_checks_options)
    class_keys: bool = options.field_of(CLASS_KEYS, default=False)
    ask_unkeyed: bool = options.field_of(ASK_UNKEYED, default=False)
    explain: str | None = options.field(
        "--explain", env=False, metavar="ID", help="Explain a rule; the fabric is not read."
    )


@command("audit")
@compare
@options.group("choice", RuleChoice)
@options.format_of(FORMATS, "Format of the report.  [default: table]")
@options.listing
@options.reading
def audit(where: Where, compared: ComparedSources, choice: RuleChoice, listing: Listing, format: str) -> int:
    """Check all keys of a fabric, or of a snapshot, by rules.

    Each rule passes, fails, is unknown, does not apply or is waived. Unknown never counts as a pass: data that
    could not be read makes every rule that needs it unknown. Exit status 1: a rule fails at the severity of
    --fail-on or worse. Exit status 3: something that should have been read was not, regardless of the findings. With
    a filter the rules still see the whole fabric, but findings about other ports are left out of the report and of
    the exit status.
    """
    from ibkeys.audit.catalogue import rule_named, select
    from ibkeys.cli.audit.text import write_explanation

    if choice.explain is not None:
        write_explanation(rule_named(choice.explain), format)
        return exits.DONE
    from ibkeys.audit.engine import audit as run_audit

    folded, chosen = listing.is_folded(format), PortFilter(listing)
    rules = select(words_of(choice.check), words_of(choice.group), words_of(choice.skip))
    refuse_unkeyed_alone(choice.class_keys, choice.ask_unkeyed)
    tenancies = for_checks_of(choice.for_checks, format, chosen.is_given)
    ask_class_keys = partial(ask_all_ports, ask_unkeyed=choice.ask_unkeyed, pkey_index=compared.pkey_idx)
    data, source = read_input(where, compared, ask_class_keys if choice.class_keys else None, chosen)
    if format in FOR_CHECKS:
        return write_for_checks(data, format, choice.for_checks, tenancies)
    part = _part_of(data, chosen)
    _say_unmatched(data)
    waivers = waivers_of(choice.waivers)
    report = run_audit(data, choice.profile, rules, waivers, source, part)
    exits.warn_each([*waivers.warnings, *waivers.unused(rule.id for rule in rules)])
    note_replaced(report.moved or (), compared.baseline or "")
    code = code_of(report, choice.fail_on)
    if format in FOR_OTHERS:
        text = text_for_others(report, rules, format, choice.fail_on, not choice.no_remedy, code)
        write_exact(text.rstrip("\n"))
    else:
        _write(report, data, format, choice, folded)
        if format == "table" and not choice.no_remedy:
            _write_next(report, data, compared.policy, where.snapshot)
    finish(errors_of(data.fabric, part.concerns) if part is not None else errors_of(data.fabric), format)
    for question, probe in data.snapshot.sa_probes.items():
        if probe.answer == "failed":
            exits.warn(f"the SA could not be queried ({question}): {probe.detail}", "error")
    return code


def _write_next(report: Report, data: AuditInput, policy: str | None, recorded: str | None) -> None:
    from ibkeys.cli.audit.next_step import next_step

    step = next_step(report, data, policy, recorded)
    if step is not None:
        write(f"next: {step}")


def _part_of(data: AuditInput, chosen: PortFilter) -> FabricPart | None:
    """Return the part of the fabric that the filters choose; None without filters.

    Raises AddressError, and the errors of `load`.
    """
    from ibkeys.audit.engine import FabricPart

    if not chosen.is_given:
        return None
    chosen.look_up(data.fabric)
    if chosen.since is not None:
        chosen.compare(load(chosen.since), data.snapshot)
    return FabricPart(chosen.keeps, chosen.is_about, chosen.concerns)


def _say_unmatched(data: AuditInput) -> None:
    """Write a note on the GUIDs of the policy that no port has: such a GUID is misspelled, or is of another fabric."""
    named = data.resolution.unmatched if data.resolution is not None else ()
    aliases = note_aliases(data.fabric, "the policy", [rule.guid for rule in named])
    unmatched = [rule for rule in named if rule.guid not in aliases]
    if unmatched:
        what = "GUID that is" if len(unmatched) == 1 else "GUIDs that are"
        more = f" and {len(unmatched) - NAMED} more (`ibkeys plan` names them all)" if len(unmatched) > NAMED else ""
        listed = ", ".join(map(str, unmatched[:NAMED])) + more
        exits.note(f"the policy names {len(unmatched)} {what} not on this fabric: {listed}")


def _write(report: Report, data: AuditInput, format: str, choice: RuleChoice, folded: bool) -> None:
    from ibkeys.cli.audit.text import csv_rows, write_table_report

    with_remedy = not choice.no_remedy
    document = AUDIT if with_remedy else AUDIT._replace(rows=WITHOUT_REMEDY)
    rows = (row for result in report.results for row in csv_rows(result))
    if not write_document(format, document, lambda: report.to_json(with_remedy), rows):
        names = FoldedNames(map(data.identity, data.fabric.ports()), data.fabric)
        write_table_report(report, with_remedy, folded, names, lists_all=bool(choice.check))
