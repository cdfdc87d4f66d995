"""The results of a rehearsal with a fault, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ibkeys.printable import counted

IN_WORDS: Final = {
    "opensm-killed": "OpenSM killed",
    "silent-node": "silent node",
    "ibkeys-killed": "ibkeys killed",
}
"""Kind of a fault → the fault."""


def fault_in_words(tried: Mapping[str, Any]) -> str:
    """Return a fault in words: its kind, node and Set."""
    node = f" {tried['node']['node_desc']!r}" if tried["node"] is not None else ""
    when = f"at Set {tried['set']}" if tried["set"] is not None else "not reached, fewer Sets came"
    return f"{IN_WORDS[tried['kind']]}{node} {when}"


def change_in_words(tried: Mapping[str, Any]) -> str:
    """Return how the change ended under a fault."""
    return f"exit status {tried['exit_code']} after {tried['seconds']} s"


def way_back_in_words(tried: Mapping[str, Any]) -> str:
    """Return in words whether the command after the fault, a resume or an undo, worked."""
    goal = "before" if "undo" in (tried["way_back"] or "") else "planned"
    found = f"{counted(len(tried['left']), 'value')} not as {goal}" if tried["left"] else f"all as {goal}"
    if _are_only_moved(tried["left"]):
        found += ": P_Keys at other indexes"
    if tried["way_back"] is None:
        return f"nothing left to do: {found}"
    return f"`{tried['way_back']}`: exit status {tried['back_exit_code']} after {tried['back_seconds']} s, {found}"


def _are_only_moved(left: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether only the places of P_Keys differ."""
    were, are = Counter[Any](), Counter[Any]()
    for each in left:
        port = each["node_guid"], each["port"]
        were[port, each["kind"], each["before"]] += each["before"] is not None
        are[port, each["kind"], each["after"]] += each["after"] is not None
    return bool(left) and +were == +are and all(each["kind"] == "pkey" for each in left)


def loss_in_words(tried: Mapping[str, Any]) -> str:
    """Return which pairs were cut or open meanwhile, and for how long."""
    parts = []
    if tried["most_cut"]:
        pairs = [" and ".join(f"{port['node_desc']} port {port['port']}" for port in pair) for pair in tried["cut"]]
        more = tried["most_cut"] - len(pairs)
        named = f": {', '.join(pairs)}{f' and {more} more' if more > 0 else ''}" if pairs else ""
        parts.append(f"{counted(tried['most_cut'], 'pair')} cut, for {tried['seconds_cut']} s{named}")
    if tried["most_open"]:
        open_pairs = counted(tried["most_open"], "pair")
        parts.append(f"{open_pairs} open that should not be, for {tried['seconds_open']} s")
    return "; ".join(parts) or "no pair cut or open"
