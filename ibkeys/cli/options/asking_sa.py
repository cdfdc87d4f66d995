"""The options for asking subnet administration (SA)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ibkeys.cli.options.declaring import field_of, group, option
from ibkeys.cli.types import NumberType

sm_port: Final = option(
    "-s", "--sm_port", type=NumberType(1, 0xBFFF), metavar="LID", help="LID of the SA.  [default: the master SM's]"
)
pkey_idx: Final = option(
    "-Y",
    "--pkey-idx",
    type=NumberType(0, 0xFFFF),
    metavar="N",
    help="Index in the local P_Key table to use for queries.  [default: that of 0x7fff]",
)
probe_sa: Final = option(
    "--probe-sa",
    is_flag=True,
    help="Ask the SA what it discloses to untrusted requesters; sends one query with SM_Key 1.",
)


@dataclass(frozen=True, slots=True)
class AskSa:
    """The options for asking subnet administration (SA), and other agents behind QP1."""

    sm_port: int | None = field_of(sm_port)
    pkey_idx: int | None = field_of(pkey_idx)


sa: Final = group("sa", AskSa)
"""The decorator for commands that ask the SA. Its SM_Key is an option of every command that opens a fabric."""
