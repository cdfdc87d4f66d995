"""The policy file is in the hands of others too: edits, links, mounts, other users, no file at all."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ibkeys.mad.const import AttributeID, Method
from ibkeys.sim.server.outbox import PassedMad
from tests.corpus import DATA
from tests.integration.hosted import (
    BLUNT,
    Hosted,
    RunningOpensm,
    facts,
    left_over,
    opensm,
    plan_for,
    planned,
    running_until_the_end,
    undo,
    via,
)
from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.simulated import AS_NOBODY, NOBODY
from tests.integration.tenants import GREEN, TENANTS
from tests.mounts import needs_mounts
from tests.owners import give_away
from tests.sample import in_soak, sampled

MORE = TENANTS + "More=0x50 : ALL=limited ;\n"
THEIRS = TENANTS.replace("Red=0x10", "Theirs=0x12")
APPLY = ("--via", "opensm", "--allow-removals", *BLUNT)


def states(served: Hosted) -> list[str]:
    done = served.ibkeys("journal", "-f", "json")
    assert done.returncode == 0, done.stderr
    return [each["state"] for each in sorted(json.loads(done.stdout)["operations"], key=lambda each: int(each["id"]))]


def there_and_back(served: Hosted, running: RunningOpensm) -> None:
    """Apply GREEN and undo it: the wire as planned, then wire and file as before."""
    wire, file = served.wire(), facts(running.policy)
    plan = plan_for(served, GREEN)
    done = via(served)
    assert done.returncode == 0, done.stdout + done.stderr
    assert served.wire() == planned(plan, wire)
    now = facts(running.policy)
    assert now is not None
    assert now[0] == GREEN.encode()
    assert file is None or now[1:] == file[1:]
    done = undo(served)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (served.wire(), facts(running.policy)) == (wire, file)
    assert left_over(running.policy) == []


# --- edits ------------------------------------------------------------------------------------------------------------


def test_an_edit_before_undo_is_shown_and_stays(served: Hosted) -> None:
    with opensm(served, TENANTS) as running:
        plan_for(served, GREEN)
        assert via(served).returncode == 0
        running.policy.write_text(GREEN.replace("Green=0x11", "Mine=0x13"))
        wire, file = served.wire(), facts(running.policy)
        done = undo(served)
        assert done.returncode == 4, done.stdout + done.stderr
        assert "stale" in done.stderr
        assert "-Green=0x11" in done.stderr
        assert "+Mine=0x13" in done.stderr
        assert (served.wire(), facts(running.policy)) == (wire, file)
        assert (states(served), left_over(running.policy)) == (["done"], [])


def test_an_edit_between_plan_and_apply_that_opensm_has_read_is_shown_and_stays(served: Hosted) -> None:
    """No live port shows it: a host that is away, the MTU of a group."""
    with opensm(served, TENANTS) as running:
        plan_for(served, GREEN)
        theirs = TENANTS.replace("Blue=0x20", "Blue=0x20, mtu=5").replace(" ;", ", 0x77=full ;", 1)
        running.give(theirs.encode())
        wire, file = served.wire(), facts(running.policy)
        done = via(served)
        assert done.returncode == 4, done.stdout + done.stderr
        assert "was changed after the plan was made" in done.stderr
        assert "mtu=5" in done.stderr
        assert (served.wire(), facts(running.policy), states(served)) == (wire, file, [])
        plan_for(served, GREEN)
        done = via(served)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_plan_of_an_edit_that_nobody_has_read_is_refused_with_the_way_to_let_it_be_read(served: Hosted) -> None:
    """The ports drift from such a policy: that is not the first thing to be said."""
    with opensm(served, TENANTS) as running:
        edited = TENANTS + "Hand=0x70 : 0x2c903000a1061=full ;\n"
        running.policy.write_text(edited)
        os.utime(running.policy, (time.time() + 60,) * 2)
        plan_for(served, edited)
        refused = via(served, served.folder / "plan.json")
        assert refused.returncode == 4
        assert f"refused by interlock stale: {running.policy}: changed after the last heavy sweep" in refused.stderr
        assert "`ibkeys policy-check`" in refused.stderr
        os.utime(running.policy)
        running.sweep()
        done = via(served, served.folder / "plan.json")
        assert done.returncode == 0, done.stderr


def replace(policy: Path, text: str) -> None:
    beside = policy.with_name("generated")
    beside.write_text(text)
    beside.replace(policy)


def write_over(policy: Path, text: str) -> None:
    policy.write_text(text)


class AtFirstSet:
    """Does something when the first table is written."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.work: Callable[[], None] | None = work

    def __call__(self, seen: PassedMad) -> None:
        is_set = seen.mad[3] == Method.SET and int.from_bytes(seen.mad[16:18], "big") == AttributeID.P_KEY_TABLE
        if self.work is not None and seen.out and is_set:
            work, self.work = self.work, None
            work()


@pytest.mark.parametrize("text", [GREEN, in_soak(MORE)], ids=["in between", "at the end"])
@pytest.mark.parametrize("write", [replace, write_over])
def test_a_policy_that_is_generated_again_meanwhile_stays(
    served: Hosted, write: Callable[[Path, str], None], text: str
) -> None:
    with opensm(served, TENANTS) as running:
        plan_for(served, text)
        generator = AtFirstSet(lambda: write(running.policy, THEIRS))
        served.watchers = [generator]
        done = via(served)
        assert generator.work is None
        assert done.returncode == 4, done.stdout + done.stderr
        assert "another user or program" in done.stderr
        assert running.policy.read_text() == THEIRS
        assert states(served) == ["open"]
        wire = served.wire()
        done = undo(served)
        assert done.returncode == 4, done.stdout + done.stderr
        assert "+Theirs=0x12" in done.stderr
        assert (served.wire(), running.policy.read_text()) == (wire, THEIRS)
        assert left_over(running.policy) == []


# --- links and mounts -------------------------------------------------------------------------------------------------


def test_a_symbolic_link_is_followed_and_stays(served: Hosted) -> None:
    real, link = served.folder / "elsewhere" / "real.conf", served.folder / "partitions.conf"
    real.parent.mkdir()
    real.write_text(TENANTS)
    give_away(real)
    link.symlink_to("elsewhere/real.conf")
    with opensm(served, None, policy=link) as running:
        there_and_back(served, running)
        assert os.readlink(link) == "elsewhere/real.conf"
        assert left_over(real) == []


@contextmanager
def opensm_inside(served: Hosted, mounts: str, policy: Path | None) -> Iterator[RunningOpensm]:
    """Run OpenSM in a mount namespace of its own; without a *policy* all its files are those by default."""
    words = ["-P", policy] if policy is not None else []
    before = ("unshare", "--mount", "sh", "-ec", f'{mounts}\nexec "$@"', "sh")
    running = RunningOpensm(served, ["opensm", "-f", "stdout", "-D", "0x07", *words], policy or Path(), before)
    with running_until_the_end(running):
        yield running


def inside(served: Hosted, running: RunningOpensm, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run ibkeys in the mount namespace of OpenSM, with nobody to answer a question."""
    enter = ["nsenter", f"--target={running.process.pid}", "--mount", "--root", f"--wd={served.folder}"]
    return subprocess.run(
        [*enter, *served.arguments(served.ibkeys_command(*words))],
        env=served.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT,
    )


MOUNTS = {
    "a read-only folder": ("mount --bind {0} {0}\nmount -o remount,ro,bind {0}", "read-only"),
    "a file that is a mount": ("mount --bind {0}/source {0}/partitions.conf", "mount point"),
}


@needs_mounts
@pytest.mark.parametrize("name", sampled(MOUNTS, ["a file that is a mount"]))
def test_what_cannot_be_replaced_is_refused_before_anybody_is_asked(served: Hosted, name: str) -> None:
    mounts, reason = MOUNTS[name]
    folder = served.folder / "etc"
    folder.mkdir()
    for each in ("source", "partitions.conf"):
        (folder / each).write_text(TENANTS)
    with opensm_inside(served, mounts.format(folder), folder / "partitions.conf") as running:
        plan_for(served, GREEN)
        wire = served.wire()
        done = inside(served, running, "apply", served.folder / "plan.json", *APPLY)
        assert done.returncode == 4, done.stdout + done.stderr
        assert reason in done.stderr
        assert "nothing was changed" in done.stderr
        assert done.stdout == ""
        assert served.wire() == wire
        assert [(folder / each).read_text() for each in sorted(os.listdir(folder))] == [TENANTS, TENANTS]
        assert states(served) == []


@needs_mounts
def test_a_file_that_only_opensm_sees_by_that_name_is_not_touched(served: Hosted) -> None:
    folder = served.folder / "etc"
    folder.mkdir()
    for each in ("source", "partitions.conf"):
        (folder / each).write_text(TENANTS)
    mount = f"mount --bind {folder}/source {folder}/partitions.conf"
    with opensm_inside(served, mount, folder / "partitions.conf"):
        plan_for(served, GREEN)
        wire = served.wire()
        done = via(served)
        assert done.returncode == 3, done.stdout + done.stderr
        assert "a different file of that name" in done.stderr
        assert (served.wire(), states(served)) == (wire, [])
        assert [(folder / each).read_text() for each in sorted(os.listdir(folder))] == [TENANTS, TENANTS]


@needs_mounts
def test_opensm_with_all_defaults_and_no_options_file(served: Hosted) -> None:
    (served.folder / "tenants").write_text(TENANTS)
    mount = f"mount -t tmpfs none /etc/opensm\ncp {served.folder}/tenants /etc/opensm/partitions.conf"
    with opensm_inside(served, mount, None) as running:
        policy = Path(f"/proc/{running.process.pid}") / "root" / "etc/opensm/partitions.conf"
        plan = plan_for(served, GREEN)
        wire, file = served.wire(), facts(policy)
        done = inside(served, running, "apply", served.folder / "plan.json", *APPLY, "--yes")
        assert done.returncode == 0, done.stdout + done.stderr
        assert (served.wire(), policy.read_text()) == (planned(plan, wire), GREEN)
        done = inside(served, running, "undo", "1", "--yes", *BLUNT)
        assert done.returncode == 0, done.stdout + done.stderr
        assert (served.wire(), facts(policy), os.listdir(policy.parent)) == (wire, file, [policy.name])


@pytest.mark.soak
def test_opensm_whose_options_file_is_not_there(served: Hosted) -> None:
    policy = served.folder / "partitions.conf"
    policy.write_text(TENANTS)
    words = ["opensm", "-f", "stdout", "-D", "0x07", "-F", served.folder / "none.conf", "-P", policy]
    running = RunningOpensm(served, words, policy)
    with running_until_the_end(running):
        there_and_back(served, running)


# --- users, and no file -----------------------------------------------------------------------------------------------


OF_NOBODY = """mount --rbind /dev /mnt
mount -t tmpfs none /dev
for each in null zero random urandom; do touch /dev/$each; mount --bind /mnt/$each /dev/$each; done
mkdir /dev/infiniband /dev/shm
mount --bind /mnt/shm /dev/shm
touch /dev/infiniband/umad0
chown {0} /dev/infiniband/umad0"""
"""A mount namespace in which a umad device belongs to nobody. The files of the test may lie in /dev/shm."""


@needs_mounts
@pytest.mark.parametrize("mounts", [OF_NOBODY, ":"], ids=["who may use the fabric", "who may not"])
def test_an_opensm_of_another_user(mounts: str) -> None:
    """Anybody may call a program opensm: only that of a user to whom a umad device belongs is taken for one."""
    with Hosted(DATA / "fabrics" / "two-switch.net", allow_others=True) as served:
        served.folder.chmod(0o755)
        theirs = served.folder / "theirs"
        theirs.mkdir()
        policy = theirs / "partitions.conf"
        policy.write_text(TENANTS)
        for each in (theirs, policy):
            os.chown(each, NOBODY, NOBODY)
        script = f'{mounts.format(NOBODY)}\nexec "$@"'
        words = ["opensm", "-f", "stdout", "-D", "0x07", "-P", policy]
        there = ("unshare", "--mount", "sh", "-ec", script, "sh", *AS_NOBODY)
        running = RunningOpensm(served, words, policy, there, theirs)
        with running_until_the_end(running):
            assert os.stat(f"/proc/{running.process.pid}").st_uid == NOBODY
            plan = plan_for(served, GREEN)
            wire, file = served.wire(), facts(policy)
            assert file is not None
            assert file[2:] == (NOBODY, NOBODY)
            done = inside(served, running, "apply", served.folder / "plan.json", *APPLY, "--yes")
            if mounts == ":":
                assert done.returncode == 4, done.stdout + done.stderr
                assert "not known to be one of the OpenSMs" in done.stderr
            else:
                assert done.returncode == 0, done.stdout + done.stderr
                assert (served.wire(), facts(policy)) == (planned(plan, wire), (GREEN.encode(), *file[1:]))
                done = inside(served, running, "undo", "1", "--yes", *BLUNT)
                assert done.returncode == 0, done.stdout + done.stderr
            assert (served.wire(), facts(policy)) == (wire, file)


def test_no_policy_file_before_is_no_file_after_undo(served: Hosted) -> None:
    with opensm(served, None) as running:
        assert not running.policy.exists()
        there_and_back(served, running)
        assert not running.policy.exists()
        assert states(served) == ["undone", "done"]


# --- enforcement ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [(0, 0), (1, 0)])
def test_enforcement_that_opensm_switched_on_with_the_change_stays_on(served: Hosted, before: tuple[int, int]) -> None:
    with opensm(served, TENANTS) as running:
        wire, file = served.wire(), facts(running.policy)
        leaf = served.net.port("node02 mlx4_0", 1).peer
        assert leaf is not None
        leaf.inbound_enforcement, leaf.outbound_enforcement = before
        plan_for(served, MORE)
        done = via(served)
        assert done.returncode == 0, done.stdout + done.stderr
        done = undo(served, "--wait", "5")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "the former enforcement is not restored" in done.stderr
        assert (served.wire(), facts(running.policy)) == (wire, file)
        assert states(served) == ["undone", "done"]
