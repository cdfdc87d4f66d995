"""Reader of OpenSM's partitions.conf, with all that OpenSM 3.3 accepts and line and column for all that it does not.

    file       = { definition }
    definition = header ":" portlist ";"            the ":" stands on the line on which the header starts
    header     = [ name ] [ "=" pkey ] { "," flag [ "=" value ] }
    portlist   = { item ( "," | newline ) }
    item       = member [ "=" membership ] | "mgid=" GID { "," flag "=" value }, which takes the rest of its line

Words are matched as far as they are written, case counts, ``#`` begins a comment anywhere. What OpenSM reads from bytes
left over in its buffer cannot be told, so it is an error here. After an error reading goes on, to find the next one; no
part of such a file is ever used. Source: opensm osm_prtn_config.c, osm_prtn.c, and files given to opensm 3.3.23.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from ibkeys.errors import FileFormatError
from ibkeys.keys.pkey import FULL_BIT, PARTITION_MASK
from ibkeys.policy.model import (
    DEFAULT_NAME,
    DEFAULT_PARTITION,
    IPOIB_Q_KEY,
    Definition,
    Group,
    GroupFlags,
    Keyword,
    MemberWord,
    Policy,
    Problem,
    Rule,
    Severity,
    broadcast_mgid,
    is_ip_group,
    partition_name,
    table_order,
)
from ibkeys.policy.words import BLANKS, MTU_BYTES, RATE_GBPS, abbreviates, c_number

MAX_LINE: Final = 4094
"""Bytes in a line without its newline. OpenSM cuts a longer one in two, wherever that is."""
_MAX_NAME: Final = 31
_LAST_AUTOMATIC: Final = 0x7FFE

_KEYWORDS: Final[tuple[Keyword, ...]] = ("ALL", "ALL_CAS", "ALL_SWITCHES", "ALL_ROUTERS", "SELF")
_MEMBERSHIPS: Final[tuple[MemberWord, ...]] = ("full", "both", "limited")
_GROUP_FLAGS: Final = ("mtu", "rate", "scope", "Q_Key", "TClass", "sl", "FlowLabel")
_FLAGS: Final = (*_GROUP_FLAGS, "ipoib", "defmember")


def read_policy(path: str | Path) -> Policy:
    """Read a policy file; the result says what is wrong with it. Raises FileFormatError when there is no reading it."""
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise FileFormatError(f"the policy cannot be read: {reason}", str(path)) from None
    return parse_policy(data, str(path))


def parse_policy(text: str | bytes, path: str = "<text>") -> Policy:
    """Read a policy from memory; *path* stands for the file in messages."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    reader = _Reader()
    reader.read(data)
    return Policy(
        path,
        tuple(reader.definitions),
        tuple(sorted(problem for problem in reader.problems if problem.severity == "error")),
        tuple(sorted(problem for problem in reader.problems if problem.severity != "error")),
        hashlib.sha256(data).hexdigest(),
    )


@dataclass(frozen=True, slots=True)
class _Word:
    """A piece of a line without the blanks around it, and its column, counted from 1."""

    text: str
    column: int


@dataclass(frozen=True, slots=True)
class _Pair:
    """``name`` or ``name=value``."""

    name: _Word
    value: _Word | None


@dataclass(slots=True)
class _Open:
    """The definition that is being read."""

    definition: Definition
    groups: list[Group] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)


@dataclass(slots=True)
class _Header:
    """What the flags of a header add up to."""

    flags: GroupFlags = field(default_factory=GroupFlags)
    ipoib: bool = False
    indx0: bool = False
    membership: MemberWord = "limited"


class _Reader:
    def __init__(self) -> None:
        self.definitions: list[Definition] = []
        self.problems: list[Problem] = []
        self.open: _Open | None = None
        self.skipping = False  # after a mistake in a header: to the next semicolon
        self.line = 0
        self.bases = {DEFAULT_PARTITION: DEFAULT_NAME}
        self.last_automatic = 0
        self.picked: set[int] = set()
        self.mgids: set[int] = set()
        self.last_item = (1, 1)
        self.has_cr = False

    # --- lines -------------------------------------------------------------------------------------------------------

    def read(self, data: bytes) -> None:
        lines = data.split(b"\n")
        for self.line, raw in enumerate(lines, 1):
            self.read_line(raw)
        if self.open is not None:
            self.line, column = self.last_item
            self.warn(column, "not-closed", "the last definition has no ';' after this line")
            self.close()
        if not self.definitions and all(problem.severity != "error" for problem in self.problems):
            self.line = 1
            self.error(1, "empty", "there is no definition in this file")

    def read_line(self, raw: bytes) -> None:
        if len(raw) > MAX_LINE:
            column = len(raw[:MAX_LINE].decode("utf-8", "surrogateescape")) + 1
            self.error(
                column,
                "long-line",
                f"the line has {len(raw)} bytes: OpenSM cuts it after {MAX_LINE}, here, and takes the rest for a new "
                "line; wrap it (policy-check --format conf does)",
            )
        if b"\0" in raw:
            column = len(raw[: raw.index(b"\0")].decode("utf-8", "surrogateescape")) + 1
            self.error(column, "nul-byte", "a NUL byte: this is no text, or not one of 8-bit characters")
            return
        text = raw.decode("utf-8", "surrogateescape")
        code, sharp, comment = text.partition("#")
        if code.endswith("\r") and not sharp and not self.has_cr:
            self.has_cr = True
            self.warn(
                len(code), "cr", "the line ends in CR LF; OpenSM takes the CR for a letter of the last word (dos2unix)"
            )
        at = 0
        while True:
            at = _skip_blanks(code, at)
            if at >= len(code):
                return
            end = code.find(";", at)
            stop = end if end >= 0 else len(code)
            if end == at:
                self.lone_semicolon(at)
            else:
                self.last_item = (self.line, at + 1)
                self.read_piece(code, at, stop, closed=end >= 0, comment=comment if sharp and end < 0 else None)
            if end < 0:
                return
            self.close()
            at = end + 1

    def lone_semicolon(self, at: int) -> None:
        if not self.skipping:
            self.error(
                at + 1,
                "lone-semicolon",
                "a ';' with nothing before it on its line: OpenSM then reads on behind the end of the line and fails; "
                "put it after the last port",
            )

    def read_piece(self, code: str, at: int, stop: int, *, closed: bool, comment: str | None) -> None:
        """Read one line's part of one definition, ``code[at:stop]``, and the comment right behind it, if any."""
        if self.skipping:
            return
        if self.open is None:
            colon = code.find(":", at, stop)
            if colon < 0:
                self.error(
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
        pairs = list(_pairs(code, at, stop))
        for index, pair in enumerate(pairs):
            if pair.name.text == "mgid":
                self.read_group(pair, pairs[index + 1 :], closed, comment)
                return
            self.read_rule(pair)

    def close(self) -> None:
        """End the definition that is open, if any."""
        self.skipping = False
        if self.open is not None:
            opened, self.open = self.open, None
            self.definitions.append(replace(opened.definition, groups=tuple(opened.groups), rules=tuple(opened.rules)))

    # --- the head of a definition ------------------------------------------------------------------------------------

    def read_header(self, code: str, at: int, colon: int) -> bool:
        """Read ``code[at:colon]`` and open the definition. Return whether OpenSM would."""
        first, *flags = _pairs(code, at, colon)
        header = _Header()
        for pair in flags:
            self.read_flag(header, pair)
        name, key = first.name.text or None, first.value
        if key is None and name is not None and name[0] in "0123456789":
            name, key = None, first.name
        base = 0
        if key is not None:
            number = c_number(key.text)
            if not number.found or number.rest:
                shown = f"{key.text!r} is no P_Key" if key.text else "there is no P_Key after the '='"
                self.error(key.column, "bad-pkey", f"{shown} (0x..., decimal)")
                return False
            base = number.value & PARTITION_MASK
            self.check_key(key, number.value, number.octal, number.negative)
        pkey_given = bool(base)
        if not base:
            base = self.by_name(name) or self.next_automatic()
            if not base:
                self.error(first.name.column, "no-free-pkey", "no P_Key is left that OpenSM could pick by itself")
                return False
            if key is not None:
                self.warn(key.column, "zero-pkey", f"P_Key {key.text} is no partition; OpenSM picks 0x{base:04x}")
        self.check_name(first.name, name, base, pkey_given)
        self.bases.setdefault(base, partition_name(base, name))
        if header.ipoib:
            self.mgids.add(broadcast_mgid(base))
        self.open = _Open(
            Definition(
                name,
                base,
                pkey_given,
                header.membership,
                header.indx0,
                header.ipoib,
                header.flags,
                (),
                (),
                self.line,
                at + 1,
            )
        )
        return True

    def by_name(self, name: str | None) -> int | None:
        """Return the partition that already has this name. A name longer than 31 characters is never found again."""
        if not name or len(name) > _MAX_NAME:
            return None
        return min((base for base, known in self.bases.items() if known == name), key=table_order, default=None)

    def next_automatic(self) -> int:
        """Return the P_Key that OpenSM picks: it counts from 1 and skips those in use; 0 when there is none left."""
        while self.last_automatic < _LAST_AUTOMATIC:
            self.last_automatic += 1
            if self.last_automatic not in self.bases:
                self.picked.add(self.last_automatic)
                return self.last_automatic
        return 0

    def check_key(self, key: _Word, value: int, octal: bool, negative: bool) -> None:
        if octal:
            self.warn(key.column, "octal", f"P_Key {key.text} begins with 0 and is octal: 0x{value & 0xFFFF:x}")
        base = value & PARTITION_MASK
        if not base:
            return
        if negative or value > 0xFFFF:
            self.warn(key.column, "wide-pkey", f"P_Key {key.text} does not fit 16 bits; OpenSM takes 0x{base:04x}")
        elif value & FULL_BIT:
            self.note(
                key.column,
                "full-bit",
                f"bit 15 of P_Key {key.text} is dropped: it does not make the ports full members; the partition is "
                f"0x{base:04x}",
            )

    def check_name(self, word: _Word, name: str | None, base: int, pkey_given: bool) -> None:
        if name is not None and len(name) > _MAX_NAME:
            self.warn(
                word.column,
                "long-name",
                f"the name has {len(name)} characters; OpenSM keeps {_MAX_NAME} and does not find it again by name",
            )
        known = self.bases.get(base)
        if known is not None and pkey_given and base in self.picked:
            self.warn(
                word.column,
                "collision",
                f"OpenSM has picked 0x{base:04x} for partition {known!r} above; both definitions make one partition",
            )
        elif known is not None and name is not None and name[:_MAX_NAME] != known and base != DEFAULT_PARTITION:
            self.warn(
                word.column,
                "two-names",
                f"partition 0x{base:04x} is named {known!r} already; both definitions make one partition",
            )

    def read_flag(self, header: _Header, pair: _Pair) -> None:
        flags = self.read_group_flag(header.flags, pair)
        word = pair.name.text
        if flags is not None:
            header.flags = flags
        elif abbreviates(word, "ipoib"):
            self.check_spelling(pair.name, "ipoib")
            header.ipoib = True
        elif abbreviates(word, "defmember"):
            self.check_spelling(pair.name, "defmember")
            value = pair.value
            membership = _membership(value.text) if value is not None else None
            if membership is None:
                at = value if value is not None else pair.name
                self.warn(at.column, "bad-value", "defmember is full, limited or both; OpenSM ignores this one")
            else:
                assert value is not None
                self.check_spelling(value, membership)
                header.membership = membership
        elif word == "indx0":
            header.indx0 = True
        else:
            self.warn(pair.name.column, "unknown-flag", f"flag {word!r} is not known and ignored{_hint(word)}")

    def read_group_flag(self, flags: GroupFlags, pair: _Pair) -> GroupFlags | None:
        """Return *flags* with this one in it, None when it is no flag of a group."""
        name = next((flag for flag in _GROUP_FLAGS if abbreviates(pair.name.text, flag)), None)
        if name is None:
            return None
        if not pair.name.text and pair.value is None:
            return flags
        self.check_spelling(pair.name, name)
        if pair.value is None:
            self.warn(pair.name.column, "bad-value", f"{name} has no value and is ignored")
            return flags
        number = c_number(pair.value.text)
        column = pair.value.column
        clean = number.found and (not number.rest or number.rest[0] in " \t\n\v\f\r")
        value = number.value & 0xFFFFFFFF
        if number.octal:
            self.warn(column, "octal", f"{name}={pair.value.text} begins with 0 and is octal: {value}")
        if name in ("sl", "FlowLabel"):
            highest = 15 if name == "sl" else 0xFFFFF
            # An empty value is refused; a word that is no number counts as 0 only where nothing is left over.
            if not clean or value > highest:
                self.warn(column, "bad-value", f"{name} is a number from 0 to {highest}; OpenSM ignores this one")
                return flags
            return replace(flags, sl=value) if name == "sl" else replace(flags, flow_label=value)
        if name == "scope":
            if not 1 <= value <= 15:
                self.warn(column, "bad-value", "scope is a number from 1 to 15; OpenSM ignores this one")
                return flags
            return replace(flags, scopes=flags.scopes | {value})
        if not clean or not value:
            taken = value or ("0" if name in ("Q_Key", "TClass") else "the default")
            self.warn(column, "bad-value", f"{name}={pair.value.text} is no value for it; OpenSM takes {taken}")
        match name:
            case "mtu":
                if value and value not in MTU_BYTES:
                    self.warn(column, "bad-value", f"mtu is a code from 1 (256 bytes) to 5 (4096 bytes), not {value}")
                return replace(flags, mtu=value)
            case "rate":
                if value and value not in RATE_GBPS:
                    self.warn(column, "bad-value", f"rate is a code (3 is 10 Gb/s, 7 is 40 Gb/s), and {value} is none")
                return replace(flags, rate=value)
            case "Q_Key":
                return replace(flags, q_key=value)
            case _:
                if value > 0xFF:
                    self.warn(column, "bad-value", f"TClass has 8 bits; OpenSM takes 0x{value & 0xFF:02x}")
                return replace(flags, t_class=value & 0xFF)

    # --- the port list -----------------------------------------------------------------------------------------------

    def read_rule(self, pair: _Pair) -> None:
        assert self.open is not None
        word = pair.name
        if abbreviates(word.text, "NONE"):
            if word.text:
                self.check_spelling(word, "NONE")
            elif pair.value is not None:
                self.warn(word.column, "no-port", "there is no port before this '='; OpenSM ignores the item")
            return
        keyword = next((keyword for keyword in _KEYWORDS if abbreviates(word.text, keyword)), None)
        if keyword is not None:
            self.check_spelling(word, keyword)
            self.open.rules.append(Rule(keyword, 0, self.read_membership(pair.value), self.line, word.column))
            return
        number = c_number(word.text)
        if not number.value or number.rest:
            self.bad_guid(pair)
            return
        if number.octal:
            self.warn(word.column, "octal", f"GUID {word.text} begins with 0 and is octal: 0x{number.value:016x}")
        if number.negative or (len(word.text) > 18 and number.value == (1 << 64) - 1):
            self.warn(word.column, "wide-guid", f"GUID {word.text} does not fit 64 bits")
        self.open.rules.append(Rule("GUID", number.value, self.read_membership(pair.value), self.line, word.column))

    def read_membership(self, word: _Word | None) -> MemberWord:
        if word is None:
            assert self.open is not None
            return self.open.definition.default_membership
        membership = _membership(word.text)
        if membership is None:
            hint = "; is a comma missing?" if any(blank in word.text for blank in BLANKS) else _hint(word.text)
            self.warn(word.column, "unknown-membership", f"membership {word.text!r} is read as limited{hint}")
            return "limited"
        if not word.text:
            self.warn(word.column, "no-membership", "nothing after the '=': OpenSM takes full")
        else:
            self.check_spelling(word, membership)
        return membership

    def bad_guid(self, pair: _Pair) -> None:
        text = pair.name.text
        value = pair.value.text if pair.value is not None else ""
        if ":" in value or (":" in text and not text[:1].isdigit()):
            hint = "; is a ';' missing before this definition?"
        elif ":" in text:
            hint = "; GUIDs are written as 0x0002c903000a1011"
        elif any(blank in text for blank in BLANKS):
            hint = "; is a comma missing?"
        elif text.upper() in (*_KEYWORDS, "NONE"):
            hint = f"; OpenSM knows it as {text.upper()}"
        elif text.startswith("ALL_"):
            hint = "; this version of OpenSM knows ALL_CAS, ALL_SWITCHES and ALL_ROUTERS"
        else:
            hint = "" if c_number(text).found else "; a port is named by its port GUID or a keyword"
        self.error(pair.name.column, "bad-guid", f"{text!r} is no port GUID and no keyword{hint}")

    def read_group(self, pair: _Pair, flags: list[_Pair], closed: bool, comment: str | None) -> None:
        """Read an ``mgid=`` line, which ends its line's part of the definition."""
        assert self.open is not None
        definition, value = self.open.definition, pair.value
        if value is None:
            self.error(pair.name.column, "bad-mgid", "mgid without '=' and a GID: OpenSM does not survive this line")
            return
        # A group inherits the header's flags but for TClass.
        own = replace(definition.flags, t_class=0)
        read = flags
        if not flags and comment is not None:
            read = list(_pairs(comment, 0, len(comment)))
            if any(flag.name.text and flag.value for flag in read):
                self.warn(
                    value.column + len(value.text),
                    "comment-flags",
                    "OpenSM reads the comment behind a GID as more flags; put it on a line of its own",
                )
        for flag in read:
            changed = self.read_group_flag(own, flag) if read is flags else self.silently(own, flag)
            if changed is not None:
                own = changed
            elif read is flags:
                self.warn(
                    flag.name.column,
                    "mgid-line",
                    f"{flag.name.text!r} is no flag of a group and ignored: no port may follow on an mgid= line",
                )
        group = self.group(definition, value, own)
        if closed and bool(flags) != (group.mgid >> 120 == 0xFF):
            # OpenSM finds the end of the line by counting: flags that are not there, or that it has not read.
            self.error(
                value.column + len(value.text),
                "mgid-semicolon",
                "a ';' on the line of this GID: OpenSM loses its place in the line; put it after a port",
            )
        if group.refused is not None:
            self.warn(value.column, "group-refused", f"OpenSM leaves this group out: {group.refused}")
        self.open.groups.append(group)

    def silently(self, flags: GroupFlags, pair: _Pair) -> GroupFlags | None:
        problems = len(self.problems)
        changed = self.read_group_flag(flags, pair)
        del self.problems[problems:]
        return changed

    def group(self, definition: Definition, value: _Word, flags: GroupFlags) -> Group:
        try:
            mgid = int(ipaddress.IPv6Address(value.text))
        except ValueError:
            return Group(0, flags, f"{value.text!r} is no GID", self.line, value.column)
        refused = None
        if mgid >> 120 != 0xFF:
            refused = "it is not multicast (a multicast GID begins with ff)"
        elif is_ip_group(mgid):
            key, own, header = mgid >> 80 & 0xFFFF, definition.base | FULL_BIT, definition.flags
            if key not in (0, own) and mgid != broadcast_mgid(DEFAULT_PARTITION):
                refused = f"its P_Key bits 0x{key:04x} are neither those of the partition (0x{own:04x}) nor 0"
            elif flags.rate != header.rate:
                refused = f"its rate {flags.rate} is not that of the partition's broadcast group ({header.rate})"
            elif flags.mtu != header.mtu:
                refused = f"its mtu {flags.mtu} is not that of the partition's broadcast group ({header.mtu})"
            mgid = mgid & ~(0xFFFF << 80) | own << 80
            flags = replace(flags, q_key=flags.q_key or IPOIB_Q_KEY)
        if refused is None and mgid in self.mgids:
            refused = "it is there already"
        group = Group(mgid, flags, refused, self.line, value.column)
        if refused is None:
            self.mgids.update(group.mgids())
        return group

    # --- problems ----------------------------------------------------------------------------------------------------

    def check_spelling(self, word: _Word, meant: str) -> None:
        if word.text != meant:
            shown = repr(word.text) if word.text else "an empty word"
            self.warn(word.column, "abbreviated", f"{shown} is read as {meant}; write it out")

    def error(self, column: int, code: str, message: str) -> None:
        self.report(column, "error", code, message)

    def warn(self, column: int, code: str, message: str) -> None:
        self.report(column, "warning", code, message)

    def note(self, column: int, code: str, message: str) -> None:
        self.report(column, "note", code, message)

    def report(self, column: int, severity: Severity, code: str, message: str) -> None:
        self.problems.append(Problem(self.line, column, severity, code, message))


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in BLANKS:
        at += 1
    return at


def _word(text: str, start: int, stop: int) -> _Word:
    piece = text[start:stop]
    stripped = piece.lstrip(BLANKS)
    return _Word(stripped.rstrip(BLANKS), start + len(piece) - len(stripped) + 1)


def _pairs(text: str, start: int, stop: int) -> Iterator[_Pair]:
    """Yield what stands between the commas of ``text[start:stop]``."""
    while True:
        comma = text.find(",", start, stop)
        end = comma if comma >= 0 else stop
        equals = text.find("=", start, end)
        if equals >= 0:
            yield _Pair(_word(text, start, equals), _word(text, equals + 1, end))
        else:
            yield _Pair(_word(text, start, end), None)
        if comma < 0:
            return
        start = comma + 1


def _membership(text: str) -> MemberWord | None:
    return next((word for word in _MEMBERSHIPS if abbreviates(text, word)), None)


def _hint(text: str) -> str:
    """Return a hint for a word that is known in another case, or as the beginning of one."""
    for known in (*_FLAGS, "indx0", *_MEMBERSHIPS):
        if text.lower() == known.lower() or (len(text) > 3 and known.lower().startswith(text.lower())):
            return f"; OpenSM knows it as {known}"
    return ""
