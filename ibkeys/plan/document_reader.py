"""Reading the plan document ``ibkeys.plan/2``, and version 1, which has no text of the policy and no ``sm_options``.

The reader is strict, because the values are written to a live fabric. It refuses, with one line that names the place, a
digest that is missing or does not match the content, a field that is missing or of another type, a port that is named
twice, and a P_Key or index that no table can have. It ignores unknown fields, so that later versions may add some.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

from ibkeys import files, jsonfile
from ibkeys.arguments import file_path
from ibkeys.change.method import MethodName
from ibkeys.change.wanted import EnforcementChange, TableChange
from ibkeys.errors import EncodeError, FileFormatError, UsageError
from ibkeys.keys.pkey import PARTITION_MASK, PKey
from ibkeys.mad.const import NODE_TYPE_NAMES
from ibkeys.plan.digest import plan_digest
from ibkeys.plan.document import SCHEMA
from ibkeys.plan.model import (
    MAX_CAPACITY,
    Break,
    BreakKind,
    Enforce,
    FabricState,
    IndexMove,
    PartitionChanges,
    PartitionPlan,
    PlanOptions,
    PlanProblem,
    PolicySource,
    SmOptions,
)
from ibkeys.printable import cut
from ibkeys.reach.count import ReachCounts
from ibkeys.topology.enforcement import Enforcement
from ibkeys.topology.port_id import PortId, PortKey

_FIRST: Final = "ibkeys.plan/1"
_MOST_PORTS: Final = 255
_METHODS: Final[tuple[MethodName, ...]] = get_args(MethodName)
_ENFORCE: Final[tuple[Enforce, ...]] = get_args(Enforce)
_BREAK_KINDS: Final[tuple[BreakKind, ...]] = get_args(BreakKind)
T = TypeVar("T")


def read_plan(path: str | Path) -> PartitionPlan:
    """Return the plan in the file *path*. Raises FileFormatError, also for a file that was edited or has no digest;
    UsageError for one that cannot be read."""
    place = file_path("path", path)
    with files.os_errors_as(UsageError, str(place)):
        data = files.read_bytes(place, files.LARGE)
    return _read(data, str(place), bound=True)


def loads(text: str, name: str = "", bound: bool = True) -> PartitionPlan:
    """Return the plan in the document *text*. Raises FileFormatError. *name*: the name of the file, for messages.

    *bound*: require the digest of the content. False is for documents of ibkeys' own journal, in which earlier versions
    wrote no digest.
    """
    return _read(text.encode("utf-8", "surrogatepass"), name, bound)


def _read(data: bytes, name: str, bound: bool) -> PartitionPlan:
    document = jsonfile.loads(data, name)
    try:
        plan = _plan(_Value(document, ""))
        if bound:
            _check_digest(plan, _Value(document, ""))
    except FileFormatError as error:
        raise FileFormatError(str(error), name) from None
    return plan


def _check_digest(plan: PartitionPlan, document: _Value) -> None:
    if "digest" not in document.value:
        raise FileFormatError(
            "has no digest of the plan: an earlier version of ibkeys made it, or it was edited; plan again"
        )
    stated, actual = document.get("digest").text(), plan_digest(plan)
    if stated != actual:
        raise FileFormatError(
            f"was edited after it was made: its digest is {stated[:64]}, but its content has {actual}; plan again"
        )


@dataclass(frozen=True, slots=True)
class _Value:
    """A JSON value, and ``where``, its place in the document for messages. The methods that return the value raise
    FileFormatError if it is of another type or out of range."""

    value: Any
    where: str

    def fail(self, wanted: str) -> FileFormatError:
        """Return the error that this value is not *wanted*, a noun with its article."""
        return FileFormatError(f"{self.where or 'the document'}: {cut(json.dumps(self.value))} is not {wanted}")

    def get(self, name: str) -> _Value:
        """Return the member *name* of this object. Raises FileFormatError."""
        if not isinstance(self.value, dict):
            raise self.fail("an object")
        if name not in self.value:
            raise FileFormatError(f"{self.where or 'the document'}: {name!r} is missing")
        return _Value(self.value[name], f"{self.where}.{name}" if self.where else name)

    def has(self, name: str) -> bool:
        """Return whether this is an object with the member *name*."""
        return isinstance(self.value, dict) and name in self.value

    def items(self) -> list[_Value]:
        if not isinstance(self.value, list):
            raise self.fail("a list")
        return [_Value(item, f"{self.where}[{number}]") for number, item in enumerate(self.value)]

    def each(self, read: Callable[[_Value], T]) -> tuple[T, ...]:
        return tuple(read(item) for item in self.items())

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.fail("a text")
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.fail("true or false")
        return self.value

    def number(self, most: int) -> int:
        if type(self.value) is not int or not 0 <= self.value <= most:
            raise self.fail(f"a number from 0 to {most}")
        return self.value

    def hex(self, digits: int, what: str) -> int:
        if not isinstance(self.value, str) or not re.fullmatch(f"0x[0-9a-fA-F]{{{digits}}}", self.value):
            raise self.fail(f"{what} (0x and {digits} digits)")
        return int(self.value, 16)

    def guid(self) -> int:
        return self.hex(16, "a GUID")

    def partition(self) -> int:
        number = self.hex(4, "a partition")
        if not 0 < number <= PARTITION_MASK:
            raise self.fail("a partition from 0x0001 to 0x7fff")
        return number

    def word(self, words: Sequence[T]) -> T:
        """Return the element of *words* that equals this value. Raises FileFormatError."""
        if self.value not in words:
            raise self.fail(f"one of {', '.join(map(str, words))}")
        return words[words.index(self.value)]

    def or_none(self, read: Callable[[_Value], T]) -> T | None:
        return None if self.value is None else read(self)


def _plan(document: _Value) -> PartitionPlan:
    schema = document.get("schema").text()
    if schema not in (SCHEMA, _FIRST):
        raise FileFormatError(f"schema: {schema[:60]!r} is not {SCHEMA}; is this the output of `ibkeys plan`?")
    fabric, policy, options = document.get("fabric"), document.get("policy"), document.get("options")
    partitions, reach = document.get("partitions"), document.get("reach")
    return PartitionPlan(
        FabricState(
            fabric.get("digest").text(),
            fabric.get("sm_guid").or_none(_Value.guid),
            fabric.get("sm_evidence").or_none(_Value.text),
        ),
        _policy(policy, has_text=schema != _FIRST),
        document.get("tables").each(_table),
        document.get("enforcement").each(_enforcement),
        document.get("problems").each(_problem),
        PartitionChanges(partitions.get("born").each(_Value.partition), partitions.get("dying").each(_Value.partition)),
        ReachCounts(
            reach.get("gained").number(2**63),
            reach.get("lost").number(2**63),
            reach.get("unknown").number(2**63) if reach.has("unknown") else 0,  # earlier versions did not write it
        ),
        PlanOptions(
            options.get("enforce").word(_ENFORCE),
            options.get("allow_both_pkeys").flag(),
            options.get("disconnect_unconfigured").flag(),
            options.get("allow_index_moves").each(_Value.partition),
        ),
        document.get("index_moves").each(_move),
        document.get("breaks").each(_break),
        None if schema == _FIRST else document.get("sm_options").or_none(_sm_options),
        document.get("live_policy").or_none(_policy)
        if document.has("live_policy")
        else None,  # earlier versions did not write it
        document.get("method").or_none(_method) if document.has("method") else None,
    )


def _method(value: _Value) -> MethodName:
    return value.word(_METHODS)


def _policy(value: _Value, has_text: bool = True) -> PolicySource:
    file, digest = value.get("file").text(), value.get("digest").text()
    return PolicySource(file, digest, _policy_text(value) if has_text else None)


def _policy_text(policy: _Value) -> bytes | None:
    """Return the exact bytes of the policy, None if the document has none. `PartitionPlan` compares them with the
    digest."""
    encoding, text = policy.get("encoding"), policy.get("text")
    if text.value is None:
        return None
    try:
        match encoding.value:
            case "utf-8":
                data = text.text().encode("utf-8")
            case "base64":
                data = base64.b64decode(text.text().encode("ascii"), validate=True)
            case _:
                raise encoding.fail("one of utf-8, base64")
    except UnicodeEncodeError:
        raise text.fail(f"text in {encoding.text()}") from None
    except binascii.Error:
        raise text.fail("text in base64") from None
    if len(data) > files.LARGE:
        raise FileFormatError(f"{text.where}: more than {files.LARGE // files.MIB} MiB, the limit for a policy")
    return data


def _sm_options(value: _Value) -> SmOptions:
    return SmOptions(
        value.get("allow_both_pkeys").flag(),
        value.get("part_enforce").word(_ENFORCE),
        value.get("no_partition_enforcement").flag(),
        value.get("keep_pkey_indexes").flag(),
    )


def _port(value: _Value) -> PortId:
    return PortId(
        value.get("node_guid").guid(),
        value.get("port_guid").or_none(_Value.guid),
        value.get("node_desc").or_none(_Value.text),
        value.get("node_type").word([*NODE_TYPE_NAMES.values()]),
        value.get("port").number(_MOST_PORTS),
        value.get("lid").or_none(lambda lid: lid.number(0xFFFF)),
    )


def _peer(value: _Value) -> PortKey:
    return value.get("node_guid").guid(), value.get("port").number(_MOST_PORTS)


def _table(value: _Value) -> TableChange:
    return TableChange(
        _port(value),
        _entries(value.get("before")),
        _entries(value.get("after")),
        value.get("capacity").number(MAX_CAPACITY),
        value.get("peer").or_none(_peer),
    )


def _entries(value: _Value) -> dict[int, PKey]:
    if not isinstance(value.value, dict):
        raise value.fail("an object of index and P_Key")
    entries = {}
    for name, key in value.value.items():
        where = _Value(key, f"{value.where}[{json.dumps(name)[:40]}]")
        if not re.fullmatch("0|[1-9][0-9]{0,4}", name):
            raise FileFormatError(f"{where.where}: the name is not an index")
        try:
            entries[int(name)] = PKey(where.hex(4, "a P_Key"))
        except EncodeError:
            raise where.fail("a P_Key (0x and 4 digits)") from None
    return entries


def _enforcement(value: _Value) -> EnforcementChange:
    before, after = value.get("before"), value.get("after")
    return EnforcementChange(_port(value), _bits(before), _bits(after), value.get("peer").or_none(_peer))


def _bits(value: _Value) -> Enforcement:
    return Enforcement(value.get("inbound").flag(), value.get("outbound").flag())


def _problem(value: _Value) -> PlanProblem:
    has_no_port = value.get("node_guid").value is None
    return PlanProblem(None if has_no_port else _port(value), value.get("kind").text(), value.get("message").text())


def _move(value: _Value) -> IndexMove:
    return IndexMove(
        _port(value),
        PKey(value.get("pkey").hex(4, "a P_Key")),
        value.get("from").number(MAX_CAPACITY),
        value.get("to").number(MAX_CAPACITY),
    )


def _break(value: _Value) -> Break:
    return Break(
        value.get("partition").partition(),
        value.get("ports").each(_port),
        value.get("pairs").each(_pair),
        value.get("message").text(),
        value.get("kind").word(_BREAK_KINDS)
        if value.has("kind")
        else "no-room",  # earlier versions wrote no kind, and had this one only
    )


def _pair(value: _Value) -> tuple[int, int]:
    items = value.items()
    if len(items) != 2:
        raise value.fail("a pair of port GUIDs")
    return items[0].guid(), items[1].guid()
