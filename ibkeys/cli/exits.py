"""The end of a command: one exit code for each kind of error, and one line on standard error, below which explanations
may follow.

The codes: 0 done, 1 a check says no, 2 wrong usage, 3 could not complete, 4 refused, 130 interrupted.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from typing import Final, TextIO

import click

from ibkeys.cli import streams, typed
from ibkeys.cli.screen.colour import for_stream
from ibkeys.cli.screen.lines import fold_text, forget_names, width_of
from ibkeys.errors import (
    AddressError,
    EncodeError,
    FileFormatError,
    IbkeysError,
    MalformedMad,
    Refused,
    UsageError,
)
from ibkeys.printable import Detail, Rest, cut, place_of, set_rest
from ibkeys.printable import clean as clean

DONE: Final = 0
SAYS_NO: Final = 1
WRONG_USAGE: Final = 2
NOT_COMPLETED: Final = 3
REFUSED: Final = 4
INTERRUPTED: Final = 130

_HINT: Final = "; -v says more"
_OVERLONG_WORD: Final = re.compile(r"\S{4097,}")
"""A word longer than any path: a damaged file may contain one."""
_frames_wanted = False
_hides_explanations = False
"""Whether explanations of errors are left out, because the command has an option -v and it was not given."""
_more_notes: Callable[[], Iterable[str]] | None = None
_USAGE: Final = (AddressError, UsageError, EncodeError, FileFormatError, MalformedMad)


class StdoutFailed(Exception):
    """Raised if standard output cannot be written although its reader is still there.

    A reader that has gone is no error.
    """


_CLICK_ERRORS: Final = (click.exceptions.Exit, click.ClickException, click.Abort)
_EXPECTED: Final = (*_CLICK_ERRORS, KeyboardInterrupt, StdoutFailed, IbkeysError, MemoryError)
"""The exceptions with which a command may end. Any other is a bug, except an OSError from the operating system."""


def exit_code(error: BaseException) -> int:
    """Return the exit code for an exception that ended a command."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, (click.UsageError, *_USAGE)):
        return WRONG_USAGE
    if isinstance(error, Refused):
        return REFUSED
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return INTERRUPTED
    return NOT_COMPLETED


def message_of(error: BaseException) -> str | None:
    """Return the text of the line about *error* on standard error; None if it needs no line."""
    if isinstance(error, click.exceptions.Exit):
        return None
    if isinstance(error, StdoutFailed):
        return f"standard output cannot be written: {error}"
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx is not None else "ibkeys"
        return f"{error.format_message()} (see {path} --help)"
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return " ".join(filter(None, ("interrupted", str(error))))
    if isinstance(error, IbkeysError):
        return str(error)
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    where = f"{type(error).__name__} at {place_of(error)}"
    return f"internal error ({where}): a bug in ibkeys, please report it; -d shows more"


def run(command: Callable[[], int]) -> int:
    """Run *command* and return its exit code. Any exception becomes an exit code and one line on standard error.

    The explanation of the error follows as in `warn`. If the reader of standard output has gone, the command still runs
    to its end, and its own exit code is returned.
    """
    if sys.stdout is None:
        warn("standard output is closed", "error")
        return NOT_COMPLETED
    set_more_notes(None)
    explain(True)
    forget_names()
    try:
        code = command()
        require_stdout()
        if code == NOT_COMPLETED:
            _write_more_notes()
        return code
    except (Exception, KeyboardInterrupt) as error:
        return _report(error)
    finally:
        set_rest(Rest.COUNTED)


def _report(failure: BaseException) -> int:
    """Write the line about the exception that ended a command, and return the exit code."""
    try:
        require_stdout()  # output from before the failure comes before the line about the failure
    except StdoutFailed as late:
        if exit_code(failure) == DONE:  # the help or the version, which click writes itself, did not arrive
            failure = late
    if exit_code(failure) != NOT_COMPLETED:
        set_more_notes(None)
    text = message_of(failure)
    if text is not None:
        warn(text, "error", failure.more if isinstance(failure, IbkeysError) else "")
    if isinstance(failure, Refused):
        show_details(failure.details)
    if _frames_wanted and _is_internal(failure):
        _print_frames(failure)
    return exit_code(failure)


def set_more_notes(lines: Callable[[], Iterable[str]] | None) -> None:
    """Set the function that returns the notes to write before the error of a command that could not complete.

    None: no notes.
    """
    global _more_notes
    _more_notes = lines


def _write_more_notes() -> None:
    lines = _more_notes
    set_more_notes(None)
    warn_each(lines() if lines is not None else (), "note")


def explain(is_wanted: bool) -> None:
    """From now on write the explanations of errors if *is_wanted*, else a hint to -v in their place.

    A command calls this if it has the option -v.
    """
    global _hides_explanations
    _hides_explanations = not is_wanted
    set_rest(Rest.NAMED if is_wanted else Rest.HINTED)


def explains_all() -> bool:
    """Return whether explanations are written: -v was given, or the command has no such option."""
    return not _hides_explanations


def show_frames(is_wanted: bool = True) -> None:
    """Write the frames of an internal error from now on (``-d``), never its text or values, which may hold a key."""
    global _frames_wanted
    _frames_wanted = is_wanted


def require_stdout() -> None:
    """Flush standard output. Raises StdoutFailed if it cannot be written although its reader is still there."""
    sys.stdout.flush()
    failure = streams.failure_of(sys.stdout)
    if failure is not None and not streams.reader_is_gone(sys.stdout):
        raise StdoutFailed(str(failure)) from failure


def flush() -> None:
    """Flush standard output now. If that fails, the next `require_stdout` raises the error."""
    sys.stdout.flush()


def write(text: str, hang: int | None = None) -> None:
    """Write *text*, which is for people, and a newline to standard output; on a terminal it is folded to its width.

    *hang*: blanks before continued lines, see `ibkeys.cli.screen.lines.fold_text`.
    """
    if streams.hide_progress is not None:
        streams.hide_progress()
    sys.stdout.write(_fitted(text, sys.stdout, hang) + "\n")


def write_each(lines: Iterable[str]) -> None:
    """Write each of *lines* as `write` does."""
    for line in lines:
        write(line)


def write_exact(text: str) -> None:
    """Write *text*, which is for a program or a file, and a newline to standard output: never folded, no colour."""
    if streams.hide_progress is not None:
        streams.hide_progress()
    sys.stdout.write(text + "\n")


def say(text: str, end: str = "\n") -> None:
    """Write *text* and *end* to standard error, as `write` does to standard output."""
    if streams.hide_progress is not None:
        streams.hide_progress()
    print(_fitted(text, sys.stderr), end=end, file=sys.stderr, flush=True)


def _fitted(text: str, stream: TextIO, hang: int | None = None) -> str:
    width = width_of(stream)
    return for_stream(text if width is None else fold_text(text, width, hang), stream)


def write_as_is(text: str) -> None:
    """Write *text*, which was read as UTF-8 with surrogateescape, as its original bytes."""
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:
        write_exact(text.rstrip("\n"))
        return
    sys.stdout.flush()
    stream.write(text.encode("utf-8", "surrogateescape"))


def warn(text: str, kind: str = "warning", more: str = "") -> None:
    """Write one line to standard error. Words of the command line that may be a key are taken out of it.

    *kind*: the word before *text*. *more*: an explanation, written below the line. If the command has an option -v that
    was not given, the line has a hint to -v instead, and a `Detail` is not written.
    """
    if isinstance(text, Detail) and _hides_explanations:
        return
    if kind == "error":
        _write_more_notes()
    hint = _HINT if more and _hides_explanations else ""
    message = clean(_OVERLONG_WORD.sub(lambda word: cut(word[0]), typed.without_keys(text)))
    say(f"ibkeys: {kind}: {message}{hint}")
    if not _hides_explanations:
        show_details(more)


def warn_each(texts: Iterable[str], kind: str = "warning") -> None:
    """Write a line for each of *texts* as `warn` does."""
    for text in texts:
        warn(text, kind)


def note(text: str) -> None:
    """Write a note, which is less than a warning, as `warn` does."""
    warn(text, "note")


def detail(text: str) -> None:
    """Write a `Detail`: a note that is shown only with -v, or by a command without that option."""
    note(Detail(text))


def show_details(text: str) -> None:
    """Write the lines of *text*, such as a diff, below a message; indented, so that none looks like a message."""
    for line in text.split("\n") if text else ():
        say(f"  {clean(typed.without_keys(line))}")


def _is_internal(error: BaseException) -> bool:
    return not isinstance(error, _EXPECTED) and not (isinstance(error, OSError) and error.strerror)


def _print_frames(error: BaseException) -> None:
    from traceback import walk_tb  # not at the top: it loads much that a command without errors does not need

    for frame, line in walk_tb(error.__traceback__):
        print(f"  {frame.f_code.co_filename}:{line} {frame.f_code.co_qualname}", file=sys.stderr)
