"""``apply --via opensm`` where other OpenSMs would take over: their policies change along, or the change is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from tests.corpus import DATA
from tests.integration.hosted import plan_for, via
from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.opensms import NodesOpensm
from tests.integration.strangers import NODES, stranger
from tests.integration.subnet import Subnet
from tests.integration.tenants import GREEN, TENANTS, tables
from tests.sample import in_soak

BY_GUID = TENANTS.replace("SELF=full", "".join(f"{guid:#x}=full, " for guid in NODES.values()).rstrip(", "))
BY_GUID_GREEN = BY_GUID.replace("Red=0x10", "Green=0x11")


@pytest.fixture
def served() -> Iterator[Subnet]:
    with Subnet(DATA / "fabrics" / "two-switch.net") as fabric:
        yield fabric


def start(served: Subnet, stack: ExitStack, *texts: str) -> list[NodesOpensm]:
    """Start an OpenSM with each of *texts*: the first one is master, the others stand by."""
    found = []
    for number, (node, text) in enumerate(zip(NODES, texts, strict=False)):
        found.append(NodesOpensm(served, node, 9 - number, stack, text, NODES[node]))
        found[-1].log.wait("SUBNET UP" if number == 0 else "ENTERING SM STANDBY STATE")
    return found


def plan(served: Subnet, text: str) -> Path:
    plan_for(served, text)
    return served.folder / "plan.json"


@pytest.mark.parametrize("number", [2, in_soak(3)])
def test_a_takeover_after_the_change_changes_no_table(served: Subnet, stack: ExitStack, number: int) -> None:
    running = start(served, stack, *[BY_GUID] * number)
    done = via(served, plan(served, BY_GUID_GREEN))
    assert done.returncode == 0, done.stdout + done.stderr
    assert [each.policy.read_text() for each in running] == [BY_GUID_GREEN] * number
    now = tables(served)
    for former, later in pairwise(running):
        before = len(later.log.lines)
        former.process.kill()
        former.process.wait(RUN_TIMEOUT)
        later.log.wait("SUBNET UP", later.place("ENTERING SM MASTER STATE", before))
        assert tables(served) == now


def test_undo_gives_every_policy_file_back(served: Subnet, stack: ExitStack) -> None:
    running = start(served, stack, BY_GUID, BY_GUID)
    before, path = tables(served), plan(served, BY_GUID_GREEN)
    assert via(served, path).returncode == 0
    done = served.ibkeys("undo", "1", "--yes")
    assert done.returncode == 0, done.stderr
    assert [each.policy.read_text() for each in running] == [BY_GUID] * 2
    assert tables(served) == before


def test_a_standby_with_another_policy_is_refused_unless_it_is_meant(served: Subnet, stack: ExitStack) -> None:
    other = BY_GUID.replace("Blue", "Navy")
    running = start(served, stack, BY_GUID, other)
    path = plan(served, BY_GUID_GREEN)
    refused = via(served, path)
    assert refused.returncode == 4
    assert "standby-differs" in refused.stderr
    assert str(running[1].policy) in refused.stderr
    assert [each.policy.read_text() for each in running] == [BY_GUID, other]
    done = via(served, path, "--override", "standby-differs")
    assert done.returncode == 0, done.stderr
    assert [each.policy.read_text() for each in running] == [BY_GUID_GREEN] * 2
    assert served.ibkeys("undo", "1", "--yes").returncode == 0
    assert [each.policy.read_text() for each in running] == [BY_GUID, other]


@pytest.mark.soak
def test_a_standby_that_has_the_policy_of_the_plan_already_loses_nothing(served: Subnet, stack: ExitStack) -> None:
    """So it is after a former master came back with its old policy."""
    running = start(served, stack, BY_GUID, BY_GUID_GREEN)
    done = via(served, plan(served, BY_GUID_GREEN))
    assert done.returncode == 0, done.stderr
    assert [each.policy.read_text() for each in running] == [BY_GUID_GREEN] * 2


def test_self_is_refused_where_it_is_new_and_said_where_it_stands(served: Subnet, stack: ExitStack) -> None:
    running = start(served, stack, BY_GUID, BY_GUID)
    new = plan(served, BY_GUID + "Sm=0x60 : SELF=full ;\n")
    refused = via(served, new)
    assert refused.returncode == 4
    assert "self-takeover" in refused.stderr
    assert "0x0060" in refused.stderr
    assert via(served, new, "--override", "self-takeover").returncode == 0
    stands = plan(served, BY_GUID_GREEN + "Sm=0x60 : SELF=full ;\n")
    done = via(served, stands, "-v")
    assert done.returncode == 0, done.stderr
    assert "the policy already used SELF" in done.stderr
    assert running[1].policy.read_text().startswith(BY_GUID_GREEN)


def test_a_former_master_that_is_away_is_named_before_the_next_change(served: Subnet, stack: ExitStack) -> None:
    """It would come back with its old policy, and the new partition would be gone."""
    running = start(served, stack, BY_GUID, BY_GUID)
    assert via(served, plan(served, BY_GUID_GREEN)).returncode == 0
    before = len(running[1].log.lines)
    running[0].process.kill()
    running[0].process.wait(RUN_TIMEOUT)
    running[1].log.wait("SUBNET UP", running[1].log.place("ENTERING SM MASTER STATE", before))
    new = plan(served, BY_GUID_GREEN + "More=0x50 : ALL=limited ;\n")
    now = tables(served)
    refused = via(served, new)
    assert refused.returncode == 4, refused.stdout + refused.stderr
    assert "standby-differs" in refused.stderr
    assert f"port GUID {NODES['node01 mlx4_0']:#018x}" in refused.stderr
    assert "give it the same file" not in refused.stderr
    assert tables(served) == now
    assert via(served, new, "--override", "standby-differs").returncode == 0


def test_a_standby_whose_host_is_not_reached_is_refused(served: Subnet, stack: ExitStack) -> None:
    start(served, stack, TENANTS)
    other = stranger(served, stack, "node06 mlx4_0")
    done = via(served, plan(served, GREEN))
    assert done.returncode == 4
    assert "standby-differs" in done.stderr
    assert f"(process {other.pid}), which does not show its port" in done.stderr, done.stderr
