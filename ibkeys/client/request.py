"""The unit of the scheduler: a request for one attribute of one agent, and the common part of requests to one agent.

A sweep reads many attributes of one agent, at many modifiers: each port of a switch, each block of a table. So a
request has any number of AttributeModifiers, and its answers come back in one list. The rest of a MAD, and its
destination, is in an `Envelope` that many requests share. The port puts the 256 bytes together when it sends them, with
the TransactionID of the attempt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from ibkeys.errors import EncodeError, IbkeysError
from ibkeys.mad import offsets as at
from ibkeys.mad.attributes import Attribute
from ibkeys.umad.port import address_of, mad_of, record_head

SMI: Final = (0, 0, 0, 0)
"""QPN, Q_Key, SL and P_Key index of an SMP."""

_NO_KEY: Final = bytes(8)
_MGMT_CLASS: Final = at.MGMT_CLASS
_METHOD: Final = at.METHOD
_M_KEY: Final = at.M_KEY
_MAX_MODIFIER: Final = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a part of a request has no reply.

    ``attempts``: how often it was sent, including a last attempt that the kernel refused.
    ``errno``: the kernel's reason for refusing it; 0 if the kernel did not refuse it. ``silent``: it was not sent
    (again), because its node had not answered other requests. ``limit``: the limit because of which it was not sent
    (again), by its name in `ibkeys.client.limits.Limits`; "" for none.
    """

    attempts: int
    errno: int = 0
    silent: bool = False
    limit: str = ""


class Destination:
    """The LID and queue pair for MADs, with timeout and retries; a directed route is in the MAD itself.

    ``head``: the start of the records of these MADs (`ibkeys.umad.port.record_head`). ``timeout``: seconds for each
    attempt; ``retries``: attempts after the first. ``is_smp``: the MADs go to QP0.
    """

    __slots__ = ("head", "is_smp", "retries", "timeout")

    def __init__(self, lid: int, timeout: float, retries: int, to: tuple[int, int, int, int] = SMI) -> None:
        """*to*: QPN, Q_Key, SL and P_Key index. Raises EncodeError."""
        self.head = record_head((lid, int(timeout * 1000), *to))
        self.timeout = timeout
        self.retries = retries
        self.is_smp = to == SMI


PartOutcome = bytes | IbkeysError | Failure | None
"""The outcome of one part of a request: the data of its answer, the error in its answer, or why it has no answer. None:
it has no outcome yet."""


class Envelope:
    """All of a MAD except its TransactionID, AttributeID and AttributeModifier, with its destination.

    ``node``: identifies the node that is queried, as far as the sender knows it: for each node the scheduler counts
    requests in flight and failures. ``record``: destination and MAD in the form for a port (`ibkeys.umad.port`).
    ``timeout``, ``retries`` and ``is_smp`` are those of its `Destination`; ``is_keyed``: it has an M_Key other than 0.
    ``attribute_base``: the number that is added to an AttributeID in `Statistics.by_attribute`.
    """

    __slots__ = ("attribute_base", "is_keyed", "is_smp", "method", "mgmt_class", "node", "record", "retries", "timeout")

    def __init__(self, node: Hashable, mad: bytes, destination: Destination) -> None:
        """*mad*: 256 bytes, with any value for the lower half of the TransactionID, the AttributeID and the
        modifier."""
        self.node = node
        self.record = destination.head + mad
        self.mgmt_class = mad[_MGMT_CLASS]
        self.method = mad[_METHOD]
        self.timeout = destination.timeout
        self.retries = destination.retries
        self.is_smp = destination.is_smp
        self.is_keyed = destination.is_smp and mad[_M_KEY] != _NO_KEY
        self.attribute_base = 0 if destination.is_smp else self.mgmt_class << 16

    @property
    def address(self) -> tuple[int, int, int, int, int, int]:
        """LID, timeout in milliseconds, QPN, Q_Key, SL and P_Key index, as they follow the MAD in
        `ibkeys.umad.port.Outgoing`."""
        return address_of(self.record)

    @property
    def lid(self) -> int:
        """The destination LID, 0xffff for a directed route."""
        return self.address[0]

    @property
    def pkey_index(self) -> int:
        """The index of a GMP's P_Key in the local P_Key table."""
        return self.address[-1]

    def ask(self, attribute: type[Attribute], modifier: int = 0) -> Request:
        """Return the request for one attribute. Raises EncodeError for a modifier of more than 32 bits."""
        if not 0 <= modifier <= _MAX_MODIFIER:
            raise EncodeError(f"AttributeModifier {modifier:#x} does not fit 32 bits")
        return Request(self, attribute.attribute_id, (modifier,))

    def ask_each(self, attribute: type[Attribute], modifiers: Sequence[int]) -> Request:
        """Return the request for one attribute at each of *modifiers*, of which there is at least one. A task that
        yields it gets a list.

        Raises EncodeError for a modifier of more than 32 bits.
        """
        if not 0 <= min(modifiers) <= max(modifiers) <= _MAX_MODIFIER:
            raise EncodeError(
                f"an AttributeModifier of {min(modifiers):#x} to {max(modifiers):#x} does not fit 32 bits"
            )
        return Request(self, attribute.attribute_id, modifiers, is_list=True)


@dataclass(slots=True, eq=False, repr=False, init=False)
class Request:
    """One MAD to be answered, or one for each of several AttributeModifiers: its parts, numbered from 0.

    ``envelope`` and ``attribute_id`` have everything in the MADs but AttributeModifier and TransactionID. ``retries``:
    those of the envelope, for each part; they may be changed before the request is submitted. ``owner`` and ``place``
    are for the code that submits it. ``outcomes``: the outcome of each part; ``failed``: a `Failure` is among them.
    ``is_list``: the task that yielded it gets ``outcomes`` as a list, not the only outcome alone.

    Do not confuse it with `ibkeys.umad.port.Requests`, a batch of MADs, each of which is one part of a request.
    """

    envelope: Envelope
    attribute_id: int
    modifiers: Sequence[int]
    is_list: bool
    retries: int
    outcomes: list[PartOutcome]
    failed: bool
    # Used by the scheduler: the state of the node, the number of parts begun, and the number of parts without an
    # outcome.
    state: NodeState
    begun: int
    missing: int
    # Used by the submitter only.
    owner: object
    place: int

    def __init__(
        self, envelope: Envelope, attribute_id: int, modifiers: Sequence[int], *, is_list: bool = False
    ) -> None:
        self.envelope = envelope
        self.attribute_id = attribute_id
        self.modifiers = modifiers
        self.is_list = is_list
        self.retries = envelope.retries
        self.begun = 0
        self.missing = len(modifiers)
        self.outcomes = [None] * self.missing
        self.failed = False

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
        """Return a request for one MAD, with an envelope of its own.

        *mad*: 256 bytes; the lower half of its TransactionID is not used. *node*: as in `Envelope`. The other arguments
        are those of `Destination`. Raises EncodeError.
        """
        envelope = Envelope(node, mad, Destination(lid, timeout, retries, to))
        modifier = int.from_bytes(mad[at.ATTRIBUTE_MODIFIER])
        return cls(envelope, int.from_bytes(mad[at.ATTRIBUTE_ID]), (modifier,))

    @property
    def mad(self) -> bytes:
        """The 256 bytes of its first part, with 0 for the TransactionID's lower half."""
        return self.mad_of(0)

    def mad_of(self, part: int) -> bytes:
        """Return the 256 bytes of one part, with 0 for the TransactionID's lower half."""
        return mad_of(self.envelope.record, 0, self.attribute_id, self.modifiers[part])


@dataclass(slots=True, eq=False, repr=False)
class NodeState:
    """The scheduler's state of one node.

    ``active``: parts of its requests that are in flight or ready to be sent, at most ``limit``. ``queue``: requests
    with further parts; None until there is one. ``alive_at``: the time of its last answer, -1 before the first.
    ``silent``: it did not answer, and nothing more is sent to it unless a late answer comes. ``ended``: attempts that
    have ended; ``busy``: seconds during which an attempt was in flight; ``last_end``: the end of the last attempt.
    ``reached_limit``: the limit that it has reached, "" for none.
    """

    queue: deque[Request] | None = None
    active: int = 0
    limit: int = 1
    alive_at: float = -1.0
    silent: bool = False
    ended: int = 0
    busy: float = 0.0
    last_end: float = float("-inf")
    reached_limit: str = ""
