"""The entry of a P_Key table that MPI libraries and similar programs take for a job: by default, and when an
environment variable names it. The functions are pure.

Source: the sources of UCX since openucx/ucx#5141 of 2020 (uct_ib_iface_init_pkey: the first full member, else the first
limited one), Open MPI (btl_openib_component.c: 15 bits, 0 means index 0), MVAPICH2 (ibv_param.c: PKEY_MASK), GASNet
(gasnetc_probe_ports: the first entry with these 15 bits; get_pkey: not below 2), Mooncake (config.cpp; kvcache-ai/
Mooncake#1985) and NVSHMEM (its documentation of NVSHMEM_IB_PKEY_INDEX; NVIDIA/nvshmem#82).
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
    """A program with an environment variable that names the P_Key to use. ``takes``: whether the variable has an index
    ("index") or a P_Key ("value"). ``smallest``: the smallest P_Key that the variable may have. ``index_0_in``: the
    versions, in words, that lack the variable and take index 0.

    ``prefers_full``: whether the program takes the first full entry, else the first limited one: of any partition by
    default, of the named partition if the variable is set. All other programs take index 0 by default; if the variable
    is set, they take the index in it, or the first entry of the partition in it.
    """

    name: str
    variable: str
    takes: Takes
    prefers_full: bool = False
    smallest: int = 1
    index_0_in: str | None = None

    def can_name(self, partition: int | None) -> bool:
        """Return whether a value of the variable means *partition* (15 bits); True for None, the program's default."""
        return partition is None or self.takes == "index" or partition >= self.smallest


PROGRAMS: Final = (
    Program("NCCL", "NCCL_IB_PKEY", "index"),
    Program("UCX (Open MPI 5)", "UCX_IB_PKEY", "value", prefers_full=True),
    Program("Open MPI to 4", "OMPI_MCA_btl_openib_pkey", "value"),
    Program("MVAPICH2", "MV2_DEFAULT_PKEY", "value"),
    Program("GASNet (ibv)", "GASNET_IBV_PKEY", "value", smallest=2),
    Program("NVSHMEM", "NVSHMEM_IB_PKEY_INDEX", "index", index_0_in="versions before 3.7.0"),
    Program("Mooncake", "MC_PKEY_INDEX", "index", index_0_in="versions up to 0.3.10.post2"),
)


@dataclass(frozen=True, slots=True)
class TableChoice:
    """The entry that a program takes from one P_Key table. ``index`` and ``p_key``: None if the program finds no entry;
    ``reason`` then says why. ``is_known``: False if the result depends on an entry that could not be read."""

    program: Program
    index: int | None
    p_key: PKey | None
    reason: str | None = None
    is_known: bool = True

    @property
    def value(self) -> str | None:
        """The value of the variable with which the program takes this entry; None if there is no entry."""
        if self.index is None or self.p_key is None:
            return None
        return str(self.index) if self.program.takes == "index" else f"0x{self.p_key.partition:04x}"


def choose_entries(table: Table | None, partition: int | None = None) -> list[TableChoice]:
    """Return the entry that each of `PROGRAMS` takes from a *table* (None: not readable) for a job in *partition* (15
    bits; None: the program's default)."""
    return [_choose_entry(program, table, partition) for program in PROGRAMS]


def _choose_entry(program: Program, table: Table | None, partition: int | None) -> TableChoice:
    if not program.can_name(partition):
        why = f"no value of {program.variable} names partition 0x{partition:04x}: they start at {program.smallest}"
        return TableChoice(program, None, None, why)
    if table is None:
        return TableChoice(program, None, None, "the P_Key table could not be read", is_known=False)
    if partition is None and not program.prefers_full:
        return _choose_index_0(program, table)
    return _choose_by_partition(program, table, partition)


def _choose_index_0(program: Program, table: Table) -> TableChoice:
    if not table or table[0] is None:
        why = "the P_Key table has no entry" if not table else "index 0 could not be read"
        return TableChoice(program, None, None, why, is_known=not table)
    if not table[0].is_valid:
        return TableChoice(program, None, None, "it takes index 0 by default, which is empty")
    return TableChoice(program, 0, table[0])


def _choose_by_partition(program: Program, table: Table, partition: int | None) -> TableChoice:
    """Return the entry of *partition* that a program takes; None: of any partition. For a program whose variable has an
    index, ibkeys chooses the entry, and prefers a full one."""
    held = [
        (index, key)
        for index, key in enumerate(table)
        if key is not None and key.is_valid and partition in (None, key.partition)
    ]
    unread = [index for index, key in enumerate(table) if key is None]
    prefers_full = program.prefers_full or program.takes == "index"
    wanted = ([entry for entry in held if entry[1].is_full] if prefers_full else []) or held
    if wanted:
        found, key = wanted[0]
        unread = [index for index in unread if index < found or (program.prefers_full and not key.is_full)]
        if not unread:
            return TableChoice(program, found, key)
    if unread:
        return TableChoice(program, None, None, f"index {unread[0]} could not be read", is_known=False)
    none = "the P_Key table is empty" if partition is None else f"partition 0x{partition:04x} is not in the P_Key table"
    return TableChoice(program, None, None, none)


@dataclass(frozen=True, slots=True)
class JobScriptLine:
    """The line of a job script that sets a program's variable. ``value``: None if no value fits all ports of the job;
    ``reason`` then says why. ``choices``: each port with the entry that the program takes there."""

    program: Program
    value: str | None
    reason: str | None
    choices: tuple[tuple[KernelPort, TableChoice], ...]

    @property
    def is_limited(self) -> bool:
        """Whether the program takes a limited P_Key on at least one of the ports."""
        return any(choice.p_key is not None and not choice.p_key.is_full for _, choice in self.choices)

    @property
    def older_versions(self) -> str | None:
        """The behaviour of older versions of the program, in words; None if they behave the same, or there is no
        ``value``."""
        if self.program.index_0_in is None or self.value in (None, "0"):
            return None
        return f"{self.program.index_0_in} take index 0, whatever is set"


def job_script_lines(ports: Sequence[KernelPort], partition: int | None = None) -> list[JobScriptLine]:
    """Return the lines of a job script, one for each program, for a job on all of *ports*. *partition*: as in
    `choose_entries`.

    A variable has one value for all ports of a job, so the value has to fit each of them.
    """
    chosen = [(port, choose_entries(port.p_keys, partition)) for port in ports]
    return [
        _make_line(program, tuple((port, choices[place]) for port, choices in chosen), partition)
        for place, program in enumerate(PROGRAMS)
    ]


def _make_line(
    program: Program, choices: tuple[tuple[KernelPort, TableChoice], ...], partition: int | None
) -> JobScriptLine:
    if not choices:
        return JobScriptLine(program, None, "no InfiniBand port is active", choices)
    if not program.can_name(partition):
        return JobScriptLine(program, None, choices[0][1].reason, choices)
    missing = [f"{port}: {choice.reason}" for port, choice in choices if choice.value is None]
    if missing:
        return JobScriptLine(program, None, "; ".join(missing), choices)
    values = dict.fromkeys(choice.value for _, choice in choices)
    if len(values) == 1:
        return JobScriptLine(program, next(iter(values)), None, choices)
    places = ", ".join(f"{choice.p_key} at index {choice.index} of {port}" for port, choice in choices)
    reason = (
        f"the program takes one value for all ports of a job, but the ports need different ones ({places}): name a "
        "port with -C and -P"
    )
    return JobScriptLine(program, None, reason, choices)
