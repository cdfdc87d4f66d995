"""``apply --via opensm --sm-host``: the OpenSM runs on another host, here one that a real sshd on loopback leads to.

The sm.toml of these tests hides the OpenSMs of this host, so that only the other host has them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.corpus import DATA
from tests.integration.hosted import facts, last_operation, opensm, plan_for
from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.keyed_standbys import through_ssh
from tests.integration.opensms import NodesOpensm
from tests.integration.other_host import OtherHost
from tests.integration.sshd import Sshd
from tests.integration.strangers import NODES
from tests.integration.subnet import Subnet
from tests.integration.tenants import BY_GUID, BY_GUID_GREEN, GREEN, SM, TENANTS, tables
from tests.owners import give_away


@pytest.fixture
def other(tmp_path: Path) -> Iterator[OtherHost]:
    with ExitStack() as stack:
        served = stack.enter_context(Subnet(DATA / "fabrics" / "two-switch.net"))
        running = stack.enter_context(opensm(served, TENANTS, words=("-g", f"{SM:#x}")))
        sshd = stack.enter_context(Sshd(tmp_path / "sshd"))
        yield OtherHost(served, running, sshd, tmp_path)


def heard(process: subprocess.Popen[str], words: str) -> None:
    """Wait until *process* says *words* on standard error."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if words in line:
            return
    raise AssertionError(said)


def test_through_the_opensm_of_another_host_and_back(other: OtherHost) -> None:
    other.running.policy.chmod(0o640)
    give_away(other.running.policy)
    before, file = tables(other.served), facts(other.running.policy)
    done = other.served.run(other.served.ibkeys_command("apply", other.plan, "--via", "opensm", "--allow-removals"))
    assert done.returncode == 4  # nobody said yes
    done = other.served.run(other.apply(), timeout=300)
    assert done.returncode == 0, done.stderr
    assert "partitions.conf on smhost" in done.stdout
    assert facts(other.running.policy) == (GREEN.encode(), *file[1:])
    assert tables(other.served) != before
    done = other.served.ibkeys(
        "undo", last_operation(other.served), "--yes", *other.options[2:]
    )  # the journal knows the host
    assert done.returncode == 0, done.stderr
    assert (tables(other.served), facts(other.running.policy)) == (before, file)


@pytest.mark.soak
def test_what_nobody_confirmed_goes_back(other: OtherHost) -> None:
    before = tables(other.served)
    with other.start("--confirm-within", 1) as process:
        _, said = process.communicate(timeout=RUN_TIMEOUT)
    assert process.returncode == 3
    assert "not confirmed: rolling back" in said
    assert "could not be reached" not in said
    assert other.running.policy.read_text() == TENANTS
    assert tables(other.served) == before


@pytest.mark.soak
def test_a_confirmation_reaches_the_guard(other: OtherHost) -> None:
    before = guards()
    with other.start("--confirm-within", 600) as process:
        heard(process, "rolling back in 600 s")
        mine = guards() - before
        assert mine
        done = other.served.ibkeys("confirm", "1")
        assert done.returncode == 0, done.stderr
        process.communicate(timeout=RUN_TIMEOUT)
    assert process.returncode == 0
    assert other.running.policy.read_text() == GREEN
    deadline = time.monotonic() + RUN_TIMEOUT
    while mine & guards():  # each removes its directory by itself
        assert time.monotonic() < deadline


def test_the_guard_goes_back_alone_when_the_connection_is_cut(other: OtherHost) -> None:
    before = tables(other.served)
    with other.start("--confirm-within", 1) as process:
        heard(process, "rolling back in 1 s")
        process.send_signal(signal.SIGSTOP)  # so it neither goes back itself nor notices
        other.sshd.cut()
        other.wait_for_policy(TENANTS)
        process.kill()
    end_what_is_left(other.served.folder)
    other.running.give(TENANTS.encode())  # what OpenSM was told is done when it has done this too
    assert tables(other.served) == before


@pytest.mark.soak
def test_each_of_two_opensms_there_has_a_guard(stack: ExitStack, tmp_path: Path) -> None:
    served = stack.enter_context(Subnet(DATA / "fabrics" / "two-switch.net"))
    first, second = list(NODES)[:2]
    master = NodesOpensm(served, first, 9, stack, BY_GUID, NODES[first])
    master.log.wait("SUBNET UP")
    standby = NodesOpensm(served, second, 8, stack, BY_GUID, NODES[second])
    standby.log.wait("ENTERING SM STANDBY STATE")
    plan_for(served, BY_GUID_GREEN)
    policies = [master.policy, standby.policy]
    sshd, there = through_ssh(stack, tmp_path)
    words = ("--via", "opensm", "--allow-removals", "--yes", *there, "--confirm-within", "1")
    command = served.ibkeys_command("apply", served.folder / "plan.json", *words)
    with served.begin(command, stderr=subprocess.PIPE) as process:
        heard(process, "rolling back in 1 s")
        process.send_signal(signal.SIGSTOP)
        assert [each.read_text() for each in policies] == [BY_GUID_GREEN] * 2
        sshd.cut()
        deadline = time.monotonic() + RUN_TIMEOUT
        while [each.read_text() for each in policies] != [BY_GUID] * 2:
            assert time.monotonic() < deadline
        process.kill()
    end_what_is_left(served.folder)


def end_what_is_left(folder: Path) -> None:
    """End the child of the killed apply, and the undo that it tries: the host is not reached any more."""
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = each.read_bytes().decode("utf-8", "replace")
            if "ibkeys" in words and str(folder / "stores") in words:
                os.kill(int(each.parent.name), signal.SIGKILL)


def guards() -> set[Path]:
    """The directories of guards, those of other tests too."""
    return set(Path("/tmp").glob("ibkeys-guard-*"))
