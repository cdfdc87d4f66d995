"""Making a change for a script: plan it, ask for consent, make it, and return its result."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Self, TypedDict, get_type_hints

from ibkeys.automation.arguments import RULES, ArgumentRule, refuse_unknown, refuse_wrong
from ibkeys.automation.methods import ChangeMethod, as_options
from ibkeys.automation.result import ChangeResult, Consenting, OnProgress, Progress, Proposal
from ibkeys.change.confirming.guardian import Guardian, own_program
from ibkeys.change.consent import INTERLOCKS, Consent, Objection
from ibkeys.change.interrupts import Interrupts
from ibkeys.change.method import METHOD, MethodChoice
from ibkeys.change.open_operations import notes_on_open
from ibkeys.change.plan import Plan
from ibkeys.change.wanted import PlannedChange
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import IbkeysError, Incomplete, Refused, UsageError
from ibkeys.fabric.live import LiveFabric
from ibkeys.keys.mkey import MKey
from ibkeys.store.journal import Journal, RunningOperation


class How(TypedDict, total=False):
    """How a change of a whole fabric is made; all of it is optional.

    ``via``: how it gets to the ports. Without it the method is chosen as `ibkeys apply` does, by the subnet managers
    that are found, and ``consent`` has to be a function, which sees it in `Proposal.method`; a simulated subnet has
    only the direct one. An operation that goes on goes by the method that it began with, and this only says how hosts
    or UFM are reached.

    ``consent``: the interlocks that are overridden, none by default; or a function that gets a `Proposal` and returns
    them, or None for no. Without such a function a change about which somebody has to be asked is refused.

    ``progress``: a function that gets a `Progress` as the change goes on, and which the change waits for: it has to
    return soon. ``dry_run``: nothing is written.

    ``confirm_within``: it is rolled back, of M_Keys the level only, unless it is confirmed within so many seconds by
    `ibkeys confirm` or `Operation.confirm`; also when this process has died. The call returns after that. ``progress``
    gets the step with ``awaits_confirmation`` in a thread, in which it may wait, ask and confirm. The time runs on
    meanwhile, also after an exception there, which `threading.excepthook` shows; KeyboardInterrupt is a no.
    """

    via: ChangeMethod | None
    consent: Consent | Consenting | None
    progress: OnProgress | None
    dry_run: bool
    confirm_within: int | None


class NewKeys(How, total=False):
    """Which M_Keys a whole fabric gets, and how.

    ``same``: one key for all ports, as through OpenSM; ``per_port``: each its own. ``new_key``: the one for all, by
    default it is generated. ``protect``: ProtectBits; ``lease``: seconds; without them both stay as they are.
    ``first``: only so many ports; `RunningOperation.resume` continues.
    """

    same: bool
    per_port: bool
    new_key: MKey | None
    protect: int | None
    lease: int | None
    first: int | None


for _arguments in (How, NewKeys):  # `help` shows their types, not the texts that annotations are here
    _arguments.__annotations__.update(get_type_hints(_arguments))


_RULES: Final[Mapping[str, ArgumentRule]] = {
    **RULES,
    "via": ArgumentRule(
        lambda value: value is None or isinstance(value, ChangeMethod),
        "ibkeys.Direct(), ibkeys.ThroughOpenSM(...) or ibkeys.ThroughUFM(...)",
    ),
}


@dataclass(slots=True)
class Asked:
    """What a script asks of a change of *fabric*, see `How`. ``goes_on``: the operation that goes on or back.
    ``begun``: the operation, once it has begun."""

    fabric: LiveFabric
    via: ChangeMethod | None = None
    consent: Consent | Consenting | None = None
    progress: OnProgress | None = None
    dry_run: bool = False
    confirm_within: int | None = None
    goes_on: int | None = None
    begun: int | None = None

    @classmethod
    def of(cls, fabric: LiveFabric, how: How, kind: type[How] = How, **beside: object) -> Self:
        """Return what *how* asks of a change. *kind*: the arguments that it may have; *beside*: those that the caller
        has beside them.

        Raises TypeError for an argument that there is not, UsageError for a value that it does not take."""
        refuse_unknown(how, [*kind.__annotations__, *beside])
        refuse_wrong({**beside, **how}, _RULES)
        given: Any = {name: how[name] for name in How.__annotations__ if name in how}  # type: ignore[literal-required]
        return cls(fabric, **given)

    def goes_on_with(self, operation: int) -> None:
        """Let it go on with an operation of the journal."""
        self.goes_on = self.begun = operation

    @property
    def given(self) -> Consent:
        """What is overridden before anybody has seen the change."""
        return self.consent if isinstance(self.consent, Consent) else Consent()

    def agreed(self, proposal: Proposal) -> Consent:
        """Return the overrides for *proposal*. Raises Refused (``confirmation``) if consent is not given."""
        if callable(self.consent):
            answer = self.consent(proposal)
            if answer is None:
                raise Refused(f"{proposal.command}: consent was not given", "confirmation").unchanged()
            if not isinstance(answer, Consent):
                raise UsageError(f"consent= has to return an ibkeys.Consent, or None for no; it returned {answer!r}")
            return answer
        if proposal.questions:
            texts = "; ".join(f"{each.text}: {each.answer} says that it is meant" for each in proposal.questions)
            raise Refused(f"{texts}; or give consent=, a function that returns a Consent", "confirmation").unchanged()
        return self.given

    def refuse_unseen(self, choice: MethodChoice | None) -> None:
        """Raise Refused (``method``) where a method was chosen, and neither ``via`` named it nor anybody consents."""
        if choice is not None and not self.dry_run and not callable(self.consent):
            text = f"the method has to be given with via=, or seen by consent=: now it would be {choice.method}: "
            raise Refused(text + choice.found, METHOD).unchanged()

    def began(self, operation: RunningOperation) -> None:
        """Take the operation of the journal."""
        self.begun = operation.id

    def tell(self, step: str, done: int = 0, whole: int = 0, awaits_confirmation: bool = False) -> None:
        """Tell the script how far it is."""
        if self.progress is not None:
            self.progress(Progress(step, done, whole, self.begun, awaits_confirmation))

    def waiting(self, interrupts: Interrupts) -> Callable[[float], bool]:
        """Return what waits for a confirmation from elsewhere: see `await_confirmation`. The script is told in a
        thread: a function that does not return, such as a request over a network that was cut off, stops no clock.
        """
        is_told, says_no = False, threading.Event()

        def tell() -> None:
            try:
                self.tell("waits for its confirmation", awaits_confirmation=True)
            except KeyboardInterrupt:
                says_no.set()

        def wait(seconds: float) -> bool:
            nonlocal is_told
            if not is_told:
                threading.Thread(target=tell, name="ibkeys-awaits-confirmation", daemon=True).start()
            is_told = True
            try:
                interrupts.check()
            except KeyboardInterrupt:
                interrupts.forget()  # it says no to the change; rolling back is not to be cut short by a second one
                raise
            if says_no.wait(seconds):
                raise KeyboardInterrupt
            return False

        return wait

    @contextmanager
    def guarded(self, guardian: Guardian) -> Iterator[Guardian]:
        """Let *guardian* know the M_Key for all ports, and leave it at the end."""
        try:
            guardian.keep_key(self.fabric.ring.for_all)
            yield guardian
        finally:
            if guardian.leave():
                self.tell("not rolled back yet: a background process tries again for about an hour")

    @property
    def seconds(self) -> int | None:
        """In which time it is to be confirmed; None where it needs no confirmation."""
        return None if self.dry_run else self.confirm_within

    def command_for_child(self, words: Sequence[str]) -> list[str]:
        """Return the command by which a child process rolls back an unconfirmed change. Raises UsageError if no command
        can open the fabric in the same way."""
        options = self.fabric.as_options()
        if options is None:
            raise UsageError(
                "confirm_within= needs a fabric that another process can open: ibkeys.open with a backend by name, "
                "node_names as a file, a key store that is not encrypted, and no keys of Keys.default or from_sa"
            )
        return [*own_program(), *words, "--site=none", *options, *as_options(self.via)]  # a script reads no site file


class Prepared(ABC):
    """A change that was planned and not made yet, with the plan that `ChangeWriter` checks. ``problem``: why it
    stopped."""

    plan: Plan
    problem: Incomplete | None = None

    @property
    def method(self) -> str:
        """``direct``, ``opensm`` or ``ufm``."""
        return "direct"

    @property
    def choice(self) -> MethodChoice | None:
        """Why this method, where ibkeys chose it."""
        return None

    @property
    def is_pending(self) -> bool:
        """Whether there is anything to do."""
        return self.plan.pending

    def changes(self) -> tuple[PlannedChange, ...]:
        """Return what each port gets."""
        return tuple(
            PlannedChange(each.port.id, each.kind, each.index, each.before, each.after) for each in self.plan.changes
        )

    def notes(self) -> list[str]:
        """Return what should be known before it is made."""
        return list(self.plan.notes)

    @abstractmethod
    def make(self, writer: ChangeWriter) -> None:
        """Make it. Raises Incomplete where it stopped on its way, and what else making it raises."""

    @abstractmethod
    def result(self, is_made: bool) -> ChangeResult:
        """Return the result: the ports that are proven, failed or left; all are left if the change was not made."""


def make_change(command: str, asked: Asked, prepare: Callable[[ChangeWriter], Prepared]) -> ChangeResult:
    """Plan a change by *prepare*, let it be agreed to, and make it.

    The plan that is made is one that was planned with all that is overridden for it: who overrides more when he sees
    it, or sees what refuses the planning, is shown a new plan. Raises Refused for an interlock and for a no, and what
    planning and making raise.
    """
    given = asked.given
    while True:
        with ChangeWriter(asked.fabric, command, given, asked.dry_run, goes_on=asked.goes_on) as writer:
            try:
                change = prepare(writer)
            except Refused as refusal:
                if refusal.interlock not in INTERLOCKS or not callable(asked.consent):
                    raise
                seen = Proposal(command, objections=(Objection(refusal.interlock, refusal.message),))
                wider = _with(given, asked.agreed(seen), seen)
                if not wider.covers(refusal.interlock) or wider == given:
                    raise
                given = wider
                continue
            notes = _notes(writer, command, asked.goes_on, change)
            if asked.dry_run or not change.is_pending:
                objections = tuple(writer.not_overridden(change.plan)) if change.is_pending else ()
                problem = next(iter(change.plan.refusals), None)
                return replace(change.result(is_made=False), objections=objections, notes=notes, problem=problem)
            plan = change.plan
            seen = Proposal(
                command, change.method, change.changes(), tuple(plan.objections), tuple(plan.questions), notes
            )
            wider = _with(given, asked.agreed(seen), seen)
            if wider != given:
                given = wider
                continue
            writer.check(change.plan)
            try:
                change.make(writer)
            except Incomplete as error:  # the result says what was done all the same
                change.problem = error
            except IbkeysError as error:
                error.operation = error.operation or asked.begun
                raise
            result, problem = change.result(is_made=True), change.problem
            is_proven = result.proven and problem is None
            return replace(result, proven=is_proven, notes=(*notes, *result.notes), problem=problem)


def _with(given: Consent, answer: Consent, seen: Proposal) -> Consent:
    """Return *given* with what the *answer* overrides of the interlocks that were *seen*, and of no other."""
    triggered = {each.interlock for each in seen.objections}
    force = given.force or (answer.force and "active-sm" in triggered)
    return Consent(force, given.overrides | (answer.overrides & triggered))


def _notes(writer: ChangeWriter, command: str, goes_on: int | None, change: Prepared) -> tuple[str, ...]:
    method = [f"method: {change.choice}"] if change.choice is not None else []
    with Journal.read(writer.fabric.stores.journal) as journal:
        return (*notes_on_open(journal, command, goes_on), *method, *change.notes())
