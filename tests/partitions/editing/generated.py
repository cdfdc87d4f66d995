"""Parts of made-up policies, and what a policy says of members, for the tests of edits."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from ibkeys.partitions.editing.changes import EditedPolicy, KnownPorts
from ibkeys.partitions.editing.partition_name import PartitionName
from ibkeys.partitions.membership import EndPort, resolve
from ibkeys.partitions.model import Policy

LABELS = {number: f"stage{number} mlx5_0" for number in range(1, 10)}
PORTS = KnownPorts(LABELS, {})
X = PartitionName("X", None)

GUIDS = list(range(1, 8))
SEPARATORS = st.sampled_from(
    [", ", ",", " ,\n", ",\n\t", ",  # a comment; with, signs\n  ", ", # CR\r\n", ",,\n", "\n"]
)
GAPS = st.sampled_from(["\n", " ", "\n\n", "  # between\n", "\n# a line: of = its ; own\n", "; #\n".lstrip(";")])


@st.composite
def policies(draw: st.DrawFn, heads: st.SearchStrategy[str], items: st.SearchStrategy[str]) -> str:
    """Policies of up to 5 definitions, with comments and blanks in many places; some lack the last semicolon."""
    text = draw(st.sampled_from(["", "# head\n", "\n", "\t"]))
    for _ in range(draw(st.integers(1, 5))):
        named = draw(st.lists(items, min_size=1, max_size=5))
        body = named[0] + "".join(draw(SEPARATORS) + each for each in named[1:])
        group = draw(st.sampled_from(["", "", "\n  mgid=ff12::77,sl=1 # group\n", "\n mgid=ff12:401b::78,sl=0\n"]))
        text += f"{draw(heads)} :{draw(st.sampled_from([' ', '', chr(10), '  # c' + chr(10)]))}{group}{body}"
        text += draw(st.sampled_from([" ;", ";", ", ;"])) + draw(GAPS)
    return text.rstrip("\n ;") if draw(st.booleans()) and draw(st.booleans()) else text


def text_of(edited: EditedPolicy) -> str:
    assert edited.after.data is not None
    return edited.after.data.decode()


def members(policy: Policy, both: bool, guids: Sequence[int] = GUIDS) -> dict[tuple[int, int], tuple[bool, bool]]:
    ports = [*(EndPort(each, "ca") for each in (*guids, 100, 101)), EndPort(200, "switch")]
    return {
        (each.base, port): (port in each.full, port in each.limited)
        for each in resolve(policy, ports, 101, both).memberships
        for port in each.full | each.limited
    }
