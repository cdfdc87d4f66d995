"""The command `classkey-show`: keys of management classes other than subnet management."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import options
from ibkeys.cli.documents.class_key import CLASS_KEY_VALUES, CLASSKEY_SHOW
from ibkeys.cli.help.command import command
from ibkeys.cli.mkeys.asking_class_keys import ASK_UNKEYED, say_cost, say_not_asked
from ibkeys.cli.options import ShowPortsOptions
from ibkeys.cli.showing import read_port_listing, show, values_of
from ibkeys.cli.sm.policy import policy_if_known
from ibkeys.cli.types import NearChoice
from ibkeys.errors import IbkeysError, UsageError
from ibkeys.grouping import grouped
from ibkeys.mad.classes.gmp import KEY_CLASSES

if TYPE_CHECKING:
    from ibkeys.classkeys.reading import ClassKeyReading
    from ibkeys.fabric.readable_port import ReadablePort
    from ibkeys.mad.classes.gmp import KeyClass
    from ibkeys.source import Source
    from ibkeys.topology.nodes import Port

_CLASSES: Final = options.option(
    "--class",
    "classes",
    multiple=True,
    type=NearChoice(tuple(KEY_CLASSES)),
    help="Only this class; repeatable.  [default: all four]",
)


@command("classkey-show")
@_CLASSES
@ASK_UNKEYED
@options.show_ports_options(options.pkey_idx)
def classkey_show(
    command_options: ShowPortsOptions, classes: tuple[str, ...], ask_unkeyed: bool, pkey_idx: int | None
) -> int:
    """Show CC_Key, VS_Key, N2N manager key and B_Key of ports.

    The state tells a port without the class from a hidden key and from a port that does not answer. A known key (from
    --security-keys or the key store) is sent only to the port it belongs to. Without a key only B_Keys are queried,
    because the cost of such a query is not known in the other classes; --ask-unkeyed queries them once, without
    retries.
    """
    if ask_unkeyed and command_options.where.snapshot is not None:
        raise UsageError("--ask-unkeyed cannot be used with --from, which sends no queries")
    classes_to_query = _classes_named(classes)
    readings_of: dict[Port, list[ClassKeyReading]] = {}
    shows_keys = command_options.where.show_keys

    def ask(source: Source, ports: Sequence[Port]) -> None:
        nonlocal shows_keys
        shows_keys = command_options.where.show_keys and source.holds_m_keys
        chosen = ports if command_options.every_port or len(ports) != 1 else [_end_port(ports[0])]
        questions = source.class_key_questions(chosen, classes_to_query, ask_unkeyed=ask_unkeyed)
        say_cost(questions)
        readings_of.update(grouped(source.ask_class_keys(questions, pkey_idx), lambda reading: reading.port))

    port_listing = read_port_listing(
        command_options,
        _read,
        lambda port: {_ROWS: readings_of.get(port, [])},
        policy_if_known,
        p_keys=True,
        read_more=ask,
    )
    readings = [(row, reading) for row in port_listing.ports for reading in row.pop(_ROWS)]
    port_listing.ports = [{**row, **_values_of(reading, shows_keys)} for row, reading in readings]
    port_listing.errors += [{**row, "error": reading.detail} for row, reading in readings if reading.is_unread]
    say_not_asked(reading for _, reading in readings)
    # Several classes of one port are shown as a table too, like several ports.
    port_listing.is_sweep = brief = port_listing.is_sweep or len(readings) > 1
    fields = CLASS_KEY_VALUES[:-1] if brief and command_options.format == "table" else CLASS_KEY_VALUES
    return show(CLASSKEY_SHOW, port_listing, fields, command_options)


_ROWS: Final = "class_keys"


def _classes_named(names: Iterable[str]) -> list[KeyClass]:
    """Return the classes with these *names*; all classes if there are no names."""
    chosen = set(names) or set(KEY_CLASSES)
    return [of for name, of in KEY_CLASSES.items() if name in chosen]


def _read(handle: ReadablePort) -> None:
    handle.read_port_info()
    with suppress(IbkeysError):  # the table only tells which P_Key the port takes; else the default P_Key is used
        handle.read_p_keys()


def _end_port(port: Port) -> Port:
    if not port.is_end_port:
        raise UsageError(f"{port} has no class keys of its own: the keys of a switch are at port 0")
    return port


def _values_of(reading: ClassKeyReading, show_keys: bool) -> dict[str, Any]:
    """Return a reading as fields of the document. The names in ``key_info`` depend on the class."""
    info = reading.key_info
    return {
        "class": reading.of,
        "class_key_state": reading.state,
        **values_of(reading.settings, ("protect_bit", "lease_period", "violations")),
        "known_key": reading.is_the_known_key,
        "key_info": info.to_json(show_keys) if info is not None else None,
        "detail": reading.detail,
    }
