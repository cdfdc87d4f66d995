"""One check: the assumption about real devices, and the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from ibkeys.errors import IbkeysError

if TYPE_CHECKING:
    from ibkeys.hardware.reading import FabricReading

Basis = Literal["standard", "simulator", "guess", "unknown"]
"""The basis of an assumption. ``standard``: the standard or another program. ``simulator``: only the simulator of
ibkeys does so. ``guess``: nothing known. ``unknown``: there is no assumption."""
CheckOutcome = Literal["same", "differs", "seen", "not-checked"]
"""``same``, ``differs``: compared with the assumption. ``seen``: a value for which there was no assumption.
``not-checked``: there is no value."""


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """The result of a check. ``text``: one line for people. ``values``: the same for programs; no key may be in
    either."""

    outcome: CheckOutcome
    text: str
    values: Mapping[str, Any] = field(default_factory=dict)


def same(text: str, **values: Any) -> CheckAnswer:
    """Return the answer that the device behaves as assumed."""
    return CheckAnswer("same", text, values)


def differs(text: str, **values: Any) -> CheckAnswer:
    """Return the answer that the device behaves in another manner."""
    return CheckAnswer("differs", text, values)


def as_assumed(is_so: bool, text: str, **values: Any) -> CheckAnswer:
    """Return the answer `same` if *is_so*, else `differs`."""
    return CheckAnswer("same" if is_so else "differs", text, values)


def seen(text: str, **values: Any) -> CheckAnswer:
    """Return the answer with a value of the device for which there was no assumption."""
    return CheckAnswer("seen", text, values)


def not_checked(why: str) -> CheckAnswer:
    """Return the answer that there is no value, because no query was sent or answered. *why*: the reason in words."""
    return CheckAnswer("not-checked", why)


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, with the check's id and assumption."""

    id: str
    basis: Basis
    assumed: str
    answer: CheckAnswer

    def to_json(self) -> dict[str, Any]:
        """Return the finding for the document of the report."""
        return {
            "id": self.id,
            "basis": self.basis,
            "assumed": self.assumed,
            "outcome": self.answer.outcome,
            "said": self.answer.text,
            "values": dict(self.answer.values),
        }


@dataclass(frozen=True, slots=True)
class DeviceCheck:
    """A check of an assumption about real devices. ``id``: its subject and name, such as nodes.kinds. ``assumed``: the
    assumption in words.

    ``ask``: queries the fabric and returns the answer. An IbkeysError of it means that the check was not made, for the
    reason in the error.
    """

    id: str
    basis: Basis
    assumed: str
    ask: Callable[[FabricReading], CheckAnswer]

    def finding(self, answer: CheckAnswer) -> Finding:
        """Return *answer* together with this check's id and assumption."""
        return Finding(self.id, self.basis, self.assumed, answer)


def check(id: str, basis: Basis, assumed: str) -> Callable[[Callable[[FabricReading], CheckAnswer]], DeviceCheck]:
    """Return a decorator, which turns the function that queries the fabric into a check."""
    return partial(DeviceCheck, id, basis, assumed)


def checks_in(names: Mapping[str, object]) -> tuple[DeviceCheck, ...]:
    """Return the checks among the *names* of a module, in their order there."""
    return tuple(each for each in names.values() if isinstance(each, DeviceCheck))


def make_check(each: DeviceCheck, reading: FabricReading) -> Finding:
    """Make the check *each* and return its finding. An IbkeysError becomes the reason why it was not made."""
    try:
        answer = each.ask(reading)
    except IbkeysError as error:
        answer = not_checked(str(error))
    return each.finding(answer)
