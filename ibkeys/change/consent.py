"""The interlocks by name, and which of them the user has overridden."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ibkeys.arguments import flag, given, one_of, refuse_wrong
from ibkeys.errors import Refused, UsageError
from ibkeys.port_text import PortText
from ibkeys.similar_names import did_you_mean_any

INTERLOCKS: Final = {
    "active-sm": "a change while a subnet manager is or may be master",
    "mkey-under-sm": "changing an M_Key while a subnet manager is or may be master",
    "default-pkey": "removing the last full default P_Key from the SM's port or its enforcing switch port, or the "
    "last default P_Key from any end port",
    "index-0": "emptying or replacing the P_Key at index 0",
    "index-move": "moving a P_Key to another index",
    "enforce-blind": "enforcement on a port whose table lacks the default partition (towards the SM: 0xffff), or "
    "on a link between switches",
    "links-initialize": "M_Keys at level 2 or 3 over links that no subnet manager has brought up (Initialize)",
    "sm-wipes-keys": "M_Keys that are missing in an opensm.conf, so that its OpenSM would remove or replace them",
    "weak-key": "an M_Key that is easy to guess by audit rule MK007",
    "lease-0": "ProtectBits 2 or 3 with lease 0, or a lease not above the SM's sweep interval",
    "open-operation": "an apply while another one, or its undo, is open on the same subnet",
    "stale": "overwriting values that changed since they were shown",
    "standby-differs": "a change through the master OpenSM alone, while another SM has or may have a different policy",
    "older-policy": "spreading a master's policy that is older than the last change of the journal",
    "self-takeover": "a policy that newly uses SELF while another SM may take over: SELF would then be that SM's port",
    "drift": "a change through OpenSM of ports whose tables differ from what it wrote, and that it would not rewrite",
    "file-managed": "replacing a file of OpenSM that another program makes or manages",
    "container-layer": "replacing a file of OpenSM that is lost when its container or host is created again",
    "default-sa-key": "an M_Key through an OpenSM whose SA_Key is the default, with which anyone can read the M_Key",
    "unknown-sm": "a change through an SM with options that OpenSM 3.3 does not have",
    "replaced-adapter": "an adapter that takes over from another, where something is unusual or not known",
    "lost-keys": "replacing a key store, journal or backup that has keys or operations which the new one lacks",
    "stale-lock": "a change on the host of an OpenSM where the command of another administrator was cut off",
    "not-rehearsed": "a change of more ports than the site file allows without a rehearsal of this very plan",
    "sm-prints-keys": "a key for an OpenSM that prints it where users other than root can read it",
}
"""Name → the change that the interlock refuses."""


@dataclass(frozen=True, slots=True)
class Consent:
    """The agreement that the user gave beforehand. ``force`` covers active-sm and nothing else; every other interlock
    needs its name in ``overrides``. Raises UsageError for a name that is not an interlock, and for a value of a wrong
    type.
    """

    force: bool = False
    overrides: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        refuse_wrong({"force": self.force, "overrides": self.overrides}, _RULES)
        unknown = sorted(self.overrides - INTERLOCKS.keys())
        if unknown:
            near = did_you_mean_any(unknown, INTERLOCKS) or f"; choose from {', '.join(INTERLOCKS)}"
            raise UsageError(f"{', '.join(unknown)}: no such interlock{near}")

    @property
    def overridden(self) -> frozenset[str]:
        """The interlocks that the user has overridden, by name."""
        return self.overrides | ({"active-sm"} if self.force else set())

    def covers(self, interlock: str) -> bool:
        """Return whether the user has overridden *interlock*."""
        return interlock in self.overridden


_RULES: Final = {"force": flag(), "overrides": one_of((frozenset, set), "a set of names of interlocks")}
"""The rules for the values of `Consent`."""


@dataclass(frozen=True, slots=True)
class Objection:
    """An interlock that a change triggers. ``message`` says what would happen, ``more`` why, or how to avoid it;
    `refusal` adds the option that overrides it. ``details``: text that is shown below, such as the lines that differ.
    ``is_overtaken``: another program or administrator has changed a value that an earlier run of the change had set.
    """

    interlock: str
    message: str
    more: str = ""
    details: str = ""
    is_overtaken: bool = False

    @property
    def how_to_override(self) -> str:
        """The option, or in the library the argument, that overrides this interlock."""
        if self.interlock == "active-sm":
            return given("--force")
        named_alone = f"consent=Consent(overrides=frozenset({{{self.interlock!r}}}))"
        return given(f"--override {self.interlock}", named_alone)

    def refusal(self, others: Sequence[Objection] = ()) -> Refused:
        """Return the error to raise for this interlock. *others*: further objections, which the message names too."""
        also = (
            "; also triggered: " + ", ".join(f"{o.interlock} ({o.how_to_override})" for o in others) if others else ""
        )
        how = f"; to do it anyway: {self.how_to_override}{also}"
        text = PortText.joined(f"refused by interlock {self.interlock}: ", self.message, how)
        return Refused(text, self.interlock, self.details).explained(self.more)


@dataclass(frozen=True, slots=True)
class Question:
    """A consequence that the user must be asked about, although no interlock refuses it. With ``--yes`` it is only
    noted.

    ``text``: the consequence. ``answer``: the option that says yes beforehand; with it, nothing is asked or noted.
    """

    text: str
    answer: str
