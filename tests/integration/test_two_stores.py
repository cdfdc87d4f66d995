"""Two administrators with two stores and a real OpenSM: the second is told who works there, or was cut off there."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ibkeys.host.host_lock import find_lock, lock_file
from tests.corpus import DATA
from tests.integration.hosted import BLUNT, opensm, plan_for
from tests.integration.ibsim import RUN_TIMEOUT, Ibsim
from tests.integration.keyed_opensm import CLOSED, keyed
from tests.integration.opensms import NodesOpensm
from tests.integration.other_host import OtherHost
from tests.integration.sshd import Sshd
from tests.integration.strangers import NODES
from tests.integration.subnet import Subnet
from tests.integration.tenants import BY_GUID, BY_GUID_GREEN, GREEN, SM, TENANTS
from tests.integration.waiting import Waiting
from tests.sample import in_soak

NET = DATA / "fabrics" / "two-switch.net"
WHO = r"\S.* at \S+, by `{}` since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC, process {}, "
TAKE_OVER = ("--override", "stale-lock")


def as_bert(served: Ibsim, *words: str | Path) -> tuple[int, str]:
    """Run a command of an administrator with stores of his own; return its exit code and what it said."""
    stores = served.folder / "stores"
    command = served.ibkeys_command(*words)
    command[command.index(str(stores))] = str(stores.with_name("bert"))
    done = served.run(command, timeout=300)
    return done.returncode, done.stdout + done.stderr


def begun(stack: ExitStack, served: Ibsim, *words: str | Path) -> Waiting:
    """Begin a change, and return when all is written and it waits for its confirmation."""
    waiting = Waiting(served, *words, "--confirm-within", "600")
    stack.callback(lambda: waiting.process.poll() is None and waiting.die_with_child())
    waiting.hear()
    return waiting


def is_held(path: Path) -> bool | None:
    found = find_lock(path)
    return None if found is None else found.is_held


def assert_told(told: tuple[int, str], path: Path, words: str) -> None:
    code, said = told
    assert code == 4, said
    assert re.search(f"{re.escape(str(lock_file(path)))}: {words}", said), said


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.soak
def test_an_apply_locks_the_hosts_of_master_and_standby(stack: ExitStack) -> None:
    served = stack.enter_context(Subnet(NET))
    first, second = [*NODES][:2]
    master = NodesOpensm(served, first, 9, stack, BY_GUID, NODES[first])
    master.log.wait("SUBNET UP")  # two that start at once may both be master, and without sweeps stay so
    standby = NodesOpensm(served, second, 8, stack, BY_GUID, NODES[second])
    stands_by = standby.place("ENTERING SM STANDBY STATE")
    plan_for(served, BY_GUID_GREEN)
    plan = served.folder / "plan.json"
    apply = ("apply", plan, "--allow-removals", *BLUNT)
    waiting = begun(stack, served, *apply)
    confs = master.conf, standby.conf
    assert [is_held(conf) for conf in confs] == [True, True]
    by_anna = WHO.format("apply", waiting.process.pid)
    again = (*apply, "--via", "opensm", "--yes")
    assert_told(as_bert(served, *again, *TAKE_OVER), master.conf, f"{by_anna}is changing something")
    _, said = as_bert(served, *again, "--dry-run")
    assert "nothing to change" in said, said
    children = Path(f"/proc/{waiting.process.pid}/task/{waiting.process.pid}/children").read_text().split()
    waiting.process.kill()
    waiting.process.wait(RUN_TIMEOUT)
    assert [is_held(conf) for conf in confs] == [False, False], "the child that waits does not hold it"
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    waiting.wait()
    assert_told(as_bert(served, *again), master.conf, f"{by_anna}was cut off")
    master.process.kill()
    master.process.wait(RUN_TIMEOUT)
    standby.log.wait("SUBNET UP", standby.place("ENTERING SM MASTER STATE", stands_by))
    assert_told(as_bert(served, *again), standby.conf, f"{by_anna}was cut off")
    plan_for(served, BY_GUID)
    code, said = as_bert(served, *again, *TAKE_OVER)
    assert code == 0, said
    assert [is_held(conf) for conf in confs] == [False, None], "what is on the host of no SM is nobody's business"


def test_a_key_run_is_told_of_and_goes_on_without_the_override(stack: ExitStack) -> None:
    keys = stack.enter_context(keyed(NET))
    served = keys.served
    waiting = begun(stack, served, "mkey-deploy", *CLOSED)
    by_anna = WHO.format("mkey-deploy", waiting.process.pid)
    text = lock_file(keys.conf).read_bytes()
    assert text.count(b"\n") == 1
    assert not [port for port in keys.end_ports() if f"{port.m_key:x}".encode() in text]
    code, said = as_bert(served, "keystore", "import", served.folder, "--opensm-conf", keys.conf)
    assert code == 0, said
    for words in (("smkey-rotate", *TAKE_OVER), ("harden",)):
        told = as_bert(served, *words, "--via", "opensm", "--yes")
        assert_told(told, keys.conf, f"{by_anna}is changing something")
    waiting.die_with_child()
    assert_told(as_bert(served, "smkey-rotate", "--via", "opensm", "--yes"), keys.conf, f"{by_anna}was cut off")
    said = served.ibkeys("doctor").stdout
    assert re.search(f"PROBLEM +OpenSM lock +{re.escape(str(lock_file(keys.conf)))}: {by_anna}was cut off", said), said
    code, said = keys.ibkeys("undo")
    assert code == 0, said
    assert is_held(keys.conf) is None
    assert "OpenSM lock" not in served.ibkeys("doctor").stdout
    code, said = as_bert(served, "smkey-rotate", "--via", "opensm", "--yes")
    assert code == 0, said
    assert is_held(keys.conf) is None


@pytest.mark.parametrize("how", [in_soak("apply"), "confirm", in_soak("overtaken")])
def test_what_ends_a_killed_change_removes_its_lock(stack: ExitStack, how: str) -> None:
    if how == "apply":
        served = stack.enter_context(Subnet(NET))
        stack.enter_context(opensm(served, BY_GUID, words=("-g", f"{SM:#x}")))
        conf = served.folder / "opensm.conf"
        plan_for(served, BY_GUID_GREEN)
        waiting = begun(stack, served, "apply", served.folder / "plan.json", "--allow-removals", *BLUNT)
    else:
        keys = stack.enter_context(keyed(NET))
        served, conf = keys.served, keys.conf
        waiting = begun(stack, served, "mkey-deploy", *CLOSED)
    end = ("confirm", "1")
    waiting.die_with_child()
    assert is_held(conf) is False
    if how == "overtaken":
        conf.write_text(re.sub(r"^(m_key_lease_period) .*$", r"\1 300", conf.read_text(), flags=re.MULTILINE))
        end = ("resume", "--overtaken", "--yes")
    done = served.ibkeys(*end)
    assert done.returncode == 0, done.stderr
    assert is_held(conf) is None


@pytest.mark.soak
def test_an_undo_typed_again_leaves_the_hardening_of_another_administrator(stack: ExitStack) -> None:
    keys = stack.enter_context(keyed(NET, "sweep_interval 3\npart_enforce off\n"))
    served = keys.served
    served.folder.chmod(0o755)
    assert keys.ibkeys("harden")[0] == 1  # findings remain that it cannot fix
    assert keys.ibkeys("undo", "3")[0] == 0
    assert as_bert(served, "keystore", "import", served.folder, "--opensm-conf", keys.conf)[0] == 0
    code, said = as_bert(served, "harden", "--via", "opensm", "--yes")
    assert code == 1, said
    text = keys.conf.read_text()
    assert "\npart_enforce both\n" in text
    code, said = keys.ibkeys("undo", "3")
    assert code == 3, said
    assert "operation 3 (harden) has already been undone by operation 6" in said
    assert keys.conf.read_text() == text


@pytest.mark.soak
def test_a_lock_on_another_host_is_told_of(stack: ExitStack, tmp_path: Path) -> None:
    served = stack.enter_context(Subnet(NET))
    running = stack.enter_context(opensm(served, TENANTS, words=("-g", f"{SM:#x}")))
    other = OtherHost(served, running, stack.enter_context(Sshd(tmp_path / "sshd")), tmp_path)
    conf = served.folder / "opensm.conf"
    process = stack.enter_context(other.start("--confirm-within", 600))
    assert process.stderr is not None
    while "rolling back in 600 s" not in process.stderr.readline():
        assert process.poll() is None
    assert is_held(conf)
    apply = ("apply", other.plan, "--via", "opensm", "--allow-removals", "--yes")
    by_anna = WHO.format("apply", process.pid)
    for reached in (other.options, ()):
        assert_told(as_bert(served, *apply, *reached), conf, f"{by_anna}is changing something")
    done = served.ibkeys("confirm", "1")
    assert done.returncode == 0, done.stderr
    process.communicate(timeout=RUN_TIMEOUT)
    assert process.returncode == 0
    assert running.policy.read_text() == GREEN
    assert is_held(conf) is None
