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
class Traced:
    """The options for printing and capturing MADs."""

    verbose: int = options.field("-v", "--verbose", count=True, help="Print each MAD in one line.")
    pcap: str | None = options.field(
        "--pcap", metavar="FILE", help="Write the MADs for Wireshark, keys zeroed unless -K."
    )
    show_keys: bool = options.taken(options.show_keys, default=False)


traced_options: Final = options.group("traced", Traced)


def watching(stack: ExitStack, traced: Traced) -> Callable[[PassedMad], None] | None:
    """Return a function that prints and captures each MAD as the options say; None if they ask for neither."""
    watchers: list[Callable[[PassedMad], None]] = [_print_mad] if traced.verbose else []
    if traced.pcap:
        watchers.append(_capture(stack, Path(traced.pcap), traced.show_keys))
    return (lambda passed: _all(watchers, passed)) if watchers else None


def _all(watchers: list[Callable[[PassedMad], None]], passed: PassedMad) -> None:
    """Give one MAD to every watcher. A watcher that fails (a closed pipe, a full disk) is dropped.

    The server goes on, because its programs would hang without it.
    """
    for watcher in tuple(watchers):
        try:
            watcher(passed)
        except (OSError, ValueError, IbkeysError, exits.StdoutFailed) as error:
            watchers.remove(watcher)
            exits.warn(f"what was shown or captured ends here: {error}", "sim")


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
            """Write one MAD; one that came back without an answer was on the wire only once, and is skipped."""
            if not passed.note:
                self._write(passed.mad, passed.slid, passed.dlid, passed.qpn, 0)

    capture = Capture(path, show_keys=show_keys)
    stack.callback(capture.close)
    return capture.capture_mad
