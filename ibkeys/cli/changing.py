"""What all changing commands do: plan, show, check the interlocks, ask, apply, report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import exits
from ibkeys.cli.exits import write
from ibkeys.cli.given import given_options
from ibkeys.cli.options import Changing
from ibkeys.cli.render import IDENTITY, NOTHING, heading_of, write_csv, write_json
from ibkeys.errors import Refused

if TYPE_CHECKING:
    from ibkeys.change.consent import Question
    from ibkeys.change.plan import Plan
    from ibkeys.change.writer import Writer
    from ibkeys.fabric.live import Fabric

_ASKED: Final = "confirmation"


@dataclass(slots=True)
class Missing:
    """What a change to every port could not do: ``errors`` and ``unreached`` as showing commands have them."""

    errors: list[dict[str, Any]] = field(default_factory=list)
    unreached: int = 0


def change(
    fabric: Fabric,
    command: str,
    consent: Changing,
    format: str,
    make_plan: Callable[[Writer], Plan],
    missing: Missing | None = None,
) -> int:
    """Carry out one changing command and return its exit code: 0 done or nothing to do, 1 a dry run with changes.

    Raises Refused (exit 4) for an interlock, and where nobody said yes; what planning and applying raise.
    """
    with writer_of(fabric, command, consent) as writer:
        plan = make_plan(writer)
        document = plan.to_json()
        warn_of(plan)
        if format == "table":
            _write_changes(document, write)
        applied = False
        if plan.pending and consent.dry_run:
            warn_of_refusals(writer, plan)
        elif plan.pending:
            writer.check(plan)
            exits.require_stdout()  # nothing is changed that could not be shown
            confirm(
                consent, lambda: None if format == "table" else _write_changes(document, say), questions=plan.questions
            )
            writer.apply(plan)
            applied = True
    if missing is not None:
        missing.errors += [{**trouble.port.identity(), "error": trouble.error} for trouble in plan.troubles]
        document |= {"errors": missing.errors, "unreached": missing.unreached}
    _report(command, document, consent.dry_run, applied, format)
    return exits.SAYS_NO if consent.dry_run and plan.pending else exits.DONE


def writer_of(fabric: Fabric, command: str, consent: Changing) -> Writer:
    """Return the writer of a changing command, with what the user agreed to, and what the journal says was asked for.

    Raises UsageError for an interlock that there is not.
    """
    from ibkeys.change.consent import Consent
    from ibkeys.change.writer import Writer

    agreed = Consent(consent.force, frozenset(consent.override))
    return Writer(fabric, command, agreed, consent.dry_run, given_options())


def warn_of(plan: Plan) -> None:
    """Say the plan's notes on standard error."""
    for note in plan.notes:
        exits.warn(note, "note")


def warn_of_refusals(writer: Writer, plan: Plan) -> None:
    """Say on standard error which interlocks would refuse the plan of a dry run."""
    for objection in writer.not_overridden(plan):
        exits.warn(
            f"by interlock {objection.interlock}: {objection.message} ({objection.how_to_override})", "would be refused"
        )
    for question in plan.questions:
        exits.warn(f"{question.text}; {question.answer} says yes to it", "would be asked")


def say(line: str) -> None:
    """Write a line to standard error: what is asked about, where standard output is for a program."""
    print(line, file=sys.stderr)


def confirm(
    consent: Changing,
    show: Callable[[], None] = lambda: None,
    question: str = "Make this change?",
    questions: Sequence[Question] = (),
) -> None:
    """Ask on the terminal unless the user said yes beforehand. *show* shows what is asked about, where it was not seen.
    *questions* come before; --yes answers them too, and then each is a note that names the option for it.

    Raises Refused when the answer is not yes, and where there is no terminal to ask on.
    """
    if consent.yes:
        for each in questions:
            exits.warn(f"{each.text}; {each.answer} says that this is meant", "note")
        return
    if not _is_a_terminal():
        more = "".join(f"; {each.text}: {each.answer} says yes to it" for each in questions)
        raise Refused(
            "nothing was changed: this command asks before it changes anything, and there is no terminal to ask on; "
            f"--yes goes ahead{more}",
            _ASKED,
        )
    show()
    for text in [*(f"{each.text}. Is that meant?" for each in questions), question]:
        print(f"{exits.clean(text)} [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise Refused("nothing was changed: the answer was not yes", _ASKED)


def _is_a_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _write_changes(document: dict[str, Any], put: Callable[[str], None]) -> None:
    if not document["ports"]:
        put("nothing to change")
    for port in document["ports"]:
        put(heading_of(port))
        for each in port["changes"]:
            put(f"  {name_of(each)}: {_value(each['before'])} -> {_value(each['after'])}")


def name_of(each: dict[str, Any]) -> str:
    """Return what changes, in the standard's words: ``P_Key[3]``, ``M_KeyProtectBits``."""
    from ibkeys.mad.attributes import PortInfo

    if each["index"] is not None:
        return f"P_Key[{each['index']}]"
    row = PortInfo.rows.get(each["kind"])
    return row.name if row else str(each["kind"])


def _value(value: object) -> str:
    return NOTHING if value is None else str(value)


def _report(command: str, document: dict[str, Any], dry_run: bool, applied: bool, format: str) -> None:
    if format == "json":
        write_json(command, {"dry_run": dry_run, "applied": applied, **document})
    elif format == "csv":
        columns = ("kind", "index", "before", "after")
        rows = [{**port, **each} for port in document["ports"] for each in port["changes"]]
        write_csv([*IDENTITY, *columns], rows)
    elif applied and not document.get("errors"):
        write("done, verified by a fresh read")
    elif applied:
        write("done, verified by a fresh read, but for the ports named below")
    elif dry_run and document["ports"]:
        write("dry run: nothing was changed")
