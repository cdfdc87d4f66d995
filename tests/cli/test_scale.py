"""The work of a command grows as the fabric does: counted in function calls, so no clock and no other program matters.

Calls do not show how long one call of C takes, for example a sort; ``make bench`` measures that on 40,000 hosts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from tests.cli.conftest import run
from tests.fattree import HOST_GUID, STEP, fat_tree

PODS = (2, 4, 8)
POD = 8
"""Hosts of a pod."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return a folder for each size, with what the commands need."""
    found = []
    for pods in PODS:
        folder = tmp_path_factory.mktemp(f"pods{pods}")
        (folder / "net").write_text(fat_tree(2, 4, 2, pods=pods, cores=1))
        (folder / "policy.conf").write_text(policy(pods * POD))
        live = ("--backend", f"sim:{folder / 'net'}")
        assert run("snapshot", *live, folder / "before.db").code == 0
        found.append(folder)
    return found


def policy(hosts: int) -> str:
    lines = ["Default=0x7fff, ipoib : ALL=full, SELF=full;"]
    for job in range(hosts // POD):
        members = ", ".join(f"{HOST_GUID + host * STEP + 1:#x}=full" for host in range(job * POD, job * POD + POD))
        lines.append(f"job{job}={0x1000 + job:#x} : {members};")
    return "\n".join(lines)


def calls(command: Callable[[], object]) -> int:
    """Return how many functions, of Python and of C, *command* calls."""
    count = 0

    def counted(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    former = sys.getprofile()
    sys.setprofile(counted)
    try:
        command()
    finally:
        sys.setprofile(former)
    return count


LIVE = ("--backend", "sim:{}/net")
TAKEN = ("--from", "{}/before.db")
WANTED = ("--policy", "{}/policy.conf")


@pytest.mark.parametrize(
    "words",
    [
        ("discover", *LIVE),
        ("snapshot", *LIVE, "{}/new.db"),
        ("audit", *TAKEN, *WANTED, "-f", "json"),
        ("matrix", *TAKEN, "-f", "json"),
        ("plan", *TAKEN, *WANTED, "--out", "{}/plan.json"),
        ("compare", "--backend", "sim:{}/net,sm=node00001 mlx5_0", *WANTED),
        ("report", *TAKEN, *WANTED, "{}/report"),
        ("diff", "{}/before.db", "{}/new.db"),
    ],
    ids=lambda words: words[0],
)
def test_twice_the_fabric_is_twice_the_work(words: tuple[str, ...], folders: list[Path]) -> None:
    if words[0] == "diff":
        for folder in folders:
            (folder / "new.db").write_bytes((folder / "before.db").read_bytes())

    def on(folder: Path) -> int:
        arguments = [word.replace("{}", str(folder)) for word in words]
        results = []
        made = calls(lambda: results.append(run(*arguments)))
        assert results[0].code in (0, 1), results[0].err
        return made

    on(folders[0])  # what is imported and worked out once
    small, medium, large = map(on, folders)
    # What every run takes is in each of the three; were the rest quadratic, the ratio would be 4.
    assert large - medium <= 2.3 * (medium - small), (small, medium, large)
