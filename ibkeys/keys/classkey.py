"""Keys of management classes other than subnet management: the secrets, and the check that protects a port.

The check of the B_Key is that of opa-ff's baseboard agent. The checks of the other classes are guessed from the check
of the B_Key or of the M_Key. No device was observed, so the guesses are arguments here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from ibkeys.keys.secret import Secret64
from ibkeys.mad.const import Method


@final
class ClassKey(Secret64):
    """A 64-bit key of one management class at one port. 0 is not a key: the class is not protected there."""

    __slots__ = ()
    name = "class key"


NO_CLASS_KEY: Final = ClassKey(0)


@dataclass(frozen=True, slots=True)
class ClassKeyVerdict:
    """The reaction of a port to one MAD of such a class.

    ``accepted``: process it. ``key_hidden``: a Get of the KeyInfo returns 0 in place of the key. ``counted``: one
    violation, a trap, and the lease timer starts unless the lease is 0. ``is_right``: the sender has the key.
    """

    accepted: bool
    key_hidden: bool
    counted: bool
    is_right: bool


def check_class_key(method: int, key: int, protect_bit: int, shown: int, *, drops_gets: bool) -> ClassKeyVerdict:
    """Return the reaction of a port with *key* to one MAD that carries the key *shown*.

    *drops_gets*: with the protect bit, a Get without the key is dropped and counted (as at M_Key level 2) instead of
    answered without the key. Which of the two a device does is known only for B_Key, which answers.
    """
    if key in (0, shown):
        return ClassKeyVerdict(True, False, False, True)
    if method != Method.GET:
        return ClassKeyVerdict(False, False, True, False)
    if protect_bit and drops_gets:
        return ClassKeyVerdict(False, False, True, False)
    return ClassKeyVerdict(True, bool(protect_bit), False, False)
