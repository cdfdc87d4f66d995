"""An open port: the kernel's state for one open file of /dev/infiniband/umadN."""

from __future__ import annotations

import array
import fcntl
import mmap
import os
import socket
import struct
import termios
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from ibkeys.mad import offsets as at
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.server.umad import wire

if TYPE_CHECKING:
    from ibkeys.sim.rmpp import OutgoingTransfer
    from ibkeys.sim.server.umad.agents import Agent

MOST_WAITING: Final = 16384
"""The most MADs that are stored for a program that does not read. Further ones are lost (the kernel stores 200,000)."""
MOST_BYTES: Final = wire.MOST_MAD
"""The most bytes of long MADs that are stored for one open port in each direction: ten answers of the SA for 40,000
hosts. Further ones are refused or lost."""
_PAGE: Final = struct.Struct(f"=IIII{wire.SLOTS}H{wire.SLOTS}H")
_DONE_AT: Final = 16 // 2
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL

SendKey = tuple[bool, int, bytes, bytes]
"""The key of a MAD that is being sent: whether it is an answer, the class, the TransactionID, and for an answer the LID
or GID of the other end.

Two MADs with equal keys are duplicates (user_mad.c: is_duplicate).
"""


@dataclass(slots=True, eq=False)
class PendingMad:
    """A MAD that waits for its answer or acknowledgement.

    ``header``: its umad header from the program. ``timeout``: seconds, 0 if no answer is expected, infinite if the
    program waits without limit. ``transfer``: the RMPP transfer that sends it, None for a MAD without RMPP. ``timer``:
    the number of the current timer; older timers have no effect.
    """

    agent: Agent
    key: SendKey
    header: bytes
    mad: bytes
    address: wire.Address
    timeout: float
    retries_left: int
    transfer: OutgoingTransfer | None = None
    timer: int = 0

    def end(self) -> None:
        """Stop waiting, and count the send as done in the shared page, so that the program may use its TransactionID
        again."""
        del self.agent.at.sends[self.key]
        self.agent.at.page.done(self.mad)


def send_key(response: bool, mad: bytes, address: wire.Address) -> SendKey:
    """Return the key for sending *mad* to *address*. *response*: whether *mad* is an answer."""
    other = b""
    if response:
        other = address.lid.to_bytes(2) if address.grh is None else wire.gid_of(address.grh)
    return response, mad[at.MGMT_CLASS], mad[at.TRANSACTION_ID], other


class CommonData(NamedTuple):
    """The data that directed-route requests with the same umad header and the same beginning have in common.

    ``agent``: their agent. ``first_hop``: the port by which they must leave, None if every first hop is valid.
    ``answer``: the umad header of an answer to them.
    """

    agent: Agent
    first_hop: int | None
    answer: bytes


class Page:
    """The memory that an open port shares with its program (see `wire`)."""

    def __init__(self, port: SimPort) -> None:
        self.fd = os.memfd_create("ibkeys-umad", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, _PAGE.size)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, _SEALS)
        self._memory = mmap.mmap(self.fd, _PAGE.size)
        struct.pack_into("=III", self._memory, 0, 0, port.number, port.node.is_switch)
        self._done = memoryview(self._memory).cast("H")

    def show_agents(self, ids: Sequence[int]) -> None:
        """Write the ids of the current agents, for the program to read."""
        struct.pack_into("=I", self._memory, 0, sum(1 << each for each in ids))

    def done(self, mad: bytes) -> None:
        """Count in the slot of *mad* that its send is no longer pending."""
        place = _DONE_AT + wire.slot(mad)
        self._done[place] = self._done[place] + 1 & 0xFFFF

    def close(self) -> None:
        """Unmap the memory here, and close its descriptor."""
        self._done.release()
        self._memory.close()
        os.close(self.fd)


@dataclass(eq=False)
class ProgramPort:
    """One open port of one program.

    ``slot``: a number that no other program has; ``ident``: the id of the process that opened it. ``agents``: by id.
    ``sends``: the MADs that wait for an answer. ``waiting``: (record, MAD) that the program has not read yet.
    ``answers``: records that are written when all MADs of a batch have been carried. ``alike``: umad header and
    beginning of requests that were answered before → their common data. ``unread``: the bytes of the long MADs since
    the program had last read everything; they are in memory files that the socket keeps, or in ``waiting``.
    """

    slot: int
    ident: int
    port: SimPort
    socket: socket.socket
    page: Page
    agents: dict[int, Agent] = field(default_factory=dict)
    sends: dict[SendKey, PendingMad] = field(default_factory=dict)
    waiting: deque[tuple[bytes, bytes]] = field(default_factory=deque)
    answers: list[bytes] = field(default_factory=list)
    alike: dict[bytes, CommonData] = field(default_factory=dict)
    is_sm: bool = False
    unread: int = 0

    def __str__(self) -> str:
        return f"program {self.slot} ({self.ident}) at {self.port}"

    def has_room_to_send(self, mad: bytes) -> bool:
        """Return whether one more MAD of the program may wait for its answer or acknowledgement."""
        if len(self.sends) >= MOST_WAITING:
            return False
        if len(mad) <= wire.INLINE:
            return True
        return sum(len(send.mad) for send in self.sends.values() if send.transfer) + len(mad) <= MOST_BYTES

    def has_room_to_receive(self, mad: bytes) -> bool:
        """Return whether *mad* may be stored until the program reads it."""
        if len(self.waiting) >= MOST_WAITING:
            return False
        if len(mad) <= wire.INLINE:
            return True
        if not self.waiting and not any(fcntl.ioctl(self.socket, termios.TIOCOUTQ, bytes(4))):
            self.unread = 0
        return self.unread + len(mad) <= MOST_BYTES

    def write(self, record: bytes, mad: bytes = b"") -> bool:
        """Write a record to the program; with *mad*, the whole MAD, if the record has only its beginning.

        Returns False if the record has to wait until `flush`. Raises OSError if the program has ended.
        """
        if len(mad) > wire.INLINE:
            self.unread += len(mad)
        if not self.waiting and self._write(record, mad):
            return True
        self.waiting.append((record, mad))
        return False

    def write_answers(self) -> bool:
        """Write all ``answers``, or none of them. Returns False if they have to wait until `flush`.

        One call for all of them takes a fraction of the time, and wakes the program only once. Raises OSError if the
        program has ended.
        """
        answers, self.answers = self.answers, []
        if not self.waiting and self._write(b"".join(answers)):
            return True
        self.waiting.extend((record, b"") for record in answers)
        return False

    def flush(self) -> bool:
        """Write the records that are waiting, as far as the socket accepts them; return whether all are written. Raises
        OSError if the program has ended."""
        while self.waiting:
            if not self._write(*self.waiting[0]):
                return False
            self.waiting.popleft()
        return True

    def _write(self, record: bytes, mad: bytes = b"") -> bool:
        """Write one or several records. Returns False if the socket is full. Raises OSError if the program has ended.

        The kernel accepts all of them or nothing, as long as they are not more than the 32 KiB of one buffer
        (net/unix/af_unix.c: unix_stream_sendmsg).
        """
        try:
            if len(mad) <= wire.INLINE:
                self.socket.send(record)
                return True
            return self._write_in_memory(record, mad)
        except BlockingIOError:
            return False

    def _write_in_memory(self, record: bytes, mad: bytes) -> bool:
        memory = os.memfd_create("ibkeys-mad", os.MFD_CLOEXEC)
        try:
            rest = memoryview(mad)
            while rest:
                rest = rest[os.write(memory, rest) :]
            rights = socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memory])
            self.socket.sendmsg([record], [rights])
        finally:
            os.close(memory)
        return True

    def close(self) -> None:
        """Close the connection, and drop the records that are waiting."""
        self.socket.close()
        self.page.close()
        self.waiting.clear()
