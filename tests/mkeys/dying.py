"""A run of M_Keys by own Sets that dies at one of them, on a small subnet, and with which keys ports are asked."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ibkeys.mad import offsets as at
from ibkeys.sim.agents import mkey_check
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.sim.traps import Traps
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.umad.port import Outgoing, SendFailure
from tests.change.restarting import Tree
from tests.mkeys.rollout import Plan, Site
from tests.spy import is_set


class Killed(BaseException):
    """The end of the command, as far as a test can make one: nothing is sent any more."""


def net_of(tree: Tree) -> Subnet:
    """Return the subnet: the SM's host first, then the switches."""
    ends: dict[int, list[int]] = {number: [] for number in range(len(tree))}
    for number, behind in enumerate(tree):
        if behind is not None:
            ends[number].append(behind)
            ends[behind].append(number)
    switches = {behind for behind in tree if behind} | {1}
    ids = [f"{'S' if number in switches else 'H'}-{16 * number + 0x1000:016x}" for number in range(len(tree))]
    lines = []
    for number, peers in ends.items():
        kind, guid = ("Switch", "switchguid") if number in switches else ("Ca", "caguid")
        lines += ["", f"{guid}=0x{16 * number + 0x1000:x}", f'{kind}\t{len(peers)} "{ids[number]}"\t\t# "n{number}"']
        lines += [f'[{at}]\t"{ids[peer]}"[{ends[peer].index(number) + 1}]' for at, peer in enumerate(peers, 1)]
    return Subnet.from_text("\n".join(lines) + "\n")


@dataclass
class Asked:
    """The keys with which ports at level 2 or 3 were asked, in order, by port GUID; ``refused``: how many were wrong
    ones."""

    keys: dict[int, list[int]] = field(default_factory=dict)
    refused: Counter[int] = field(default_factory=Counter)

    @contextmanager
    def listening(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        check = mkey_check.check

        def noting(port: SimPort, mad: bytes, traps: Traps) -> int:
            if port.m_key and port.protect_bits >= 2:
                key = int.from_bytes(mad[at.M_KEY])
                self.keys.setdefault(port.guid, []).append(key)
                self.refused[port.guid] += key != port.m_key
            return check(port, mad, traps)

        with patch.context() as own:
            own.setattr(mkey_check, "check", noting)
            yield

    def check(self, known: Mapping[int, Sequence[int]]) -> None:
        """Each was asked only with the keys *known* of it, with a wrong one once at most."""
        for guid, keys in self.keys.items():
            assert {*keys} <= {*known[guid]}
            assert self.refused[guid] <= 1


def kill_at(site: Site, plan: Plan, number: int, arrives: Sequence[bool]) -> Site | None:
    """Let a command die at its Set with this number: of those that are under way with it some arrive. Return the site
    with the stores as they are on disk then; None where it made fewer Sets."""
    sets, dead, left = count(1), list[Site](), iter(arrives)

    def arm(fabric: Any) -> None:
        send = fabric.umad.send

        def until(batch: Sequence[Outgoing]) -> list[SendFailure]:
            failures = []
            for outgoing in batch:
                is_under_way = is_set(outgoing) and next(sets) >= number
                if is_under_way and not dead:
                    dead.append(Site(site.net, Path(shutil.copytree(site.folder, f"{site.folder}-{number}"))))
                elif dead and not is_under_way:
                    raise Killed
                if not is_under_way or next(left, True):
                    failures += send([outgoing])
            return failures

        fabric.umad.send = until

    with suppress(Killed):
        site.run(plan, before=arm)
    return dead[0] if dead else None


def keys_of(site: Site) -> dict[int, list[int]]:
    """Return of each port the keys that the key store has: the one that a step sets first, then that which it had."""
    with KeyStore(site.stores["keystore"], create=False) as store:
        rows = [row for row in store.rows() if row.state in ("pending", "current")]
    rows.sort(key=lambda row: row.state, reverse=True)
    return {
        port.guid: [row.m_key.reveal() for row in rows if row.port_guid == port.guid and not row.m_key.is_zero]
        for port in site.ports()
    }
