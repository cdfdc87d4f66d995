"""The reading of the key of one class at one port. Only data; nothing is sent.

A missing class, a hidden key, a silent port and a port that was not queried are four different results. A port has no
key only if it has the class and its key was read as 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from ibkeys.mad.classes.gmp import KEY_CLASSES, ClassName
from ibkeys.mad.classes.key_info import KeyInfo, KeySettings
from ibkeys.topology.nodes import Port

ClassKeyState = Literal["set", "zero", "hidden", "absent", "silent", "refused", "unconfirmed", "not-asked"]
"""``set``: the key was shown. ``zero``: it was shown as 0. ``hidden``: 0 with the protect bit, so there is one.
``absent``: status 0x000c, or ClassPortInfo says that the port has no VS_Key. ``silent``: no answer. ``refused``:
another status, or an answer that is not understood. ``unconfirmed``: all zeros, of a port that did not answer
ClassPortInfo with success: it may not have the class. ``not-asked``: no query could be sent, or none was to be sent."""
STATES: Final[tuple[ClassKeyState, ...]] = get_args(ClassKeyState)
ANSWERED: Final = frozenset({"set", "zero", "hidden"})
"""The states of a port that has the class and answered about its key."""

NotAskedKind = Literal["no-key", "withheld", "other"]
"""Why a port was not queried for a key.

``no-key``: no key of the class is known here, and the cost of a query without one is not known. ``withheld``: its key
is not sent there. ``other``: another reason, which the text names.
"""


@dataclass(frozen=True, slots=True)
class NotAsked:
    """Why a port was not queried for a key, ``why`` in words."""

    kind: NotAskedKind
    why: str


NO_KEY_KNOWN: Final = NotAsked(
    "no-key", "not queried: no key of this class is known here, and the cost of a query without one is not known"
)


@dataclass(frozen=True, slots=True)
class ClassKeyReading:
    """The answer of ``port``. ``of``: the class. ``detail``: the answer in words, without a key.

    ``info``: the 16 bytes of KeyInfo, None without an answer; in a snapshot that holds no keys, a fingerprint is in
    place of the key. ``with_key``: whether the port was queried with the key of a file or store. ``is_the_known_key``:
    whether that key is the port's; None if the port was queried without a key, or there is no KeyInfo. ``not_asked``:
    why the port was not queried; None if it was queried, or the reason has no kind.
    """

    port: Port
    of: ClassName
    state: ClassKeyState
    detail: str
    info: bytes | None = None
    with_key: bool = False
    is_the_known_key: bool | None = None
    not_asked: NotAskedKind | None = None

    @property
    def is_unread(self) -> bool:
        """Whether the port was queried and gave no useful answer."""
        return self.state in ("silent", "refused")

    @property
    def key_info(self) -> KeyInfo | None:
        """The answer as the KeyInfo of its class; None without an answer."""
        return KEY_CLASSES[self.of].key_info(self.info) if self.info is not None else None

    @property
    def settings(self) -> KeySettings | None:
        """The fields of KeyInfo by the names that are common to all classes; None without an answer."""
        return KeySettings(self.info) if self.info is not None else None
