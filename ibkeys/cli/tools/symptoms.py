"""The command `explain`: the meaning of a pasted text, the likely causes, and the commands that decide between them."""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TextIO

import click
from click.core import ParameterSource

from ibkeys.cli import exits, options
from ibkeys.cli.documents.explained import EXPLAIN
from ibkeys.cli.exits import write, write_exact
from ibkeys.cli.help.command import command
from ibkeys.cli.options import Where
from ibkeys.cli.render import write_document
from ibkeys.errors import UsageError
from ibkeys.printable import counted

if TYPE_CHECKING:
    from ibkeys.symptoms.explain import Answer, Explanation

_SHOWN: Final = 4
"""The most answers that a table has."""
_LOOKED_AT: Final = 2
"""The causes of each answer whose commands --look runs."""
_NOT_RUN: Final = ("decode",)
"""Commands that --look leaves out: they read the text itself."""


@command("explain")
@click.argument("texts", metavar="[TEXT|-]...", nargs=-1)
@options.flag("--look", help="Run the commands that decide between the likeliest causes; they only read.")
@options.format
@options.reading
def explain(where: Where, texts: tuple[str, ...], look: bool, format: str) -> int:
    """Explain a message, log line or number: paste it.

    TEXT is anything that a program printed: lines of OpenSM's log or of the kernel, messages of infiniband-diags, NCCL,
    UCX, MPI, IPoIB, Kubernetes or ibkeys, a trap or MAD in hex, a P_Key, GUID, audit rule, interlock or exit status.
    '-' or no TEXT reads standard input. Shows what it means, the likely causes, and the command that decides. Keys in
    the text are never shown. Exits 1 if nothing in it is known.
    """
    from ibkeys.symptoms.explain import explain as explain_text

    found = explain_text(_text_of(texts))
    if not write_document(format, EXPLAIN, lambda: _document(found), _rows(found)):
        _write(found)
    if look and format == "table" and found.answers:
        return _look(found.answers)
    return exits.DONE if found.answers else exits.SAYS_NO


def _text_of(texts: tuple[str, ...]) -> str:
    """Return the text to explain. Raises UsageError if there is none."""
    from ibkeys.symptoms.explain import LONGEST

    stream: TextIO = io.StringIO(" ".join(texts))
    if texts in ((), ("-",)):
        stream = sys.stdin
        if hasattr(sys.stdin, "reconfigure"):
            sys.stdin.reconfigure(errors="replace")
        if sys.stdin.isatty():
            exits.say("paste the text, then press Ctrl-D:")
    text = stream.read(LONGEST + 1)
    while len(text) > LONGEST and text[0].isspace():
        text = text.lstrip()
        text += stream.read(LONGEST + 1 - len(text))
    if not text.strip():
        raise UsageError("there is no text to explain: give it in quotes, or on standard input")
    if len(text) > LONGEST:
        exits.note(f"only the first {LONGEST} characters are looked at")
    return text


def _document(found: Explanation) -> dict[str, Any]:
    return {"keys": found.keys, "answers": [_answer_document(each) for each in found.answers]}


def _answer_document(answer: Answer) -> dict[str, Any]:
    row = answer.symptom
    return {
        "symptom": row.name,
        "title": row.title,
        "meaning": row.meaning,
        "details": list(answer.details),
        "numbers": [{"kind": kind.value, "value": text} for kind, text in answer.numbers],
        "leaks": answer.leaks or None,
        "unknown": row.unknown or None,
        "source": row.source,
        "causes": list(_cause_documents(answer)),
    }


def _cause_documents(answer: Answer) -> Iterator[dict[str, Any]]:
    for each in answer.causes:
        yield {
            "cause": each.cause.name,
            "text": each.cause.text,
            "command": _typed(each.command) if each.command is not None else None,
            "shows": each.cause.shows or None,
            "remedy": each.cause.remedy or None,
        }


def _rows(found: Explanation) -> Iterator[dict[str, Any]]:
    for answer in found.answers:
        for row in _cause_documents(answer):
            yield {"symptom": answer.symptom.name, **row}


def _typed(words: Iterable[str]) -> str:
    return shlex.join(["ibkeys", *words])


def _write(found: Explanation) -> None:
    if not found.answers:
        write("nothing in this text is known; ibkeys help WORD searches all pages")
    for number, answer in enumerate(found.answers[:_SHOWN]):
        if number:
            write("")
        _write_answer(answer)
    left = len(found.answers) - _SHOWN
    if left > 0:
        write(f"\nand {counted(left, 'more answer')} (-f json has all)")
    if found.keys and not any(each.leaks for each in found.answers):
        them = "it" if found.keys == 1 else "them"
        exits.warn(f"{counted(found.keys, 'key')} in this text: whoever saw it knows {them}, so change {them}")


def _write_answer(answer: Answer) -> None:
    row = answer.symptom
    write(row.title[0].upper() + row.title[1:])
    write(f"  {row.meaning}", 2)
    for line in answer.details:
        write(f"  {line}", 2)
    if answer.numbers:
        write(f"  In the text: {', '.join(f'{_NAMES[kind.value]} {text}' for kind, text in answer.numbers)}", 2)
    if answer.leaks:
        write(f"  A KEY IS IN THE TEXT: {answer.leaks}", 2)
    for number, each in enumerate(answer.causes, 1):
        write(f"  {number}. {each.cause.text}", 5)
        if each.command is not None:
            write_exact(f"       {_typed(each.command)}")
            write(f"     shows then: {each.cause.shows}", 5)
        if each.cause.remedy:
            write(f"     -> {each.cause.remedy}", 5)
    if row.unknown:
        write(f"  Not known: {row.unknown}", 2)
    write(f"  Source: {row.source}", 2)


_NAMES: Final = {
    "lid": "LID",
    "lid1": "sender LID",
    "lid2": "receiver LID",
    "guid": "GUID",
    "guid2": "GUID",
    "pkey": "P_Key",
    "pkey2": "P_Key",
    "qkey": "Q_Key",
    "port": "port",
    "route": "directed route",
    "index": "P_Key index",
}


def _look(answers: Iterable[Answer]) -> int:
    """Run the commands that decide, and return the highest of their exit codes that is not `exits.SAYS_NO`."""
    words = [
        each.command
        for answer in list(answers)[:_SHOWN]
        for each in answer.causes[:_LOOKED_AT]
        if each.command is not None and each.command[0] not in _NOT_RUN
    ]
    code = exits.DONE
    for each in dict.fromkeys(words):
        write_exact(f"\n$ {_typed(each)}")
        exits.flush()
        ended = exits.run(lambda words=each: _run(words))  # type: ignore[misc]
        code = max(code, ended if ended != exits.SAYS_NO else exits.DONE)
    return code


def _run(words: tuple[str, ...]) -> int:
    """Run a command of ibkeys with the options of this one that it has too, and return its exit code."""
    this = click.get_current_context()
    root = this.find_root()
    assert isinstance(root.command, click.Group)
    name, other, rest = root.command.resolve_command(root, list(words))
    assert other is not None, "resolve_command raises for an unknown command"
    with other.make_context(name, [*rest, *_given(this, other)], parent=root) as context:
        return int(other.invoke(context) or 0)


def _given(this: click.Context, other: click.Command) -> Iterator[str]:
    """Yield the options on the command line of *this* that *other* has too, as they are typed."""
    known = {param.name: param for param in other.params}
    for param in this.command.params:
        twin = known.get(param.name)
        if (
            not isinstance(param, click.Option)
            or not isinstance(twin, click.Option)
            or param.opts != twin.opts
            or param.name in (None, "format")
            or this.get_parameter_source(str(param.name)) is not ParameterSource.COMMANDLINE
        ):
            continue
        value = this.params.get(str(param.name))
        yield from _as_typed(param, value)


def _as_typed(param: click.Option, value: Any) -> Iterator[str]:
    if param.is_flag:
        yield param.opts[0]
    elif param.count:
        yield from [param.opts[0]] * int(value)
    else:
        for each in value if param.multiple else (value,):
            yield from (param.opts[-1], str(each))
