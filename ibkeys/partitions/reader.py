"""Reading OpenSM's partitions.conf. The reader accepts the files that OpenSM 3.3 accepts, and reports every mistake
with its line and column.

    file       = { definition }
    definition = header ":" portlist ";"            the ":" is on the line on which the header starts
    header     = [ name ] [ "=" pkey ] { "," flag [ "=" value ] }
    portlist   = { item ( "," | newline ) }
    item       = member [ "=" membership ] | "mgid=" GID { "," flag "=" value }, which takes the rest of its line

Words may be abbreviated, case matters, and ``#`` begins a comment anywhere. Where OpenSM would read old bytes of its
buffer, its result cannot be predicted, so that is an error here. The reader continues after an error, to find the next
one, but no part of a file with an error is ever used. Source: opensm osm_prtn_config.c, osm_prtn.c, and tests with
opensm 3.3.23.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.arguments import file_path, require
from ibkeys.errors import FileFormatError
from ibkeys.keys.pkey import FULL_BIT, PARTITION_MASK
from ibkeys.partitions.flags import membership_of, read_flag, similar_word_hint
from ibkeys.partitions.groups import read_group
from ibkeys.partitions.lines import LineWord, NameValue, Remarks, pairs, skip_blanks
from ibkeys.partitions.model import (
    DEFAULT_NAME,
    DEFAULT_PARTITION,
    MAX_NAME,
    Definition,
    Keyword,
    MemberRule,
    MemberWord,
    MgidGroup,
    Policy,
    broadcast_mgid,
    partition_name,
    stored_name,
    table_order,
)
from ibkeys.partitions.words import BLANKS, abbreviates, c_number
from ibkeys.printable import shortened

MAX_LINE: Final = 4094
"""The largest number of bytes in a line, without its newline. OpenSM splits a longer line at this length."""
_LAST_AUTOMATIC: Final = 0x7FFE

_KEYWORDS: Final[tuple[Keyword, ...]] = ("ALL", "ALL_CAS", "ALL_SWITCHES", "ALL_ROUTERS", "SELF")


def read_policy(path: str | Path) -> Policy:
    """Return the policy in a file, with the problems of its text. Raises FileFormatError if the file cannot be read,
    UsageError for a *path* of a wrong type."""
    path = file_path("path", path)
    with files.os_errors_as(partial(FileFormatError, path=str(path)), "the policy cannot be read"):
        data = files.read_bytes(path, files.LARGE)
    return parse_policy(data, str(path))


def parse_policy(text: str | bytes, path: str = "<text>", known: Mapping[int, str] | None = None) -> Policy:
    """Return the policy in *text*, with the problems of the text. *path*: the name of the file in messages.

    *known*: the names, by number, of the partitions that a running OpenSM has when it reads the text. They decide the
    numbers that it picks. None for an OpenSM that was just started. Raises UsageError for an argument of a wrong type.
    """
    require("text", text, (str, bytes), "the text of a policy")
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    reader = _Reader(known or {})
    reader.read(data)
    return Policy(
        path,
        tuple(reader.definitions),
        tuple(sorted(reader.remarks.of("error"))),
        tuple(sorted(reader.remarks.of("warning") + reader.remarks.of("note"))),
        hashlib.sha256(data).hexdigest(),
        data,
    )


class _Reader:
    """Reads one file. The methods keep OpenSM's state: ``open`` is the definition that has not ended yet; ``bases`` has
    the names of partitions by number, ``names`` the numbers by name; ``picked`` has the numbers that OpenSM picked by
    itself.
    """

    def __init__(self, known: Mapping[int, str]) -> None:
        self.definitions: list[Definition] = []
        self.remarks = Remarks()
        self.open: Definition | None = None
        self.groups: list[MgidGroup] = []  # the groups of the open definition
        self.rules: list[MemberRule] = []
        self.skipping = False  # after a mistake in a header, up to the next semicolon
        self.bases = {**known, DEFAULT_PARTITION: DEFAULT_NAME}
        # If several partitions have one name, OpenSM finds the first in its table.
        self.names = {self.bases[base]: base for base in sorted(self.bases, key=table_order, reverse=True)}
        self.last_automatic = 0
        self.picked: set[int] = set()
        self.mgids: set[int] = set()
        self.last_item = (1, 1)
        self.has_cr = False

    # --- lines -------------------------------------------------------------------------------------------------------

    def read(self, data: bytes) -> None:
        lines = data.split(b"\n")
        for self.remarks.line, raw in enumerate(lines, 1):
            self.read_line(raw)
        if self.open is not None:
            self.remarks.line, column = self.last_item
            self.remarks.warn(column, "not-closed", "the last definition has no ';' after this line")
            self.close()
        if not self.definitions and not self.remarks.of("error"):
            self.remarks.line = 1
            self.remarks.error(1, "empty", "there is no definition in this file")

    def read_line(self, raw: bytes) -> None:
        if len(raw) > MAX_LINE:
            column = len(raw[:MAX_LINE].decode("utf-8", "surrogateescape")) + 1
            self.remarks.error(
                column,
                "long-line",
                f"the line has {len(raw)} bytes: OpenSM cuts it after {MAX_LINE}, here, and takes the rest for a new "
                "line; wrap it (`ibkeys policy-check --format conf` does)",
            )
        if b"\0" in raw:
            column = len(raw[: raw.index(b"\0")].decode("utf-8", "surrogateescape")) + 1
            self.remarks.error(
                column, "nul-byte", "a NUL byte: this is not a text file, or not one of 8-bit characters"
            )
            return
        text = raw.decode("utf-8", "surrogateescape")
        code, sharp, comment = text.partition("#")
        if code.endswith("\r") and not sharp and not self.has_cr:
            self.has_cr = True
            self.remarks.warn(
                len(code), "cr", "the line ends in CR LF; OpenSM reads the CR as a part of the last word (dos2unix)"
            )
        at = 0
        while True:
            at = skip_blanks(code, at)
            if at >= len(code):
                return
            end = code.find(";", at)
            stop = end if end >= 0 else len(code)
            if end == at:
                self.lone_semicolon(at)
            else:
                self.last_item = (self.remarks.line, at + 1)
                self.read_piece(code, at, stop, is_closed=end >= 0, comment=comment if sharp and end < 0 else None)
            if end < 0:
                return
            self.close()
            at = end + 1

    def lone_semicolon(self, at: int) -> None:
        if not self.skipping:
            self.remarks.error(
                at + 1,
                "lone-semicolon",
                "a ';' with nothing before it on its line: OpenSM then reads past the end of the line and fails; "
                "put it after the last port",
            )

    def read_piece(self, code: str, at: int, stop: int, *, is_closed: bool, comment: str | None) -> None:
        """Read ``code[at:stop]``, the part of a definition on one line. *is_closed*: a semicolon follows. *comment*:
        the comment that follows instead, None if there is none.
        """
        if self.skipping:
            return
        if self.open is None:
            colon = code.find(":", at, stop)
            if colon < 0:
                self.remarks.error(
                    at + 1,
                    "no-colon",
                    "no ':' after the head of the definition; it has to be on the line on which the definition begins",
                )
                self.skipping = True
                return
            if not self.read_header(code, at, colon):
                self.skipping = True
                return
            at = colon + 1
        assert self.open is not None
        items = list(pairs(code, at, stop))
        for index, pair in enumerate(items):
            if pair.name.text == "mgid":
                flags = items[index + 1 :]
                group = read_group(self.remarks, self.open, self.mgids, pair, flags, is_closed, comment)
                self.groups += [group] if group is not None else []
                return
            self.read_rule(pair)

    def close(self) -> None:
        """End the definition that is open, if any."""
        self.skipping = False
        if self.open is not None:
            self.definitions.append(replace(self.open, groups=tuple(self.groups), rules=tuple(self.rules)))
            self.open, self.groups, self.rules = None, [], []

    # --- the head of a definition ------------------------------------------------------------------------------------

    def read_header(self, code: str, at: int, colon: int) -> bool:
        """Read ``code[at:colon]``, the header of a definition, and open the definition. Return whether OpenSM would
        accept the header.
        """
        first, *flags = pairs(code, at, colon)
        head = Definition(None, 0)
        for pair in flags:
            head = read_flag(self.remarks, head, pair)
        name, key = first.name.text or None, first.value
        if key is None and name is not None and name[0] in "0123456789":
            name, key = None, first.name
        base = 0
        if key is not None:
            number = c_number(key.text)
            if not number.is_number or number.rest:
                shown = f"{shortened(key.text)} is not a P_Key" if key.text else "there is no P_Key after the '='"
                self.remarks.error(key.column, "bad-pkey", f"{shown} (0x..., decimal)")
                return False
            base = number.value & PARTITION_MASK
            self.check_key(key, number.value, number.is_octal, number.is_negative)
        pkey_given = bool(base)
        if not base:
            named_base = self.names.get(name) if name else None
            base = named_base or self.next_automatic()
            if not base:
                self.remarks.error(
                    first.name.column, "no-free-pkey", "no P_Key is left that OpenSM could pick by itself"
                )
                return False
            if key is not None:
                self.remarks.warn(
                    key.column, "zero-pkey", f"P_Key {key.text} is not a partition; OpenSM picks 0x{base:04x}"
                )
        self.check_name(first.name, name, base, pkey_given)
        if base not in self.bases:
            stored = self.bases[base] = partition_name(base, name)
            self.names[stored] = min(base, self.names.get(stored, base), key=table_order)
        if head.makes_broadcast:
            self.mgids.add(broadcast_mgid(base))
        line, column = self.remarks.line, at + 1
        self.open = replace(head, name=name, base=base, pkey_given=pkey_given, line=line, column=column)
        return True

    def next_automatic(self) -> int:
        """Return the number that OpenSM picks for a partition: it counts from 1 and skips numbers in use. 0 if none is
        left."""
        while self.last_automatic < _LAST_AUTOMATIC:
            self.last_automatic += 1
            if self.last_automatic not in self.bases:
                self.picked.add(self.last_automatic)
                return self.last_automatic
        return 0

    def check_key(self, key: LineWord, value: int, is_octal: bool, is_negative: bool) -> None:
        if is_octal:
            self.remarks.warn(key.column, "octal", f"P_Key {key.text} begins with 0 and is octal: 0x{value & 0xFFFF:x}")
        base = value & PARTITION_MASK
        if not base:
            return
        if is_negative or value > 0xFFFF:
            self.remarks.warn(
                key.column, "wide-pkey", f"P_Key {key.text} does not fit 16 bits; OpenSM takes 0x{base:04x}"
            )
        elif value & FULL_BIT:
            self.remarks.note(
                key.column,
                "full-bit",
                f"bit 15 of P_Key {key.text} is dropped: it does not make the ports full members; the partition is "
                f"0x{base:04x}",
            )

    def check_name(self, word: LineWord, name: str | None, base: int, pkey_given: bool) -> None:
        if name is not None and stored_name(name) != name:
            self.remarks.warn(
                word.column,
                "long-name",
                f"OpenSM keeps {MAX_NAME} bytes of this name, and cannot find it by the full name again",
            )
        old_name = self.bases.get(base)
        if old_name is not None and pkey_given and base in self.picked:
            self.remarks.warn(
                word.column,
                "collision",
                f"OpenSM has picked 0x{base:04x} for partition {old_name!r} above; both definitions make one partition",
            )
        elif old_name is not None and name is not None and stored_name(name) != old_name and base != DEFAULT_PARTITION:
            self.remarks.warn(
                word.column,
                "two-names",
                f"partition 0x{base:04x} is named {old_name!r} already; both definitions make one partition",
            )

    # --- the port list -----------------------------------------------------------------------------------------------

    def read_rule(self, pair: NameValue) -> None:
        word = pair.name
        if abbreviates(word.text, "NONE"):
            if word.text:
                self.remarks.check_spelling(word, "NONE")
            elif pair.value is not None:
                self.remarks.warn(word.column, "no-port", "there is no port before this '='; OpenSM ignores the item")
            return
        keyword = next((keyword for keyword in _KEYWORDS if abbreviates(word.text, keyword)), None)
        if keyword is not None:
            self.remarks.check_spelling(word, keyword)
            self.rules.append(MemberRule(keyword, 0, self.read_membership(pair.value), self.remarks.line, word.column))
            return
        number = c_number(word.text)
        if not number.value or number.rest:
            self.report_bad_guid(pair)
            return
        if number.is_octal:
            self.remarks.warn(
                word.column, "octal", f"GUID {word.text} begins with 0 and is octal: 0x{number.value:016x}"
            )
        if number.is_negative or (len(word.text) > 18 and number.value == (1 << 64) - 1):
            self.remarks.warn(word.column, "wide-guid", f"GUID {word.text} does not fit 64 bits")
        self.rules.append(
            MemberRule("GUID", number.value, self.read_membership(pair.value), self.remarks.line, word.column)
        )

    def read_membership(self, word: LineWord | None) -> MemberWord:
        if word is None:
            assert self.open is not None
            return self.open.default_membership
        membership = membership_of(word.text)
        if membership is None:
            advice = (
                "; is a comma missing?" if any(blank in word.text for blank in BLANKS) else similar_word_hint(word.text)
            )
            self.remarks.warn(
                word.column, "unknown-membership", f"membership {shortened(word.text)} is read as limited{advice}"
            )
            return "limited"
        if not word.text:
            self.remarks.warn(word.column, "no-membership", "nothing after the '=': OpenSM takes full")
        else:
            self.remarks.check_spelling(word, membership)
        return membership

    def report_bad_guid(self, pair: NameValue) -> None:
        text = pair.name.text
        value = pair.value.text if pair.value is not None else ""
        if ":" in value or (":" in text and not text[:1].isdigit()):
            advice = "; is a ';' missing before this definition?"
        elif ":" in text:
            advice = "; GUIDs are written as 0x0002c903000a1011"
        elif any(blank in text for blank in BLANKS):
            advice = "; is a comma missing?"
        elif text.upper() in (*_KEYWORDS, "NONE"):
            advice = f"; OpenSM knows it as {text.upper()}"
        elif text.startswith("ALL_"):
            advice = "; this version of OpenSM knows ALL_CAS, ALL_SWITCHES and ALL_ROUTERS"
        else:
            advice = "" if c_number(text).is_number else "; a port is named by its port GUID or a keyword"
        self.remarks.error(
            pair.name.column, "bad-guid", f"{shortened(text)} is neither a port GUID nor a keyword{advice}"
        )
