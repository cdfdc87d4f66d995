"""Policies and fabrics that hypothesis makes."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.corpus import DATA

PARTITIONS = [0x7FFF, 1, 2, 3, 0x0100]


NETS = [DATA / "fabrics" / f"{name}.net" for name in ("two-switch", "dual-home", "ring-router")]


@st.composite
def policies(draw: st.DrawFn, guids: list[int]) -> str:
    who = st.one_of(
        st.sampled_from(["ALL", "ALL_CAS", "ALL_SWITCHES", "ALL_ROUTERS", "SELF"]), st.sampled_from(guids).map(hex)
    )
    lines = []
    for number in range(draw(st.integers(1, 4))):
        flags = draw(st.sampled_from(["", ", indx0", ", defmember=full", ", defmember=both"]))
        items = draw(st.lists(st.tuples(who, st.sampled_from(["", "=full", "=limited", "=both"])), max_size=4))
        base = draw(st.sampled_from(PARTITIONS))
        lines.append(f"P{number}=0x{base:x}{flags} : {', '.join(each + how for each, how in items)} ;")
    return "\n".join(lines)


KEYS = st.sampled_from([base | bit for base in PARTITIONS for bit in (0, 0x8000)])


TABLES = st.lists(st.one_of(st.just(0), KEYS), max_size=8)
