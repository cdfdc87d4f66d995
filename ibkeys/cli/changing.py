"""The sequence common to the commands that change a fabric: plan, show, check interlocks, ask, apply, report."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import exits
from ibkeys.cli.addresses import PortArguments
from ibkeys.cli.documents.field import Document
from ibkeys.cli.exits import say, write
from ibkeys.cli.given import given_options, is_from_site
from ibkeys.cli.opening import open_fabric
from ibkeys.cli.options import ChangeOptions, ConsentOptions
from ibkeys.cli.render import heading_of, write_json, write_rows
from ibkeys.cli.screen.colour import paint, role_of_change
from ibkeys.errors import Refused, UsageError

if TYPE_CHECKING:
    from ibkeys.change.consent import Objection, Question
    from ibkeys.change.method import MethodChoice
    from ibkeys.change.plan import Plan
    from ibkeys.change.writer import ChangeWriter
    from ibkeys.fabric.handle import PortHandle
    from ibkeys.fabric.live import LiveFabric
    from ibkeys.store.journal import OperationRecord

_CONFIRMATION: Final = "confirmation"


@dataclass
class ShownChange(ABC):
    """One command's change of the fabric: how it is shown, made and reported.

    `carry_out` runs the steps that all changing commands have in common.
    """

    writer: ChangeWriter
    plan: Plan
    consent: ConsentOptions
    format: str

    def carry_out(self) -> int:
        """Show the plan, check the interlocks, ask, apply, report, and return the exit code.

        A dry run only writes the refusals that the change would meet, and has the exit code of such a refusal. Raises
        Refused (exit 4) for an interlock, and if the user does not confirm the change; and the errors of applying.
        """
        self.say_notes()
        is_table = self.format == "table"
        if is_table:
            self.show(write)
        applied = False
        if self.consent.dry_run:
            self.say_refusals()
        elif self.is_pending:
            self.writer.check(self.plan)
            exits.require_stdout()  # without standard output the result could not be shown: change nothing
            if self.is_asked_about:
                confirm(self.consent, lambda: None if is_table else self.show(say), questions=self.plan.questions)
            self.apply()
            applied = True
        code = self.report(applied)
        return self._refused_code() or code if self.consent.dry_run else code

    def _refused_code(self) -> int:
        """Return the exit code of the refusal that the plan would meet; 0 if there is none."""
        for refusal in self.plan.refusals:
            return exits.exit_code(refusal)
        return exits.REFUSED if self._objections() else 0

    def _objections(self) -> list[Objection]:
        """Return the interlocks that would refuse the plan; an empty list if there is nothing to do."""
        return self.writer.not_overridden(self.plan) if self.is_pending else []

    @property
    def is_pending(self) -> bool:
        """Return whether the plan changes anything."""
        return self.plan.pending

    @property
    def is_asked_about(self) -> bool:
        """Return whether to ask the user before the change. Overridden where nothing is sent."""
        return True

    def say_notes(self) -> None:
        """Write the plan's notes to standard error, before the plan is shown. Those on single steps are left out
        with --yes, because each step is written when it is made."""
        from ibkeys.change.plan import StepNote

        is_made_now = self.consent.yes and not self.consent.dry_run and not exits.explains_all()
        exits.warn_each((note for note in self.plan.notes if not (is_made_now and isinstance(note, StepNote))), "note")

    @abstractmethod
    def show(self, put: Callable[[str], None]) -> None:
        """Write the planned changes with *put*, line by line."""

    def say_refusals(self) -> None:
        """Write the refusals and questions that the real run would meet, to standard error."""
        for refusal in self.plan.refusals:
            exits.warn(str(refusal).removeprefix("refused "), "would be refused", refusal.more)
        say_would_be_refused(self._objections())
        for question in self.plan.questions:
            exits.warn(f"{question.text}; {question.answer} confirms that this is intended", "would be asked")

    def apply(self) -> None:
        """Make the change."""
        self.writer.apply(self.plan)

    @abstractmethod
    def report(self, applied: bool) -> int:
        """Write the result of the change, *applied* or not, and return the exit code."""


def writer_of(
    fabric: LiveFabric, command: str, consent: ConsentOptions, continued: int | None = None, subject: str = ""
) -> ChangeWriter:
    """Return the writer of a changing command, with the user's consent and the options for the journal.

    *command*: its name in the journal. *continued*: the operation that the command continues; None: a new one.
    *subject*: the subject of the change, such as a partition; the journal has it before the options. Notes on standard
    error name the other open operations. Open operations of the command's own kind are left to the plan of a new
    operation, which names them or is refused because of them. Raises UsageError for an interlock that does not exist,
    and StoreError for a journal that cannot be read.
    """
    from ibkeys.change.consent import Consent
    from ibkeys.change.open_operations import notes_on_open
    from ibkeys.change.writer import ChangeWriter
    from ibkeys.store.journal import Journal

    with Journal.read(fabric.stores.journal) as journal:
        for text in notes_on_open(journal, command, continued):
            exits.note(text)
    agreed = Consent(consent.force, frozenset(consent.override))
    options = (*([subject] if subject else []), *given_options())
    return ChangeWriter(fabric, command, agreed, consent.dry_run, options, continued)


def say_would_be_refused(objections: Iterable[Objection]) -> None:
    """Write to standard error the interlocks that would refuse the plan if it were no dry run."""
    for each in objections:
        text = f"by interlock {each.interlock}: {each.message} ({each.how_to_override})"
        exits.warn(text, "would be refused", each.more)


def confirm(
    consent: ConsentOptions,
    show: Callable[[], None] = lambda: None,
    question: str = "Make this change?",
    questions: Sequence[Question] = (),
) -> None:
    """Ask for confirmation on the terminal, unless --yes was given.

    *show* writes the plan if it was not written before. *questions* are asked first; with --yes each is a note that
    names the option that answers it. Raises Refused if an answer is not yes, and if there is no terminal to ask on.
    """
    if consent.yes:
        for each in questions:
            exits.note(f"{each.text}; {each.answer} confirms that this is intended")
        return
    if not is_a_terminal():
        more = "".join(f"; {each.text}: {each.answer} confirms that this is intended" for each in questions)
        raise Refused(
            "nothing was changed: this command asks for confirmation, and there is no terminal for it; --yes skips "
            f"the question{more}",
            _CONFIRMATION,
        )
    show()
    for text in [*(f"{each.text}. Is this intended?" for each in questions), question]:
        say(f"{exits.clean(text)} [y/N]", end=" ")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise Refused("nothing was changed: the answer was not yes", _CONFIRMATION)


def require_typed_method(consent: ConsentOptions, choice: MethodChoice | None) -> None:
    """Raise Refused if ibkeys chose the method of a change and the user cannot confirm this choice.

    The user cannot confirm it with --yes, or without a terminal. A dry run needs no confirmation. *choice*: the choice
    of ibkeys; None if the user chose the method.
    """
    if choice is not None and not consent.dry_run and (consent.yes or not is_a_terminal()):
        raise choice.untyped_refusal()


def show_method(put: Callable[[str], None], method: str, choice: MethodChoice | None) -> None:
    """Write the *method* of a change with *put*, unless the user typed it.

    *choice*: the reason why ibkeys chose the method; None if ibkeys did not choose it. A method from the site file is
    written with a remark.
    """
    if choice is not None:
        put(f"method: {choice}")
    elif is_from_site("via"):
        put(f"method: {method} (site file)")


def end_overtaken(consent: ConsentOptions, why: str | None, close: Callable[[], str], operation: str) -> int:
    """Close an operation whose values another program or administrator has changed; return the exit code.

    *why*: the reason for closing it; None if there is none. *close* closes the operation and returns its name.
    *operation*: the operation and the command to type instead of closing it, for the error. Raises UsageError if *why*
    is None, and Refused without confirmation.
    """
    if why is None:
        raise UsageError(f"--overtaken: no other user or program has changed what was set by {operation}")
    exits.note(why)
    return end_record(consent, close)


def end_record(consent: ConsentOptions, close: Callable[[], str]) -> int:
    """Ask for confirmation, close an operation, and return the exit code. *close* closes it and returns its name.

    A dry run closes nothing. Raises Refused without confirmation.
    """
    if consent.dry_run:
        write("dry run: the operation would be closed; nothing was changed")
        return exits.SAYS_NO
    confirm(consent, question="Close this operation?")
    write(f"{close()} has ended: ports and files stay as they are, and every key stays in the key store")
    return exits.DONE


def is_a_terminal() -> bool:
    """Return whether there is a terminal on which the user can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


# --- changes that are shown value by value ----------------------------------------------------------------------------


@dataclass(slots=True)
class MissingPorts:
    """The ports that a change of every port left out.

    ``errors``: each port that was not read, with the error. ``unreached``: how many CA and router ports have no link to
    this subnet.
    """

    errors: list[dict[str, Any]] = field(default_factory=list)
    unreached: int = 0


def change_port(
    document: Document,
    command_options: ChangeOptions,
    named_port: PortArguments,
    make_plan: Callable[[ChangeWriter, PortHandle], Plan],
) -> int:
    """Change the port *named_port* by the plan that *make_plan* makes. Returns and raises as `change` does.

    Raises also the errors of `open_fabric` and of `LiveFabric.find_port`.
    """
    with open_fabric(command_options.where, changing=True) as fabric:
        return change(
            fabric, document, command_options, lambda writer: make_plan(writer, fabric.find_port(*named_port))
        )


def change(
    fabric: LiveFabric,
    document: Document,
    command_options: ChangeOptions,
    make_plan: Callable[[ChangeWriter], Plan],
    missing: MissingPorts | None = None,
    record: OperationRecord | None = None,
) -> int:
    """Carry out the command that writes *document*, and return its exit code.

    0: done, or nothing to do. A dry run: 1 if there are changes, 4 if they would be refused. *missing*: ports that the
    command left out, for the document; None for a command about one port. *record*: the operation of the journal that
    the command finishes; None: it begins a new one, with the name of the document. Raises Refused (exit 4) for an
    interlock, and if the user does not confirm the change; and the errors of planning and applying.
    """
    command, continued = (record.command, record.id) if record is not None else (document.name, None)
    with writer_of(fabric, command, command_options.consent, continued) as writer:
        plan = make_plan(writer)
        code = _ListedChange(
            writer, plan, command_options.consent, command_options.format, document, missing
        ).carry_out()
        plan.close_if_complete(writer)
        return code


@dataclass
class _ListedChange(ShownChange):
    """A change of values that are shown one by one, before and after."""

    document: Document
    missing: MissingPorts | None

    def __post_init__(self) -> None:
        self._content = self.plan.to_json()

    def show(self, put: Callable[[str], None]) -> None:
        """Write each port with its changes: value before -> after."""
        from ibkeys.change.wanted import value_in_words

        if not self._content["ports"]:
            put("nothing to change")
        for port in self._content["ports"]:
            put(heading_of(port))
            for each in port["changes"]:
                what = f"{name_of(each)}: {value_in_words(each['before'])} -> {value_in_words(each['after'])}"
                put(f"  {paint(what, role_of_change(each['before'], each['after']))}")

    def report(self, applied: bool) -> int:
        """Write the result; return 1 for a dry run with changes, else 0."""
        content, dry_run = self._content, self.consent.dry_run
        if self.missing is not None:
            self.missing.errors += [{**each.port.identity(), "error": each.error} for each in self.plan.troubles]
            content |= {"errors": self.missing.errors, "unreached": self.missing.unreached}
        if self.format == "json":
            write_json(self.document, {"dry_run": dry_run, "applied": applied, **content})
        elif self.format == "csv":
            rows = [{**port, **each} for port in content["ports"] for each in port["changes"]]
            write_rows(self.document.rows, rows)
        elif applied and not content.get("errors"):
            write("done, verified by a fresh read")
        elif applied:
            write("done and verified by a fresh read, except for the ports listed below")
        elif dry_run and content["ports"]:
            write("dry run: nothing was changed")
        return exits.SAYS_NO if dry_run and self.plan.pending else exits.DONE


def name_of(change: dict[str, Any]) -> str:
    """Return the name, as IBA spells it, of a changed value in a document: ``P_Key[3]``, ``M_KeyProtectBits``."""
    from ibkeys.mad.attributes import PortInfo

    if change["index"] is not None:
        return f"P_Key[{change['index']}]"
    row = PortInfo.rows.get(change["kind"])
    return row.name if row else str(change["kind"])
