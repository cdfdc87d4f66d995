"""The errors of ibkeys, in one tree. Some modules have subclasses of them for their own use.

IbkeysError
 +-- EncodeError        (ValueError)    the caller's value does not fit the field
 +-- MalformedMad       (ValueError)    bytes that are not a valid MAD
 +-- AddressError       (ValueError)    an address that no port can have, or that names several nodes
 +-- UsageError         (ValueError)    a request that makes no sense on any fabric (index past the table, ...)
 +-- FileFormatError    (ValueError)    a file with a mistake in it; .path .line .column
 +-- ImpossibleValue                    a node reports impossible values about itself
 +-- MadStatusError                     the agent answered with a status; .status
 +-- TransferFailed                     an answer of many segments did not arrive whole; .rmpp_status
 +-- NoReply            (TimeoutError)  nothing came back; .attempts .timeout
 |    +-- LimitReached                  not sent: a limit was reached; .limit
 +-- SendRefused                        the local driver refused this one MAD; .errno
 +-- Unreachable                        no SMP reaches that port; the message names an address that works
 +-- MKeyNeeded                         the port hides its M_Key and none is known: a Set would count a violation
 +-- NoRoom                             too few free entries in a P_Key table, or too few free P_Keys for a policy
 +-- NotRecorded                        a snapshot does not hold it: it could not be read then
 +-- NotStored                          a Set was answered with success, a fresh Get shows another value
 +-- Incomplete                         a change of many ports stopped half way; the journal has it
 +-- Refused                            a safety interlock refused the change; .interlock
 +-- FileError                          a file could not be read, replaced or restored; .is_replaced
 |    +-- FileChanged                   another program changed it in the meantime; .difference
 +-- StoreError                         journal, key store or state file: damaged, locked, or not writable
 |    +-- StoreLocked                   another changing command holds the lock
 |    +-- KeyGone                       the journal names a key that the key store does not have
 |    +-- StoreSealed                   the key store is encrypted: no passphrase, or not the right one
 +-- TransportError     (OSError)       libibumad or the kernel refused; .errno
 |    +-- LibraryMissing                ibkeys was built without libibumad
 |    +-- ModuleMissing                 the kernel module ib_umad is not loaded
 |    +-- NoDevice                      no such CA or port
 |    +-- AccessDenied                  the device may not be opened by this user
 |    +-- SmpsNotAllowed                a port without QP0 (virtual function)
 |    +-- AgentRefused                  another program owns the class, or the port may not have it
 |    +-- PortDown                      the local port has no link
 |    +-- DeviceGone                    the device went away while it was open
 +-- HostNotReached                     another host could not be reached through ssh, or its answer is invalid; .host
 +-- HostRefused                        a host refused to signal a process, start a unit or a guard; .host
 +-- UfmNotReached                      UFM could not be reached, or its answer is invalid; .url
 +-- UfmRefused                         UFM answered with an error, a redirect, or a job that failed; .status
 +-- ClosedError                        used after close()

A caller branches on the type and on attributes; the text of a message may improve at any time. No code of ibkeys reads
or rewrites it: code that passes an error on sets a field, and `IbkeysError.__str__` makes the line of message and
fields.
"""

from __future__ import annotations

import errno as _errno
from typing import Final, Self

from ibkeys.port_text import PortText

NOTHING: Final = "nothing was changed"
"""The value of `IbkeysError.changed` when nothing was changed."""


class IbkeysError(Exception):
    """Base of all errors that this package raises to its callers. ``str()`` is one line: the request, the place, the
    answer, the remedy.

    The line is a `PortText`, so that errors of many ports can be grouped by cause. ``message``: the sentence with which
    the error was raised. ``step``: the step of a larger change that raised it; "" for none. ``changed``: the part of
    that change that was made before the error, in words; `NOTHING` if no part was made, "" if this is not stated.
    ``advice``: the user's first action. ``operation``: the number of the operation in the journal that is open; None:
    there is none. ``way_on``: further actions, and the commands that continue.

    ``more``: an explanation, such as the reason and other ways to continue: one sentence on each line, "" for none. A
    command shows it with -v, or in any case if it has no -v; in a traceback it is a note of the error.
    """

    more: str = ""
    step: str = ""
    changed: str = ""
    advice: str = ""
    operation: int | None = None
    way_on: tuple[str, ...] = ()

    def __str__(self) -> str:
        step = f"{self.step}: " if self.step else ""
        state = ": ".join(filter(None, (self.changed, self.advice)))
        rest = "; ".join(filter(None, (state, *self.way_on)))
        return PortText.joined(step, self.message, "; " if self.message and rest else "", rest)

    @property
    def message(self) -> str:
        """The sentence with which the error was raised."""
        return str(self.args[0]) if self.args else ""

    def unchanged(self, advice: str = "", *more: str) -> Self:
        """Return this error with the statement that nothing was changed, and with *advice* for the user.

        *more*: as for `explained`.
        """
        self.changed, self.advice = NOTHING, advice
        return self.explained(*more) if more else self

    def after(self, done: str) -> Self:
        """Return this error; if it says that nothing was changed, it then says *done*, the part that was made.

        Some checks run before a change, and again during it: only then an earlier part of the change was made.
        """
        self.changed = done if self.changed == NOTHING else self.changed
        return self

    def going_on(self, *way_on: str, operation: int | None = None) -> Self:
        """Return this error with further ways to continue. *operation*: the operation of the journal that is open."""
        self.way_on += way_on
        self.operation = operation or self.operation
        return self

    def explained(self, *more: str) -> Self:
        """Return this error with the sentences *more* as its explanation. Empty sentences are left out."""
        self.more = "\n".join(filter(None, more))
        if self.more:
            self.add_note(self.more)
        return self


class EncodeError(IbkeysError, ValueError):
    """A value does not fit the field it is meant for."""


class MalformedMad(IbkeysError, ValueError):
    """Bytes that are not a valid MAD, SMP or attribute. The only error that parsing raises."""


class AddressError(IbkeysError, ValueError):
    """An address that no port of any subnet can have, or that is ambiguous.

    ``candidates``: the nodes that may be meant by it, each as a word that names it alone.
    """

    candidates: tuple[str, ...] = ()


class UsageError(IbkeysError, ValueError):
    """A request that is wrong whatever the fabric answers, such as a port number past the node's ports."""


class FileFormatError(IbkeysError, ValueError):
    """A file with a mistake in it.

    ``fault``: the mistake, without the place. ``path``: the file; "" if it is not known. ``line`` and ``column`` count
    from 1; they are 0 if they are not known.
    """

    def __init__(self, message: str, path: str = "", line: int = 0, column: int = 0) -> None:
        self.fault, self.path, self.line, self.column = message, path, line, column
        where = ":".join(str(part) for part in (path, line, column) if part)
        super().__init__(f"{where}: {message}" if where else message)


class ImpossibleValue(IbkeysError):
    """A node reports impossible values about itself, so it is not known which of its ports answered."""


class MadStatusError(IbkeysError):
    """The agent answered with a status other than success. ``status``: 16 bits; 15 bits in class 0x81."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class TransferFailed(IbkeysError):
    """An answer of many segments (RMPP) ended early, so it is incomplete and nothing of it is returned.

    ``rmpp_status`` is the RMPPStatus with which either side ended it (IBA 13.6.2.1).
    """

    def __init__(self, message: str, rmpp_status: int = 0) -> None:
        super().__init__(message)
        self.rmpp_status = rmpp_status


class NoReply(IbkeysError, TimeoutError):
    """No answer came to any attempt. ``attempts``: how many MADs were sent. ``timeout``: seconds for each of them."""

    def __init__(self, message: str, attempts: int = 0, timeout: float = 0.0) -> None:
        super().__init__(message)
        self.attempts = attempts
        self.timeout = timeout


class LimitReached(NoReply):
    """Not sent, because a limit was reached. ``limit`` is its name in `ibkeys.client.limits.Limits`."""

    def __init__(self, message: str, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class SendRefused(IbkeysError):
    """The local driver refused one MAD. If the MAD was for the local port itself, it may not support the request.

    Source: kernel mad.c; the driver executes SMPs for the local port (hop count 0) inside write().
    """

    def __init__(self, message: str, errno: int = _errno.EINVAL) -> None:
        super().__init__(message)
        self.errno = errno


class Unreachable(IbkeysError):
    """The port cannot be reached with an SMP to this address, or no port of the subnet has this address.

    In the first case the message names an address that works. ``candidates``: similar names.
    """

    candidates: tuple[str, ...] = ()


class MKeyNeeded(IbkeysError):
    """The port hides its M_Key and no key is known for it, so a Set was not even tried: it would count a violation."""


class NoRoom(IbkeysError):
    """A P_Key table has too few free entries, or too few P_Keys are free for the partitions of a policy."""


class NotRecorded(IbkeysError):
    """A snapshot does not have the requested value: it could not be read when the snapshot was taken."""


class NotStored(IbkeysError):
    """The agent accepted a Set (status 0), but a fresh Get does not show the value."""


class Incomplete(IbkeysError):
    """A change of many ports stopped before its end, because some ports could not be written.

    It can be resumed or undone.
    """


class Refused(IbkeysError):
    """An interlock refused a change. ``interlock`` is its name in the documentation (``active-sm``, ``index-0``, ...).

    ``details``: lines to be shown below the message, such as a unified diff; "" for none. ``is_overtaken``: whether
    the reason is that another program has changed the values that an operation wrote. This cannot be overridden, and
    trying again does not help. ``can_be_closed``: whether `ibkeys resume --overtaken` may close the operation; it may
    if ``is_overtaken`` is true.
    """

    def __init__(self, message: str, interlock: str, details: str = "", is_overtaken: bool = False) -> None:
        super().__init__(message)
        self.interlock = interlock
        self.details = details
        self.is_overtaken = is_overtaken
        self.can_be_closed = is_overtaken


class FileError(IbkeysError):
    """A file of a program on this host could not be read, replaced or restored.

    ``is_replaced``: whether the new file is in place nevertheless.
    """

    def __init__(self, message: str, is_replaced: bool = False) -> None:
        super().__init__(message)
        self.is_replaced = is_replaced


class FileChanged(FileError):
    """A file has changed since ibkeys read or wrote it. The changed contents were not lost.

    ``difference``: the changes by another program, as a unified diff without keys; "" if they were not compared.
    """

    def __init__(self, message: str, difference: str = "") -> None:
        super().__init__(message)
        self.difference = difference


class StoreError(IbkeysError):
    """A journal, key store or state file that cannot be used."""


class StoreLocked(StoreError):
    """Another changing command is running."""


class KeyGone(StoreError):
    """The journal refers to a key that this key store does not have: the key store was lost or replaced since."""


class StoreSealed(StoreError):
    """The key store is encrypted, and there is no passphrase, a wrong one, or no library to decrypt with."""


class TransportError(IbkeysError, OSError):
    """libibumad or the kernel refused a request. ``errno``: the reason; 0 if there is none."""

    def __init__(self, message: str, errno: int = 0) -> None:
        super().__init__(message)
        self.errno = errno


class LibraryMissing(TransportError):
    """The extension module for libibumad is missing. ``reason``: the message; ``cure``: how to install the module."""

    def __init__(self, message: str, errno: int = 0, cure: str = "") -> None:
        super().__init__(f"{message}: {cure}" if cure else message, errno)
        self.reason, self.cure = message, cure


class ModuleMissing(TransportError):
    """The kernel module ib_umad is not loaded."""


class NoDevice(TransportError):
    """There is no such channel adapter or port."""


class AccessDenied(TransportError):
    """The umad device may not be opened by this user."""


class SmpsNotAllowed(TransportError):
    """The port has no QP0, as with a virtual function: SMPs cannot be sent from it."""


class AgentRefused(TransportError):
    """The kernel refused to register an agent (umad_register).

    Another program owns the management class, or the port may not have it.
    """


class PortDown(TransportError):
    """The local port has no link."""


class DeviceGone(TransportError):
    """The device was removed while it was open."""


class HostNotReached(IbkeysError):
    """Another host could not be reached through ssh, or its answer is invalid.

    ``host``: the host as the user named it. ``why``: the reason, without the host's name if the message has the name.
    """

    def __init__(self, message: str, host: str, why: str = "") -> None:
        super().__init__(message)
        self.host, self.why = host, why or message


class HostRefused(IbkeysError):
    """A host answered, but refused the request. ``host``: the host as the user named it; "" for this host."""

    def __init__(self, message: str, host: str) -> None:
        super().__init__(message)
        self.host = host


class UfmNotReached(IbkeysError):
    """UFM could not be reached over HTTP, or its answer is invalid. ``url``: its base URL, without credentials."""

    def __init__(self, message: str, url: str) -> None:
        super().__init__(message)
        self.url = url


class UfmRefused(IbkeysError):
    """UFM answered, but refused the request. ``status``: the HTTP status; 202 if a job that UFM started has failed."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class ClosedError(IbkeysError):
    """An object was used after its close()."""
