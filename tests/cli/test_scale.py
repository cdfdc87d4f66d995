"""The work of a command grows as the fabric does: counted in function calls, so no clock and no other program matters.

Calls do not show how long one call of C takes, for example a sort; ``make bench`` measures that on 40,000 hosts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import FrameType

import pytest

from tests.cli.conftest import run
from tests.fattree import fat_tree, full_members

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
        lines.append(f"job{job}={0x1000 + job:#x} : {full_members(range(job * POD, job * POD + POD))};")
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

    def work(folder: Path) -> int:
        return calls_of([word.replace("{}", str(folder)) for word in words], (0, 1))

    grows_as_the_fabric(work, folders)


@pytest.mark.soak
def test_to_change_twice_the_fabric_and_to_undo_that_is_twice_the_work(folders: list[Path]) -> None:
    def work(folder: Path) -> int:
        for file in folder.glob("state*"):
            file.unlink()
        live = ("--backend", f"sim:{folder / 'net'},state={folder / 'state'}")
        plan, wanted = str(folder / "plan.json"), str(folder / "policy.conf")
        assert run("plan", *live, "--policy", wanted, "--out", plan).code == 1
        return calls_of(["apply", plan, *live, "--yes"], (0,)) + calls_of(["undo", "1", *live, "--yes"], (0,))

    grows_as_the_fabric(work, folders)


def calls_of(words: Sequence[str], statuses: Collection[int]) -> int:
    """Return how many functions a command calls that ends with one of *statuses*."""
    results = []
    made = calls(lambda: results.append(run(*words)))
    assert results[0].code in statuses, results[0].err
    return made


def grows_as_the_fabric(work: Callable[[Path], int], folders: Sequence[Path]) -> None:
    work(folders[0])  # what is imported and worked out once
    small, medium, large = map(work, folders)
    # What every run takes is in each of the three; were the rest quadratic, the ratio would be 4.
    assert large - medium <= 2.3 * (medium - small), (small, medium, large)
