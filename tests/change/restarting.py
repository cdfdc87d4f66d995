"""A small model of a subnet whose M_Key goes through OpenSM: what an OpenSM that is started again makes of it.

- An OpenSM reads its options file when it is signalled and when it starts; guid2mkey only when it starts.
- What it asks of a port carries the key that guid2mkey has for it, else m_key. Behind a port that does not answer it
  finds nobody.
- What it asks later, its Set too, carries the M_Key that PortInfo showed: 0 where that was hidden.
- A port that does not show the key, level and lease of the options file gets one Set of all three. OpenSM takes it for
  granted that this worked.
- guid2mkey is written at the end of a sweep.
- A standby polls its master with the M_Key that it saw at its own start, and has the guid2mkey of that time.

Sources: IBA 14.2.4 (`check_m_key`); opensm osm_state_mgr.c (do_sweep), osm_lid_mgr.c, osm_db_files.c,
osm_sm_state_mgr.c; OpenSM 3.3.23, observed when it was killed in the middle of a sweep and started again, and when a
standby took over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey, MKeyVerdict, check_m_key
from ibkeys.mad.const import AttributeID, Method

SWEEPS = 3
"""After so many sweeps nothing changes any more that does not wait for a lease."""

Tree = tuple[int | None, ...]
"""Of each end port the one through whose node it is reached, which comes before it; None for the SM's own."""
Ports = tuple[KeySetting, ...]


@dataclass(frozen=True, slots=True)
class OnDisk:
    """The files of an OpenSM. ``said``: its options file; ``noted``: its guid2mkey, a key for each port."""

    said: KeySetting
    noted: tuple[MKey, ...]


@dataclass(frozen=True, slots=True)
class Standby:
    """An OpenSM that stands by. ``works_with``: what it read when it was signalled last; ``polls_with``: the key of the
    master's port when it was started."""

    files: OnDisk
    works_with: KeySetting
    polls_with: MKey
    runs: bool = True


@dataclass(frozen=True, slots=True)
class World:
    """All that there is at one moment."""

    ports: Ports
    files: OnDisk
    standby: Standby | None = None

    def saying(self, said: KeySetting) -> World:
        """The options file of the master says something else."""
        return replace(self, files=replace(self.files, said=said))


@dataclass(frozen=True, slots=True)
class Restarted:
    """What an OpenSM that was started has made of it. ``silent``: ports that it does not find; ``violations``: how many
    it has caused."""

    ports: Ports
    silent: frozenset[int]
    violations: int

    def is_managed(self, said: KeySetting) -> bool:
        """Whether it finds every port, and each has what its options file says."""
        return not self.silent and set(self.ports) == {said}


def answer(method: Method, port: KeySetting, key: MKey) -> MKeyVerdict:
    """What a port does with an SMP about PortInfo that carries *key*."""
    return check_m_key(method, AttributeID.PORT_INFO, port.protect, port.key.reveal(), key.reveal())


@lru_cache(1 << 14)
def restarted(tree: Tree, ports: Ports, files: OnDisk) -> Restarted:
    """Let an OpenSM with these files start, and sweep until nothing changes. No lease runs out."""
    now, memory, violations, seen = list(ports), list(files.noted), 0, dict[int, KeySetting]()
    for _ in range(SWEEPS):
        seen = {}
        for number, behind in enumerate(tree):
            if behind is not None and behind not in seen:
                continue
            verdict = answer(Method.GET, now[number], memory[number])
            violations += verdict.count_violation
            if verdict.m_key_shown is not None:
                seen[number] = replace(now[number], key=MKey(verdict.m_key_shown))
                if verdict.m_key_shown or not now[number].protect:
                    memory[number] = seen[number].key
        for number, shown in seen.items():
            if shown != files.said:
                verdict = answer(Method.SET, now[number], shown.key)
                violations += verdict.count_violation
                now[number] = files.said if verdict.accepted else now[number]
                memory[number] = files.said.key
    return Restarted(tuple(now), frozenset(range(len(tree))) - seen.keys(), violations)
