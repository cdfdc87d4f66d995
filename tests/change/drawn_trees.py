"""Subnets that are drawn: how an SM's port leads to switches and hosts."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.change.restarting import Tree


@st.composite
def trees(draw: st.DrawFn, most: int = 6) -> Tree:
    """The SM's port on a switch; perhaps another switch behind that; hosts on either."""
    switches = [1, 2][: draw(st.integers(1, min(2, most - 1)))]
    hosts = draw(st.lists(st.sampled_from(switches), max_size=most - 1 - len(switches)))
    return (None, *(number - 1 for number in switches), *hosts)
