"""Lines for a job script, a Slurm TaskProlog or ``eval``: one export for each program, comments for all else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ibkeys.cli.exits import clean, write_exact

if TYPE_CHECKING:
    from ibkeys.host.kernel.ports import KernelPort
    from ibkeys.host.kernel.programs import JobScriptLine


def write_lines(settings: Sequence[JobScriptLine], ports: Sequence[KernelPort], partition: int | None) -> None:
    """Write the lines.

    The value of an export is always a number, because the names of devices may hold any character.
    """
    job = "what programs take by default" if partition is None else f"partition 0x{partition:04x}"
    write_exact(_comment(f"{job}, on {', '.join(map(str, ports)) or 'no active InfiniBand port'}"))
    taken = {choice.p_key.partition for setting in settings for _, choice in setting.choices if choice.p_key}
    if len(taken) > 1:
        bases = ", ".join(f"0x{base:04x}" for base in sorted(taken))
        write_exact(_comment(f"programs take different partitions ({bases}): --partition chooses one for all"))
    for setting in settings:
        name, variable = setting.program.name, setting.program.variable
        if setting.value is None:
            unset = f"{variable} is not set: " if setting.program.can_be_told(partition) else ""
            write_exact(_comment(f"{name}: {unset}{setting.reason}"))
            continue
        write_exact(_comment(f"{name}: {_taken(setting)}"))
        write_exact(f"export {variable}={setting.value}")


def _taken(setting: JobScriptLine) -> str:
    found = dict.fromkeys(f"{choice.p_key} at index {choice.index}" for _, choice in setting.choices)
    older = f"; {setting.older}" if setting.older is not None else ""
    return f"the {setting.program.takes}, for {' and '.join(found)}{older}"


def _comment(text: str) -> str:
    return f"# {clean(text)}"
