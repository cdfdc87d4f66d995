"""Querying ports for keys of other management classes: options that commands share, and messages before and after."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ibkeys.cli import exits, options
from ibkeys.errors import UsageError
from ibkeys.mad.classes.gmp import KEY_CLASSES
from ibkeys.printable import counted

if TYPE_CHECKING:
    from ibkeys.classkeys.asking import PortQuestion
    from ibkeys.classkeys.reading import ClassKeyReading
    from ibkeys.fabric.snapshot import Snapshot
    from ibkeys.scripting import Fabric

ASK_UNKEYED: Final = options.flag(
    "--ask-unkeyed", help="Query once without a key where none is known: may add a violation and start a lease."
)

CLASS_KEYS: Final = options.option(
    "--class-keys", is_flag=True, help="Also query the ports for CC_Key, VS_Key, N2N manager key and B_Key."
)


def refuse_unkeyed_alone(class_keys: bool, ask_unkeyed: bool) -> None:
    """Raise UsageError for --ask-unkeyed without --class-keys."""
    if ask_unkeyed and not class_keys:
        raise UsageError("--ask-unkeyed requires --class-keys: without --class-keys no class key is queried")


def ask_all_ports(fabric: Fabric, taken: Snapshot, ask_unkeyed: bool, pkey_index: int | None) -> None:
    """Ask every end port of a new snapshot for its keys of all classes, and add the answers to *taken*, the snapshot.

    *ask_unkeyed*: whether to query a port once without a key if no key is known. *pkey_index*: the index, in the table
    of the local port, of the P_Key to send; None: of the default P_Key. Writes warnings and notes to standard error.
    """
    questions = fabric.class_key_questions(taken.fabric.end_ports(), KEY_CLASSES.values(), ask_unkeyed=ask_unkeyed)
    say_cost(questions)
    taken.class_keys = fabric.ask_class_keys(questions, pkey_index)
    say_not_asked(taken.class_keys)
    silent = [reading for reading in taken.class_keys if reading.is_unread]
    if silent:
        ports = len({reading.port for reading in silent})
        exits.note(
            f"{counted(ports, 'port')} did not answer for a class: nothing is known of these keys; "
            f"{silent[0].port}: {silent[0].detail}"
        )


def say_cost(questions: Iterable[PortQuestion]) -> None:
    """Warn of the possible cost of queries without a key, before they are sent."""
    ports = {question.port for question in questions if question.may_cost}
    if ports:
        exits.warn(
            f"--ask-unkeyed: {counted(len(ports), 'port')} will be queried without a key, once for each class. A port "
            "that hides its key may count one violation for each, tell the subnet manager, and show its key to "
            "everybody after its lease; whether it does is not known"
        )


def say_not_asked(readings: Iterable[ClassKeyReading]) -> None:
    """Write notes about ports that were not queried, and why."""
    readings = list(readings)
    without_key = {(each.port, each.of) for each in readings if each.not_asked == "no-key"}
    if without_key:
        names = ", ".join(name for name in KEY_CLASSES if any(of == name for _, of in without_key))
        ports = len({port for port, _ in without_key})
        exits.note(
            f"{counted(ports, 'port')} not queried for {names}: no key is known for them here, and the cost of "
            "a query without one is not known (--ask-unkeyed queries once)"
        )
    withheld = {each.port: each.detail for each in readings if each.not_asked == "withheld"}
    if withheld:
        port, reason = next(iter(withheld.items()))
        exits.note(f"{counted(len(withheld), 'port')} not queried, although a key is known; {port}: {reason}")
