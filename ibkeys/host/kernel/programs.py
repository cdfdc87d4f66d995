"""Which entry of a P_Key table each program takes for a job, by its default and by the variable that sets it. Pure.

Source: facts/host.md 6, and the sources of UCX (uct_ib_iface_init_pkey: full members only, whatever the value is),
Open MPI (btl_openib_component.c: 15 bits, 0 means index 0) and MVAPICH2 (ibv_param.c: PKEY_MASK).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ibkeys.host.kernel.ports import KernelPort
from ibkeys.host.kernel.tables import Table
from ibkeys.keys.pkey import PKey

Takes = Literal["index", "value"]


@dataclass(frozen=True, slots=True)
class Program:
    """A program that chooses a P_Key by an environment variable. ``full_only``: it takes no entry of a limited member.
    ``first_full``: its default is the first entry of a full member; else index 0."""

    name: str
    variable: str
    takes: Takes
    full_only: bool = False
    first_full: bool = False


PROGRAMS: Final = (
    Program("NCCL", "NCCL_IB_PKEY", "index"),
    Program("UCX (Open MPI 5)", "UCX_IB_PKEY", "value", full_only=True, first_full=True),
    Program("Open MPI to 4", "OMPI_MCA_btl_openib_pkey", "value"),
    Program("MVAPICH2", "MV2_DEFAULT_PKEY", "value"),
)


@dataclass(frozen=True, slots=True)
class Choice:
    """What a program takes of one table. ``index`` and ``p_key``: None where it finds nothing; ``reason`` then says
    why. ``is_known``: False where an entry that could not be read decides."""

    program: Program
    index: int | None
    p_key: PKey | None
    reason: str | None = None
    is_known: bool = True

    @property
    def value(self) -> str | None:
        """What the variable has to hold so that the program takes this entry."""
        if self.index is None or self.p_key is None:
            return None
        return str(self.index) if self.program.takes == "index" else f"0x{self.p_key.partition:04x}"


def choose(table: Table | None, partition: int | None = None) -> list[Choice]:
    """Return what each of `PROGRAMS` takes of a *table*: by default, or for a job in *partition* (15 bits)."""
    return [_choice(program, table, partition) for program in PROGRAMS]


def _choice(program: Program, table: Table | None, partition: int | None) -> Choice:
    if table is None:
        return Choice(program, None, None, "the P_Key table could not be read", is_known=False)
    if partition is not None:
        return _of_partition(program, table, partition)
    return _first_full(program, table) if program.first_full else _at_index_0(program, table)


def _at_index_0(program: Program, table: Table) -> Choice:
    if not table or table[0] is None:
        why = "the P_Key table has no entry" if not table else "index 0 could not be read"
        return Choice(program, None, None, why, is_known=not table)
    if not table[0].is_valid:
        return Choice(program, None, None, "it takes index 0 by default, which is empty")
    return Choice(program, 0, table[0])


def _first_full(program: Program, table: Table) -> Choice:
    for index, key in enumerate(table):
        if key is None:
            return Choice(program, None, None, f"index {index} could not be read", is_known=False)
        if key.is_valid and key.is_full:
            return Choice(program, index, key)
    limited = any(key is not None and key.is_valid for key in table)
    why = "the port is only a limited member" if limited else "the P_Key table is empty"
    return Choice(program, None, None, f"it takes full members only by default, and {why}")


def _of_partition(program: Program, table: Table, partition: int) -> Choice:
    """A program that is given a value takes the first entry of the partition; one that is given an index takes any, so
    the full member where there are both."""
    held = [(index, key) for index, key in enumerate(table) if key is not None and key.partition == partition]
    unread = [index for index, key in enumerate(table) if key is None]
    full = [(index, key) for index, key in held if key.is_full]
    candidates = full if program.full_only else (full or held) if program.takes == "index" else held
    if candidates and not any(index < candidates[0][0] for index in unread):
        return Choice(program, *candidates[0])
    if unread:
        return Choice(program, None, None, f"index {unread[0]} could not be read", is_known=False)
    if held:
        why = f"it takes full members only, and the port is a limited member ({held[0][1]} at index {held[0][0]})"
        return Choice(program, None, None, why)
    return Choice(program, None, None, f"partition 0x{partition:04x} is not in the P_Key table")


@dataclass(frozen=True, slots=True)
class Setting:
    """A line of a job script. ``value``: None where no value fits all ports; ``reason`` then says why. ``choices``:
    what the program takes, by port."""

    program: Program
    value: str | None
    reason: str | None
    choices: tuple[tuple[KernelPort, Choice], ...]

    @property
    def is_limited(self) -> bool:
        """Whether the program works as a limited member on one of the ports."""
        return any(choice.p_key is not None and not choice.p_key.is_full for _, choice in self.choices)


def settings(ports: Sequence[KernelPort], partition: int | None = None) -> list[Setting]:
    """Return what a job script has to set for a job on all of *ports*, for each program. *partition*: as in `choose`.

    One value holds for all ports of a job, so it has to fit each of them.
    """
    chosen = [(port, choose(port.p_keys, partition)) for port in ports]
    return [
        _setting(program, tuple((port, choices[place]) for port, choices in chosen))
        for place, program in enumerate(PROGRAMS)
    ]


def _setting(program: Program, choices: tuple[tuple[KernelPort, Choice], ...]) -> Setting:
    if not choices:
        return Setting(program, None, "no InfiniBand port is active", choices)
    missing = [f"{port}: {choice.reason}" for port, choice in choices if choice.value is None]
    if missing:
        return Setting(program, None, "; ".join(missing), choices)
    values = dict.fromkeys(choice.value for _, choice in choices)
    if len(values) == 1:
        return Setting(program, next(iter(values)), None, choices)
    places = ", ".join(f"{choice.p_key} at index {choice.index} of {port}" for port, choice in choices)
    reason = f"one value holds for all ports of a job, and they differ ({places}): name a port with -C and -P"
    return Setting(program, None, reason, choices)
