"""Printing and capturing the MADs of a simulated subnet that is being served."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibkeys.cli import exits, options, streams
from ibkeys.cli.exits import write
from ibkeys.errors import IbkeysError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibkeys.sim.server.outbox import PassedMad


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """The options for printing and capturing MADs."""

    verbose: int = options.field("-v", "--verbose", count=True, help="Print each MAD in one line.")
    pcap: str | None = options.field(
        "--pcap", metavar="FILE", help="Write the MADs for Wireshark, keys zeroed unless -K."
    )
    show_keys: bool = options.field_of(options.show_keys, default=False)


trace_options: Final = options.group("trace", TraceOptions)


def mad_watcher(stack: ExitStack, trace: TraceOptions) -> Callable[[PassedMad], None] | None:
    """Return a function that prints or captures each MAD as the options say; None if they ask for neither.

    *stack*: closes the capture file.
    """
    watchers: list[Callable[[PassedMad], None]] = [_print_mad] if trace.verbose else []
    if trace.pcap:
        watchers.append(_capture(stack, Path(trace.pcap), trace.show_keys))
    return (lambda passed: _pass_on(watchers, passed)) if watchers else None


def _pass_on(watchers: list[Callable[[PassedMad], None]], passed: PassedMad) -> None:
    """Call every watcher with one MAD. A watcher that fails (a closed pipe, a full disk) is removed from *watchers*.

    The error does not end the server, because the programs that are attached to it would hang.
    """
    for watcher in tuple(watchers):
        try:
            watcher(passed)
        except (OSError, ValueError, IbkeysError, exits.StdoutFailed) as error:
            watchers.remove(watcher)
            exits.warn(f"printing or capturing of MADs ends here: {error}", "sim")


def _print_mad(passed: PassedMad) -> None:
    from ibkeys.mad.decode import summary

    lids = "" if passed.dlid == 0xFFFF else f" LID {passed.slid} to {passed.dlid}"
    note = f" ({passed.note})" if passed.note else ""
    write(exits.clean(f"{passed.client.slot} {'>' if passed.out else '<'} {summary(passed.mad)}{lids}{note}"))
    exits.flush()
    failure = streams.failure_of(sys.stdout)
    if failure is not None:
        raise exits.StdoutFailed(str(failure))


def _capture(stack: ExitStack, path: Path, show_keys: bool) -> Callable[[PassedMad], None]:
    from ibkeys.umad.pcap import PcapFile

    class Capture(PcapFile):
        """A capture file of MADs between any two ports."""

        def capture_mad(self, passed: PassedMad) -> None:
            """Write one MAD. A MAD with a note is skipped: nothing answered it, and it was written when it was sent."""
            if not passed.note:
                self._write(passed.mad, passed.slid, passed.dlid, passed.qpn, 0)

    capture = Capture(path, show_keys=show_keys)
    stack.callback(capture.close)
    return capture.capture_mad
