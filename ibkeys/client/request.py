"""What the scheduler moves: a request for one answer, and what requests to one agent have in common.

A sweep asks one agent for many attributes, and makes many thousands of requests. So a request holds only what is its
own, eight bytes of the MAD; the rest of the MAD and the way to send it are in an `Envelope` that many share. The port
puts the 256 bytes together when it sends them, with the TransactionID of the attempt.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from ibkeys.errors import EncodeError
from ibkeys.mad import offsets as at
from ibkeys.mad.attributes import Attribute
from ibkeys.umad.requests import address_of, mad_of, way_of

SMI: Final = (0, 0, 0, 0)
"""QPN, Q_Key, SL and P_Key index of an SMP."""

_NO_KEY: Final = bytes(8)
_MGMT_CLASS: Final = at.MGMT_CLASS
_METHOD: Final = at.METHOD
_M_KEY: Final = at.M_KEY
# What of a MAD is asked: AttributeID, two bytes of nothing, AttributeModifier.
_ASKS: Final = struct.Struct(">HxxI").pack


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request has no reply. ``errno`` is set when the kernel refused to send it; ``silent``: the node had
    already been given up, and the request was not sent (again); ``limit``: nor for this limit, by its name in
    `ibkeys.client.limits.Limits`."""

    attempts: int
    errno: int = 0
    silent: bool = False
    limit: str = ""


class Way:
    """How MADs go to one LID. ``head``: LID, timeout and *to*, as a record begins (`ibkeys.umad.requests.way_of`).

    ``timeout`` in seconds for each attempt; ``retries``: attempts after the first. ``is_smp``: to QP0.
    """

    __slots__ = ("head", "is_smp", "retries", "timeout")

    def __init__(self, lid: int, timeout: float, retries: int, to: tuple[int, int, int, int] = SMI) -> None:
        """*to*: QPN, Q_Key, SL and P_Key index. Raises EncodeError."""
        self.head = way_of((lid, int(timeout * 1000), *to))
        self.timeout = timeout
        self.retries = retries
        self.is_smp = to == SMI


class Envelope:
    """All of a MAD but its TransactionID and what it asks; and to whom it goes, and how.

    ``node``: who is asked, as far as the sender knows; the bound for each node goes by it. ``record``: its way and the
    MAD, as a port takes it (`ibkeys.umad.requests`). ``timeout``, ``retries`` and ``is_smp`` are those of its `Way`;
    ``is_keyed``: it carries an M_Key other than 0.
    """

    __slots__ = ("is_keyed", "is_smp", "method", "mgmt_class", "node", "record", "retries", "timeout")

    def __init__(self, node: Hashable, mad: bytes, way: Way) -> None:
        """*mad*: 256 bytes, whatever the TransactionID's lower half is and what it asks."""
        self.node = node
        self.record = way.head + mad
        self.mgmt_class = mad[_MGMT_CLASS]
        self.method = mad[_METHOD]
        self.timeout = way.timeout
        self.retries = way.retries
        self.is_smp = way.is_smp
        self.is_keyed = way.is_smp and mad[_M_KEY] != _NO_KEY

    @property
    def address(self) -> tuple[int, int, int, int, int, int]:
        """What `ibkeys.umad.port.Outgoing` has behind the MAD: LID, timeout in milliseconds, QPN, Q_Key, SL, P_Key
        index."""
        return address_of(self.record)

    @property
    def lid(self) -> int:
        """The destination LID, 0xffff for a directed route."""
        return self.address[0]

    @property
    def pkey_index(self) -> int:
        """The place in the local P_Key table of the P_Key that a GMP carries."""
        return self.address[-1]

    def ask(self, attribute: type[Attribute], modifier: int = 0) -> Request:
        """Return the request for one attribute. Raises EncodeError for a modifier of more than 32 bits."""
        try:
            return Request(self, _ASKS(attribute.attribute_id, modifier))
        except struct.error as error:
            raise EncodeError(f"AttributeModifier {modifier:#x} does not fit: {error}") from None


class Request:
    """One MAD to be answered.

    ``asks``: its bytes 16..23, AttributeID and AttributeModifier; all else is in its ``envelope``. ``retries`` are the
    envelope's unless they are changed before the request is submitted. ``owner`` and ``slot`` belong to the submitter.
    After the end ``reply`` holds the answer's bytes, or ``failure`` the reason.
    """

    __slots__ = (
        "asks",
        "attempts",
        "envelope",
        "failure",
        "first_sent",
        "owner",
        "reply",
        "retries",
        "sent",
        "slot",
        "state",
    )
    # The scheduler's own. It has at most one attempt of a request in flight, so the request holds the attempt's state;
    # nothing reads it before the scheduler wrote it.
    state: NodeState
    first_sent: float
    sent: float
    # The submitter's own.
    owner: object
    slot: int

    def __init__(self, envelope: Envelope, asks: bytes) -> None:
        self.envelope = envelope
        self.asks = asks
        self.retries = envelope.retries
        self.attempts = 0
        self.reply: bytes | None = None
        self.failure: Failure | None = None

    @classmethod
    def of_mad(
        cls,
        node: Hashable,
        mad: bytes,
        lid: int,
        timeout: float = 1.0,
        retries: int = 2,
        to: tuple[int, int, int, int] = SMI,
    ) -> Request:
        """Return a request with an envelope of its own. *mad*: 256 bytes, whatever the TransactionID's lower half is.

        *node* is that of `Envelope`, the others are those of `Way`. Raises EncodeError.
        """
        return cls(Envelope(node, mad, Way(lid, timeout, retries, to)), mad[at.ASKED])

    @property
    def mad(self) -> bytes:
        """The 256 bytes, with 0 for the TransactionID's lower half."""
        return mad_of(self.envelope.record, asks=self.asks)


class NodeState:
    """What the scheduler knows of one node. ``taken``: its requests in flight or next to go, at most ``limit``;
    ``queue``: its others, None until there is one. ``asked``: attempts that have ended; ``busy``: seconds during which
    one was on its way, ``until`` the end of the last one; ``spent``: the limit that it has reached."""

    __slots__ = ("alive_at", "asked", "busy", "limit", "queue", "silent", "spent", "taken", "until")

    def __init__(self) -> None:
        self.queue: deque[Request] | None = None
        self.taken = 0
        self.limit = 1
        self.alive_at = -1.0
        self.silent = False
        self.asked = 0
        self.busy = 0.0
        self.until = float("-inf")
        self.spent = ""
