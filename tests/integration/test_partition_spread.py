"""partition-spread beside real OpenSMs: a standby that fell behind gets the master's policy, and a takeover changes
nothing then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.corpus import DATA
from tests.integration import opensms
from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.opensms import NodesOpensm
from tests.integration.strangers import NODES
from tests.integration.subnet import Subnet
from tests.integration.tenants import BY_GUID, TENANTS, tables

ADD = ("partition-add", "Red", "--full", "node04", "--yes")
SECOND = NODES["node05 mlx4_0"]


@pytest.fixture
def served() -> Iterator[Subnet]:
    with Subnet(DATA / "fabrics" / "two-switch.net") as fabric:
        yield fabric


def start(served: Subnet, stack: ExitStack, node: str, priority: int, policy: str) -> NodesOpensm:
    return NodesOpensm(served, node, priority, stack, policy, NODES[node])


def start_again(served: Subnet, stack: ExitStack, ended: NodesOpensm, priority: int) -> None:
    """Start an OpenSM that was killed, with its files as they are."""
    ended.write_priority(priority)
    ended.process, ended.log = opensms.start(served, ended.words, ended.cache, ended.node)
    stack.callback(ended.log.close)
    stack.callback(ended.process.wait, RUN_TIMEOUT)
    stack.callback(ended.process.kill)


def kill(running: NodesOpensm) -> None:
    running.process.kill()
    running.process.wait(RUN_TIMEOUT)


def both(served: Subnet, stack: ExitStack, policy: str = BY_GUID) -> tuple[NodesOpensm, NodesOpensm]:
    """Start a master and a standby, which one change has seen."""
    master = start(served, stack, "node01 mlx4_0", 9, policy)
    master.log.wait("SUBNET UP")
    standby = start(served, stack, "node05 mlx4_0", 8, policy)
    standby.log.wait("ENTERING SM STANDBY STATE")
    done = served.ibkeys("partition-rename", "Blue", "Navy", "--yes", timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return master, standby


def test_a_standby_that_fell_behind_gets_the_masters_policy_and_takes_over_with_it(
    served: Subnet, stack: ExitStack
) -> None:
    master, standby = both(served, stack)
    kill(standby)
    refused = served.ibkeys(*ADD)
    assert refused.returncode == 4
    assert f"(port GUID {SECOND:#018x}), seen in operation 1, is not there now" in refused.stderr
    done = served.ibkeys(*ADD, "--override", "standby-differs", timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    behind = standby.policy.read_text()
    started = len(master.log.lines)
    start_again(served, stack, standby, 8)
    standby.log.wait("ENTERING SM STANDBY STATE")
    trap = master.log.place("Forcing heavy sweep. Received trap:144", started)  # for the new SM
    master.log.wait("SUBNET UP", master.log.place("INITIATING HEAVY SWEEP", trap))
    before, signals = tables(served), len(master.log.lines)

    done = served.ibkeys("partition-spread", "--yes", timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{standby.policy}: differs from the master's policy" in done.stdout
    assert standby.policy.read_bytes() == master.policy.read_bytes()
    assert "HEAVY SWEEP" not in "".join(master.log.lines[signals:])  # nobody was signalled
    again = served.ibkeys("partition-spread", "--yes", timeout=300)
    assert (again.returncode, "nothing to change" in again.stdout) == (0, True)
    undone = served.ibkeys("undo", 3, "--yes", timeout=300)
    assert undone.returncode == 0, undone.stdout + undone.stderr
    assert standby.policy.read_text() == behind
    assert served.ibkeys("undo", 4, "--yes", timeout=300).returncode == 0
    assert standby.policy.read_bytes() == master.policy.read_bytes()
    assert tables(served) == before

    number = len(standby.log.lines)
    kill(master)
    standby.log.wait("SUBNET UP", standby.log.place("ENTERING SM MASTER STATE", number))
    assert tables(served) == before


def test_the_policy_of_an_sm_that_was_off_and_took_over_is_not_spread(served: Subnet, stack: ExitStack) -> None:
    first, second = both(served, stack)
    kill(second)
    behind = second.policy.read_text()
    done = served.ibkeys(*ADD, "--override", "standby-differs", timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    new = first.policy.read_text()
    kill(first)
    start_again(served, stack, second, 9)
    second.log.wait("SUBNET UP")
    start_again(served, stack, first, 8)
    first.log.wait("ENTERING SM STANDBY STATE")
    refused = served.ibkeys("partition-spread", "--yes", timeout=300)
    assert refused.returncode == 4, refused.stdout + refused.stderr
    assert f"refused by interlock older-policy: {second.policy} has a policy from before operation 2" in refused.stderr
    assert (first.policy.read_text(), second.policy.read_text()) == (new, behind)
    number = len(first.log.lines)
    kill(second)
    first.log.wait("SUBNET UP", first.log.place("ENTERING SM MASTER STATE", number))
    start_again(served, stack, second, 8)
    second.log.wait("ENTERING SM STANDBY STATE")
    done = served.ibkeys("partition-spread", "--yes", timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert second.policy.read_text() == new


def test_a_policy_that_the_master_has_not_read_is_not_spread(served: Subnet, stack: ExitStack) -> None:
    master, standby = both(served, stack)
    before, present = tables(served), standby.policy.read_bytes()
    master.policy.write_text(master.policy.read_text() + "More=0x50 : ALL=limited ;\n")
    refused = served.ibkeys("partition-spread", "--yes", timeout=300)
    assert refused.returncode == 4, refused.stdout + refused.stderr
    assert "refused by interlock stale" in refused.stderr
    assert (tables(served), standby.policy.read_bytes()) == (before, present)


def test_a_change_is_undone_after_a_failover(served: Subnet, stack: ExitStack) -> None:
    """The ports of both SMs are members; SELF moves with the master."""
    master, standby = both(served, stack, TENANTS)
    before, former = tables(served), master.policy.read_bytes()
    done = served.ibkeys("partition-add", "Navy", "--full", "node01", "--full", "node05", "--yes", timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    number = len(standby.log.lines)
    kill(master)
    standby.log.wait("SUBNET UP", standby.log.place("ENTERING SM MASTER STATE", number))
    refused = served.ibkeys("undo", 2, "--yes", timeout=300)
    assert refused.returncode == 4
    assert "refused by interlock standby-differs" in refused.stderr
    assert "also triggered" not in refused.stderr
    undone = served.ibkeys("undo", 2, "--yes", "--override", "standby-differs", timeout=300)
    assert undone.returncode == 0, undone.stdout + undone.stderr
    assert "note: SELF in the former policy means the port of the present master" in undone.stderr
    assert (master.policy.read_bytes(), standby.policy.read_bytes()) == (former, former)

    start_again(served, stack, master, 9)
    master.log.wait("SUBNET UP", master.log.place("ENTERING SM MASTER STATE"))
    assert tables(served) == before
