"""The program: the entry point of ``python -m ibkeys`` and of the script ``ibkeys``.

All other modules may also be used in a process of another program. Before anything else this module gives SIGINT a
handler that does not interrupt imports: an exception in the middle of an import becomes another error (a RuntimeError
around ``__set_name__``, a line about an ignored exception) and leaves a module half loaded. So nothing is imported here
before that, `typing` included.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

INTERRUPTED = 130
"""The exit code after an interrupt. `ibkeys.cli.exits` has it too, but is not imported yet."""
_IMPORTING = "<frozen importlib"


def start() -> None:
    """Run the command line and leave with its exit code. An interrupt before the command has begun is silent."""
    try:
        _run()
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)


def _run() -> None:
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, Interrupt())
    from ibkeys.cli import main

    try:
        main()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done: the interpreter may end without interruption


class Interrupt:
    """A handler of SIGINT. It raises KeyboardInterrupt at once, but during an import only when the import has ended.

    A second SIGINT during the same import ends the process.
    """

    def __init__(self) -> None:
        self._waits = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal *number* that arrived while *frame* ran.

        Raises KeyboardInterrupt, unless an import is in progress.
        """
        importer = _importer(frame)
        if importer is None:
            raise KeyboardInterrupt
        if self._waits:
            os._exit(INTERRUPTED)
        self._waits = True

        def ended(frame: FrameType, event: str, arg: object) -> Any:
            sys.settrace(None)
            importer.f_trace = None
            self._waits = False
            raise KeyboardInterrupt

        importer.f_trace = ended  # called at the next line of the importing module
        sys.settrace(lambda frame, event, arg: None)  # a frame's f_trace is called only if a trace function is set


def _importer(frame: FrameType | None) -> FrameType | None:
    """Return the frame whose import statement began the outermost import in progress; None if there is none."""
    importing = None
    while frame is not None:
        if frame.f_code.co_filename.startswith(_IMPORTING):
            importing = frame.f_back
        frame = frame.f_back
    return importing


if __name__ == "__main__":
    start()
