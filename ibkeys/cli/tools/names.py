"""The output of `discover --names`: GUID, name, LID and switch port of each end port."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import typed
from ibkeys.cli.documents.fabric import DISCOVER_NAMES
from ibkeys.cli.documents.field import NOTHING
from ibkeys.cli.exits import clean, write_exact
from ibkeys.cli.listing.filters import PortFilter
from ibkeys.cli.opening import open_source
from ibkeys.cli.options import Filters, Where
from ibkeys.cli.render import write_document, write_table
from ibkeys.cli.showing import (
    errors_of,
    finish,
    guid_of,
    peer_document,
    sweep_for,
    write_unreached,
)
from ibkeys.cli.sm.policy import name_partitions
from ibkeys.keys.guid import is_spelled_as_guid

if TYPE_CHECKING:
    from ibkeys.topology.directory import Directory
    from ibkeys.topology.nodes import Port

VALUES: Final[dict[str, Callable[[Directory, Port], Any]]] = {
    "name": lambda _, port: port.node.description,
    "host": lambda _, port: _host(port),
    "port-guid": lambda _, port: guid_of(port),
    "node-guid": lambda _, port: f"0x{port.node.guid:016x}",
    "lid": lambda _, port: port.lid,
    "switch-port": lambda directory, port: directory.switch_port(port),
}
"""The values that ``--only`` can print for a port."""


def show_names(where: Where, words: tuple[str, ...], only: str | None, filters: Filters, format: str) -> int:
    """Write the end ports that *words* name (all without words), and return the exit code.

    *only*: the value of `VALUES` to print alone; None: a table or a document. Raises UsageError for *only* with another
    *format* than table, AddressError for a word that names no port, and the errors of a sweep.
    """
    from ibkeys.discovery.wanted import Wanted
    from ibkeys.errors import UsageError
    from ibkeys.topology.directory import Directory

    if only is not None and format != "table":
        raise UsageError(f"--only and -f {format} exclude each other")
    filter = PortFilter(filters)
    with open_source(where) as source:
        name_partitions(filter, source, bool(where.verbose))
        topology = sweep_for(source, where, filter, Wanted())
    directory = Directory(topology)
    ports = [port for port in _ports(directory, words) if not filter.is_given or filter.keeps(port)]
    errors = errors_of(topology, filter.concerns)
    if only is not None:
        for port in ports:
            value = VALUES[only](directory, port)
            write_exact(NOTHING if value in (None, "") else clean(str(value)))
    elif not write_document(
        format,
        DISCOVER_NAMES,
        lambda: {"ports": [*map(_document, ports)], "errors": errors, "unreached": topology.unreached},
        map(_document, ports),
    ):
        titles = ("Name", "Port", "LID", "Port GUID", "Switch port")
        write_table(titles, (_cells(directory, port) for port in ports))
        if not (words or filter.is_given):
            write_unreached(topology.unreached)
    return finish(errors, format)


def exempt_guids(words: Iterable[str]) -> None:
    """Allow messages to show the words among *words* that are GUIDs.

    Otherwise messages would hide them, because they look like keys.
    """
    from ibkeys.client.address import parse_guids
    from ibkeys.errors import AddressError

    for word in words:
        guid = word if is_spelled_as_guid(word) else word.rpartition(":")[0]  # GUID:PORT names a port of a switch
        if is_spelled_as_guid(guid):
            try:
                for address in parse_guids(guid):
                    typed.exempt_guid(address.guid)
            except AddressError:
                continue  # the code that looks the word up raises the error


def _ports(directory: Directory, words: tuple[str, ...]) -> list[Port]:
    if not words:
        return directory.ports
    return list(dict.fromkeys(port for ports in directory.find_all(words).values() for port in ports))


def _host(port: Port) -> str | None:
    from ibkeys.similar_names import split_description

    return split_description(port.node.description)[0] if port.node.description else None


def _document(port: Port) -> dict[str, Any]:
    return {**port.identity(), "host": _host(port), "peer": peer_document(port)}


def _cells(directory: Directory, port: Port) -> list[Any]:
    return [port.node.description, port.num, port.lid, guid_of(port), directory.switch_port(port) or NOTHING]
