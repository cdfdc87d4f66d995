"""The work of `keystore list --settle`: finding ports that moved, and recording where they are now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ibkeys.cli import exits
from ibkeys.cli.changing import confirm, writer_of
from ibkeys.cli.documents.keystore import KEYSTORE_SETTLE
from ibkeys.cli.exits import say, write
from ibkeys.cli.opening import open_fabric
from ibkeys.cli.options import ConsentOptions, Where
from ibkeys.cli.render import write_json
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibkeys.mkeys.places import KeySurvey


def settle(where: Where, yes: bool, format: str) -> int:
    """Find the ports that moved, were replaced or vanished, show them, ask, and record them in the key store.

    Returns exit code 0, also if there is nothing to record; 3 if the node at a place could not be identified, or if two
    places have the same GUID. Raises UsageError for -f csv, and if no key is known; Refused without confirmation.
    """
    from ibkeys.mkeys import places as rooms

    if format == "csv":
        raise UsageError("--settle has no such format: use -f table or -f json")
    consent = ConsentOptions(dry_run=False, yes=yes, force=False, override=())
    with open_fabric(where, changing=True) as fabric, writer_of(fabric, "keystore list --settle", consent) as writer:
        if not fabric.ring.has_keys and not any(fabric.ring.class_keys.values()):
            raise UsageError(
                "--settle: no key is known, so there are no ports to look for (--keystore, --security-keys)"
            )
        places = rooms.survey(writer)
        exits.warn_each(places.found.notes, "note")
        document = _document(places)
        if format == "table":
            _write(document, write)
        settled = False
        if places.pending:
            exits.require_stdout()
            question = "Keep this in the key store?"
            if places.vanished and places.unidentified:
                question = (
                    f"{len(places.unidentified)} places that cannot be identified will be queried without a key from "
                    f"now on, which a protected port counts as an M_Key violation. {question}"
                )
            show = (lambda: None) if format == "table" else lambda: _write(document, say)
            confirm(consent, show, question)
            changed = writer.changed_links(places.nears())
            for port, why in changed.items():
                exits.warn(f"{port}: not recorded: {why}")
            places.moved = [each for each in places.moved if each.near not in changed]
            places.replaced = [each for each in places.replaced if each.near not in changed]
            rooms.settle(writer, places)
            settled = True
        if format == "json":
            write_json(KEYSTORE_SETTLE, {**document, "settled": settled})
        elif settled:
            write("kept in the key store; no key was deleted")
    return exits.NOT_COMPLETED if places.unidentified or places.claimed else exits.DONE


def _document(places: KeySurvey) -> dict[str, Any]:
    return {
        "moved": [
            {
                "port_guid": _guid(each.end[0]),
                "port": each.end[1],
                "was_behind": _end(each.was),
                "now_behind": each.near.identity(),
                "source": "named" if each.is_named else "answered",
            }
            for each in places.moved
        ],
        "replaced": [
            {"behind": each.near.identity(), "known": _end(each.known), "now": _end(each.now)}
            for each in places.replaced
        ],
        "vanished": [_guid(guid) for guid in places.vanished],
        "claimed_twice": [_guid(guid) for guid in places.claimed],
        "unidentified": [{"behind": each.near.identity(), "known": _end(each.known)} for each in places.unidentified],
    }


def _guid(guid: int) -> str:
    return f"0x{guid:016x}"


def _end(end: tuple[int, int] | None) -> dict[str, Any] | None:
    return None if end is None else {"guid": _guid(end[0]), "port": end[1]}


def _write(document: dict[str, Any], put: Callable[[str], None]) -> None:
    if not any(document.values()):
        put("nothing to settle: no port with a key was found at another place than its known one")
    for each in document["moved"]:
        was = f", was behind {_end_text(each['was_behind'])}" if each["was_behind"] else ""
        by = (
            ("the SA or a forwarding table places it there")
            if each["source"] == "named"
            else "it answered without a key"
        )
        put(f"moved: port GUID {each['port_guid']} is now behind {_port_text(each['now_behind'])}{was} ({by})")
    for each in document["replaced"]:
        put(
            f"replaced: behind {_port_text(each['behind'])} is now GUID {each['now']['guid']} instead of "
            f"{each['known']['guid']}"
        )
    for guid in document["vanished"]:
        put(f"vanished: port GUID {guid} was not found; its keys stay, and the command does not wait for it")
    for guid in document["claimed_twice"]:
        put(f"not settled: port GUID {guid} is at two places; one of them has a false GUID")
    for each in document["unidentified"]:
        known = f"; the known port there is {_end_text(each['known'])}" if each["known"] else ""
        put(f"not settled: nothing identifies the node behind {_port_text(each['behind'])}{known}")


def _end_text(end: dict[str, Any]) -> str:
    return f"GUID {end['guid']} port {end['port']}"


def _port_text(port: dict[str, Any]) -> str:
    name = f"{port['node_desc']!r} " if port["node_desc"] else ""
    return f"{name}{port['node_guid']} port {port['port']}"
