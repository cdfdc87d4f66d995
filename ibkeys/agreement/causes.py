"""The causes of differences between the four sources of a value: a table with a row for every pattern of agreement.

The sources are the policy, the SM's own policy file, the SA, and the node. A working OpenSM writes the values of its
file to the node and stores the node's reply, which the SA shows. So file, SA and node can differ only in a few
combinations, each with its own cause. Source: opensm osm_pkey_mgr.c sends a Set, osm_pkey_rcv.c stores the answer in
the memory that osm_sa_pkey_record.c shows; the table is not read again while nothing about the port changes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

ValueSource = Literal["policy", "sm_file", "sa", "node"]
COLUMNS: Final[tuple[ValueSource, ...]] = ("policy", "sm_file", "sa", "node")
AgreementState = Literal["agree", "differs", "unknown"]
ReadByTheSm = Literal["read", "not-read", "unknown"]
"""Whether the SM has read its current file, and swept since; as far as times show."""
Cause = Literal[
    "other-policy",
    "not-read",
    "sweep-due",
    "refused",
    "no-room",
    "not-applied",
    "changed",
    "hidden",
    "sm-file-unknown",
    "node-silent",
    "nothing-to-compare",
]
IN_WORDS: Final[Mapping[Cause, str]] = {
    "other-policy": "the SM has a different policy",
    "not-read": "not applied yet: the SM has not read its file, which is newer than its last sweep without errors",
    "sweep-due": "the SM has not swept yet: the port is not Active",
    "refused": "refused by the node: the SM has read its file and swept since",
    "no-room": "no room in the P_Key table",
    "not-applied": "not applied yet, or refused by the node: it is not known whether the SM has read its file",
    "changed": "changed after the SM's sweep",
    "hidden": "refused by the node, or changed after the SM's sweep: which of the two is not known, because the SA "
    "hides it",
    "sm-file-unknown": "not applied, refused, or a different policy: the content of the SM's own file is not known",
    "node-silent": "the node was not read",
    "nothing-to-compare": "there is nothing to compare it with",
}


class FourViews(NamedTuple):
    """One value in each source; None: not known."""

    policy: Hashable | None
    sm_file: Hashable | None
    sa: Hashable | None
    node: Hashable | None

    @property
    def pattern(self) -> str:
        """The pattern of agreement: ``aaab`` when only the node differs, ``?`` for an unknown value."""
        letters: dict[Hashable, str] = {}
        return "".join("?" if word is None else letters.setdefault(word, "abcd"[len(letters)]) for word in self)

    @property
    def differing_sources(self) -> tuple[ValueSource, ...]:
        """The sources that differ from the SM's file. If the file's value is unknown, they are compared with the
        policy; if the policy's value is unknown too, with the SA.
        """
        order = (self.sm_file, self.policy, self.sa, self.node)
        reference = next((word for word in order if word is not None), None)
        by_source = zip(COLUMNS, self, strict=True)
        return tuple(column for column, word in by_source if word is not None and word != reference)


@dataclass(frozen=True, slots=True)
class ValueFacts:
    """Further facts about a value: about the SM's file, the port, and its table."""

    file: ReadByTheSm
    is_active: bool = True
    has_room: bool = True


@dataclass(frozen=True, slots=True)
class ValueVerdict:
    """Whether the sources of one value agree, which of them differ, and the causes."""

    state: AgreementState
    differing_sources: tuple[ValueSource, ...]
    causes: tuple[Cause, ...]


Gap = Literal[
    "policy",
    "changed",
    "behind",
    "behind-sa-unknown",
    "behind-node-unknown",
    "behind-file-unknown",
    "node-unknown",
    "alone",
]
"""The kinds of difference between sources.

``policy``: the SM's file differs from the policy. ``changed``: the node differs from the SA. ``behind``: SA and node
differ from the SM's file, or from the policy where that is not known; the suffix names the unknown one of the three.
``node-unknown``: no difference, and the node's value is unknown. ``alone``: only the node has a value.
"""
GapRow = tuple[Gap, ...]

_AGREE: Final[GapRow] = ()
_SILENT: Final[GapRow] = ("node-unknown",)
_ALONE: Final[GapRow] = ("alone",)

TABLE: Final[Mapping[str, GapRow]] = {
    # all four are known: policy, SM's file, SA, node
    "aaaa": _AGREE,
    "aaab": ("changed",),
    "aaba": ("changed",),
    "aabb": ("behind",),
    "aabc": ("changed", "behind"),
    "abaa": ("policy", "behind"),
    "abab": ("policy", "changed"),
    "abba": ("policy", "changed"),
    "abbb": ("policy",),
    "abac": ("policy", "changed", "behind"),
    "abca": ("policy", "changed", "behind"),
    "abbc": ("policy", "changed"),
    "abcb": ("policy", "changed"),
    "abcc": ("policy", "behind"),
    "abcd": ("policy", "changed", "behind"),
    # no policy was given
    "?aaa": _AGREE,
    "?aab": ("changed",),
    "?aba": ("changed",),
    "?abb": ("behind",),
    "?abc": ("changed", "behind"),
    # the SM's file is not known
    "a?aa": _AGREE,
    "a?ab": ("changed",),
    "a?ba": ("changed",),
    "a?bb": ("behind-file-unknown",),
    "a?bc": ("changed", "behind-file-unknown"),
    # the SA has no value
    "aa?a": _AGREE,
    "aa?b": ("behind-sa-unknown",),
    "ab?a": ("policy", "behind-sa-unknown"),
    "ab?b": ("policy",),
    "ab?c": ("policy", "behind-sa-unknown"),
    # the node does not answer
    "aaa?": _SILENT,
    "aab?": ("behind-node-unknown",),
    "aba?": ("policy", "behind-node-unknown"),
    "abb?": ("policy",),
    "abc?": ("policy", "behind-node-unknown"),
    # two are known
    "??aa": _AGREE,
    "??ab": ("changed",),
    "?a?a": _AGREE,
    "?a?b": ("behind-sa-unknown",),
    "?aa?": _SILENT,
    "?ab?": ("behind-node-unknown",),
    "a??a": _AGREE,
    "a??b": ("behind-file-unknown",),
    "a?a?": _SILENT,
    "a?b?": ("behind-file-unknown",),
    "aa??": _SILENT,
    "ab??": ("policy",),
    # one is known, or none
    "???a": _ALONE,
    "??a?": _SILENT,
    "?a??": _SILENT,
    "a???": _SILENT,
    "????": _SILENT,
}
"""Every pattern of four sources, with the kinds of difference."""

_ALWAYS: Final[Mapping[Gap, Cause]] = {
    "policy": "other-policy",
    "behind-file-unknown": "sm-file-unknown",
    "node-unknown": "node-silent",
    "alone": "nothing-to-compare",
}
_BY_FILE: Final[Mapping[Gap, Mapping[ReadByTheSm, Cause]]] = {
    "behind": {"not-read": "not-read", "read": "refused", "unknown": "not-applied"},
    "behind-sa-unknown": {"not-read": "not-read", "read": "hidden", "unknown": "hidden"},
    "behind-node-unknown": {"not-read": "not-read", "read": "node-silent", "unknown": "not-applied"},
}


def judge(words: FourViews, facts: ValueFacts) -> ValueVerdict:
    """Return whether *words* agree, which of them differ, and the causes. Pure; every pattern is a row of `TABLE`."""
    causes = tuple(dict.fromkeys(_cause(gap, facts) for gap in TABLE[words.pattern]))
    if not causes:
        return ValueVerdict("agree", (), ())
    differing_sources = words.differing_sources
    return ValueVerdict("differs" if differing_sources else "unknown", differing_sources, causes)


def _cause(gap: Gap, facts: ValueFacts) -> Cause:
    if gap in _ALWAYS:
        return _ALWAYS[gap]
    if gap == "changed":
        return "changed" if facts.is_active else "sweep-due"
    if facts.file != "not-read" and not facts.is_active:
        return "sweep-due"
    if facts.file != "not-read" and not facts.has_room:
        return "no-room"
    return _BY_FILE[gap][facts.file]
