"""Waivers: findings that the operator has accepted, with a reason and an end.

A TOML file::

    [[waiver]]
    rule = "PK001"                       # or a list of rules
    ports = ["0x0002c903000a1021", "gateway*", "leaf 1/3"]
    reason = "gateways are full members by design, ticket 4711"
    expires = 2027-01-31

    [[waiver]]
    rule = "PK005"
    pairs = [["storage*", "tenant-a*"]]
    reason = "shared storage"
    expires = 2027-01-31

A port is named by a node GUID, a port GUID, the name of its node, or that of its host, which means all adapters of the
host. ``*`` and ``?`` are wildcards. ``/N`` at the end means port N alone. A file is named by its path, and a partition
by its number (``0x0010``). A waiver that has expired, or has a mistake, waives nothing and is reported.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from ibkeys import files
from ibkeys.arguments import file_path
from ibkeys.audit.catalogue import find_rule
from ibkeys.audit.rule import RuleFinding
from ibkeys.errors import FileFormatError
from ibkeys.keys.guid import is_spelled_as_guid, parse_guid
from ibkeys.similar_names import split_description
from ibkeys.store.private_files import os_error
from ibkeys.topology.nodes import Port

_KEYS: Final = frozenset({"rule", "ports", "pairs", "reason", "expires"})
# The time that tomllib takes grows with the square of the number of parts in a dotted name. No name in a waiver has
# more than one part.
_DEEP_NAME: Final = re.compile(
    r"""(?:^|[\[{,])[ \t]*+(?:(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){8}""", re.MULTILINE
)
_PLACE: Final = re.compile(r"(?P<name>.*?)(?:/(?P<port>\d{1,3}))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern for ports in a waiver: ``text`` as written, its name or GUID, and a port number or None for all."""

    text: str
    guid: int | None
    name: str
    port: int | None

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Return the pattern that *text* writes."""
        match = _PLACE.fullmatch(text)
        assert match is not None  # the pattern takes any text
        name = match["name"]
        is_guid = re.fullmatch(r"0[xX][0-9a-fA-F]{5,16}", name) or (":" in name and is_spelled_as_guid(name))
        return cls(text, parse_guid(name) if is_guid else None, name, int(match["port"]) if match["port"] else None)

    def matches(self, port: Port) -> bool:
        """Return whether this names *port*."""
        if self.port is not None and self.port != port.num:
            return False
        if self.guid is not None:
            return self.guid in (port.node.guid, port.guid)
        name = port.node.description
        return name is not None and any(fnmatchcase(each, self.name) for each in (name, split_description(name)[0]))


@dataclass(slots=True)
class Waiver:
    """One waiver that is valid today. ``used``: whether it waived anything."""

    rules: frozenset[str]
    ports: Sequence[Pattern]
    pairs: Sequence[tuple[Pattern, Pattern]]
    reason: str
    expires: date
    used: bool = False
    _known: dict[tuple[Pattern, Port], bool] = field(default_factory=dict, repr=False)

    def covers(self, rule: str, finding: RuleFinding) -> bool:
        """Return whether this waiver covers a finding of *rule*: its ``ports`` name the finding's port or one of its
        labels, or its ``pairs`` name the port together with every partner.
        """
        if rule not in self.rules:
            return False
        if any(fnmatchcase(label, pattern.text) for pattern in self.ports for label in finding.labels):
            return True
        port = finding.port
        if port is None:
            return False
        if any(self._matches(pattern, port) for pattern in self.ports):
            return True
        far = [b for a, b in self.pairs if self._matches(a, port)]
        far += [a for a, b in self.pairs if self._matches(b, port)]
        partners = iter(finding.partners) if far else iter(())
        first = next(partners, None)
        return first is not None and all(
            any(self._matches(pattern, each) for pattern in far) for each in itertools.chain((first,), partners)
        )

    def _matches(self, pattern: Pattern, port: Port) -> bool:
        answer = self._known.get((pattern, port))
        if answer is None:
            answer = self._known[(pattern, port)] = pattern.matches(port)
        return answer

    def __str__(self) -> str:
        return f"{self.reason} (until {self.expires})"


@dataclass(slots=True)
class Waivers:
    """The waivers that are valid today, and the problems of the others."""

    waivers: list[Waiver] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def find(self, rule: str, finding: RuleFinding) -> Waiver | None:
        """Return the first waiver that covers *finding*, and mark it as used; None if there is none."""
        found = next((waiver for waiver in self.waivers if waiver.covers(rule, finding)), None)
        if found is not None:
            found.used = True
        return found

    def unused(self, rules: Iterable[str]) -> list[str]:
        """Return a sentence about each waiver for *rules* that waived nothing."""
        ran = frozenset(rules)
        return [
            f"the waiver {str(waiver)!r} for {', '.join(sorted(waiver.rules))} waived nothing"
            for waiver in self.waivers
            if not waiver.used and waiver.rules & ran
        ]


def read_waivers(path: str | Path, today: date) -> Waivers:
    """Read a waiver file; *today* (UTC) decides which have expired. On its last day a waiver is still valid.

    Raises FileFormatError for a file that is not TOML, and StoreError for one that cannot be read.
    """
    path = file_path("path", path)
    try:
        text = files.read_text(path, files.LIST)
        if _DEEP_NAME.search(text):
            raise RecursionError("a name with too many parts")
        document = tomllib.loads(text)
    except OSError as error:
        raise os_error(path, "waiver file", error) from error
    except (RecursionError, MemoryError):
        raise FileFormatError("is nested too deeply", str(path)) from None
    except ValueError as error:  # no TOML, no UTF-8; a number of thousands of digits
        raise FileFormatError(f"is not TOML: {error}", str(path)) from None
    found = Waivers()
    entries = document.get("waiver", [])
    unknown = sorted(set(document) - {"waiver"})
    if unknown or not isinstance(entries, list):
        found.warnings.append(f"{path}: waivers are [[waiver]] entries; {unknown[0] if unknown else 'waiver'!r} is not")
    for number, entry in enumerate(entries if isinstance(entries, list) else (), 1):
        try:
            waiver = _waiver(entry)
        except (ValueError, TypeError) as error:
            found.warnings.append(f"{path}: waiver {number} waives nothing: {error}")
            continue
        if waiver.expires < today:
            rules = ", ".join(sorted(waiver.rules))
            found.warnings.append(
                f"{path}: waiver {number} for {rules} ({waiver.reason}) expired on {waiver.expires} and no longer "
                "applies"
            )
        else:
            found.waivers.append(waiver)
    return found


def _waiver(entry: Any) -> Waiver:
    """Return the waiver of one entry. Raises ValueError or TypeError, whose message names the mistake."""
    if not isinstance(entry, dict):
        raise TypeError("it is not a table")
    unknown = sorted(set(entry) - _KEYS)
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not one of {', '.join(sorted(_KEYS))}")
    rules = entry.get("rule")
    names = [rules] if isinstance(rules, str) else rules
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError('its rule names no rule, such as "PK001"')
    reason = entry.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        raise ValueError("it has no reason")
    expires = entry.get("expires")
    if isinstance(expires, datetime) or not isinstance(expires, date):
        raise ValueError("its expires has to be a date such as 2027-01-31, without quotes")
    ports, pairs = entry.get("ports", []), entry.get("pairs", [])
    if not _are_texts(ports) or not isinstance(pairs, list) or not all(_are_texts(p) and len(p) == 2 for p in pairs):
        raise ValueError('its ports has to be a list of texts, and its pairs a list of pairs such as ["A", "B"]')
    if not ports and not pairs:
        raise ValueError('it names neither ports nor pairs (ports = ["*"] is every port)')
    rules = {name: find_rule(name) for name in names}
    if missing := [name for name, rule in rules.items() if rule is None]:
        raise ValueError(f"there is no rule {missing[0]!r}")
    return Waiver(
        frozenset(rule.id for rule in rules.values() if rule is not None),
        [Pattern.parse(text) for text in ports],
        [(Pattern.parse(a), Pattern.parse(b)) for a, b in pairs],
        " ".join(reason.split()),
        expires,
    )


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) and each for each in value)
