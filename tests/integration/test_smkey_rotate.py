"""``smkey-rotate --via opensm`` with the real OpenSM: three SMs get new keys at once, and no key is ever lost."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ibkeys.keys.smkey import SMKey
from ibkeys.smkeys.key_holders import keys_in
from ibkeys.smkeys.recorded_changes import Changes
from ibkeys.store.journal import Journal
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.sm_keys import SmKeys, StoredSmKey
from tests.corpus import DATA
from tests.integration import opensms
from tests.integration.crashes import every_point, run_to_a_point
from tests.integration.hosted import RunningOpensm, left_over, opensm, running_until_the_end
from tests.integration.ibsim import RUN_TIMEOUT, Ibsim
from tests.integration.opensms import NodesOpensm
from tests.integration.sshd import Sshd
from tests.integration.strangers import NODES, stranger
from tests.integration.subnet import Subnet
from tests.integration.tenants import SM
from tests.sample import SOAK

OPTIONS = "sweep_interval 0\nsminfo_polling_timeout 1000\npolling_retry_number 5\n"
PARTS = 8
DEFAULT_LINES = "sm_key 0x0000000000000001\nsa_key 0x0000000000000001\n"


@pytest.fixture
def served(stack: ExitStack) -> Subnet:
    return stack.enter_context(Subnet(DATA / "fabrics" / "two-switch.net"))


def start(served: Subnet, stack: ExitStack, count: int = 3) -> list[NodesOpensm]:
    """Start OpenSMs: the first one is master, the others stand by."""
    found = []
    for number, (node, guid) in enumerate(list(NODES.items())[:count]):
        found.append(NodesOpensm(served, node, 9 - number, stack, "", guid, options=OPTIONS))
        found[-1].log.wait("SUBNET UP" if number == 0 else "ENTERING SM STANDBY STATE")
    return found


def stored(folder: Path) -> list[StoredSmKey]:
    with KeyStore(folder / "keys.db", create=False) as store:
        return SmKeys(store).rows()


def current(folder: Path) -> dict[str, SMKey]:
    return {row.kind: row.sm_key for row in stored(folder) if row.state == "current"}


def rotate(served: Ibsim, *words: Any) -> subprocess.CompletedProcess[str]:
    return served.ibkeys("smkey-rotate", "--via", "opensm", "--yes", *words)


def takes_the_default(served: Ibsim) -> bool:
    """Whether audit rule SM002 says so of the SA; OpenSMs of other tests are on this host too."""
    said = served.ibkeys("audit", "--check", "SM002", "--probe-sa", "-f", "json", "-t", 300).stdout
    assert "SM002" in said
    return "the SA accepts SM_Key 1" in said


@pytest.mark.soak
def test_three_sms_get_new_keys_and_the_next_master_has_them_too(served: Subnet, stack: ExitStack) -> None:
    running = start(served, stack)
    assert takes_the_default(served)
    for number in range(2):
        done = rotate(served)
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith("and there is one master\n")
        keys = current(served.folder / "stores")
        assert [keys_in(each.conf.read_bytes()) for each in running] == [keys] * 3
        assert {each.conf.stat().st_mode & 0o777 for each in running} == {0o600}
        assert sum(len(left_over(each.conf)) for each in running) == 0
        said = done.stdout + done.stderr + served.ibkeys("journal", number + 1).stdout
        with Journal(served.folder / "stores" / "journal.db") as journal:
            said += "".join(f"{entry.image.before!r}{entry.image.after!r}" for entry in journal.files(number + 1))
        assert not any(each.hex()[2:] in said.lower() for each in keys.values())
        assert "@sa_key:" in said
    assert not takes_the_default(served)
    running[0].process.kill()
    running[0].process.wait(RUN_TIMEOUT)
    running[1].log.wait("SUBNET UP", running[1].place("ENTERING SM MASTER STATE"))
    running[2].log.wait("STANDBY")
    assert not takes_the_default(served)
    assert not any("ENTERING SM MASTER STATE" in line for line in running[2].log.lines)
    undone = served.ibkeys("undo", "2", "--yes")
    assert (undone.returncode, "`ibkeys smkey-rotate" in undone.stderr) == (2, True)


def test_keys_of_files_and_what_the_output_shows_of_them(served: Subnet, stack: ExitStack, tmp_path: Path) -> None:
    start(served, stack, 1)
    given = {"sm_key": SMKey(0x83F1C05E9A2D7B46), "sa_key": SMKey(0x5E9A2D7B4683F1C0)}
    words = []
    for kind, key in given.items():
        path = tmp_path / kind
        path.touch(0o600)
        path.write_text(f"{key.hex()}\n")
        words += [f"--new-{kind.replace('_', '-')}", f"@{path}"]
    dry = served.ibkeys("smkey-rotate", "--dry-run", *words, "-K")
    assert (dry.returncode, dry.stdout.splitlines()[-1]) == (1, "dry run: nothing was changed")
    planned = json.loads(served.ibkeys("smkey-rotate", "--dry-run", *words, "-K", "-f", "json").stdout)
    assert (planned["dry_run"], planned["applied"], set(planned["keys"].values())) == (True, False, {None})
    assert [file["changes"] for file in planned["files"]] == [{"sm_key": "default", "sa_key": "default"}]
    refused = served.ibkeys("smkey-rotate", *words)
    assert (refused.returncode, "no terminal" in refused.stderr) == (4, True)
    assert not (served.folder / "stores" / "keys.db").exists() or stored(served.folder / "stores") == []
    done = rotate(served, *words, "-K")
    assert done.returncode == 0, done.stderr
    assert [f"{kind}: {key.hex()}" in done.stdout for kind, key in given.items()] == [True, True]
    assert current(served.folder / "stores") == given
    shown = dry.stdout + dry.stderr + json.dumps(planned) + refused.stdout + refused.stderr
    assert not any(key.hex()[2:] in shown for key in given.values())


def test_an_sm_whose_host_is_not_named_is_refused(served: Subnet, stack: ExitStack) -> None:
    [running] = start(served, stack, 1)
    before = running.conf.read_bytes()
    standby = stranger(served, stack, "node06 mlx4_0")
    done = rotate(served, "--override", "standby-differs")
    assert done.returncode == 4
    assert f"OpenSM (process {standby.pid}), which does not show its port: set guid" in done.stderr
    assert "an SM that keeps the former sm_key becomes a second master" in done.stderr
    assert running.conf.read_bytes() == before


@pytest.mark.parametrize("appears", [True, False])
def test_an_options_file_that_was_not_there_at_the_start_is_not_relied_on(
    served: Subnet, stack: ExitStack, appears: bool
) -> None:
    [running] = start(served, stack, 1)
    running.process.kill()
    running.process.wait(RUN_TIMEOUT)
    served.wait_until_no_sm()
    running.conf.unlink()
    same = RunningOpensm(served, running.words, running.policy, folder=running.conf.parent)
    stack.enter_context(running_until_the_end(same))
    if appears:
        running.conf.write_text(OPTIONS)
    done = rotate(served, "--wait", 1, "-t", 200, "--retries", 0)
    if appears:
        assert done.returncode == 3
        assert "every file has its former keys again" in done.stderr
        assert running.conf.read_text() == OPTIONS + DEFAULT_LINES
        assert current(served.folder / "stores") == {}
    else:
        assert done.returncode == 4
        assert "OpenSM reads only a file that exists when it starts" in done.stderr


def test_an_opensm_that_took_the_new_keys_has_the_default_again_after_a_rollback(
    served: Subnet, stack: ExitStack
) -> None:
    """OpenSM changes only options that have a line: with its former bytes it would keep the new keys."""
    master, standby = start(served, stack, 2)
    standby.process.kill()
    standby.process.wait(RUN_TIMEOUT)
    standby.conf.unlink()
    deaf, log = opensms.start(served, standby.words, standby.cache, standby.node)
    stack.callback(log.close)
    stack.callback(deaf.wait, RUN_TIMEOUT)
    stack.callback(deaf.kill)
    log.wait("ENTERING SM STANDBY STATE")
    standby.conf.write_text(OPTIONS)
    former = master.conf.read_text()
    done = rotate(served, "--wait", 1, "-t", 200, "--retries", 0)
    assert done.returncode == 3
    assert "every file has its former keys again" in done.stderr
    assert master.conf.read_text() == former + DEFAULT_LINES
    assert takes_the_default(served)
    assert "ENTERING SM MASTER STATE" not in "".join(log.lines)


def test_through_ssh(served: Subnet, stack: ExitStack, tmp_path: Path) -> None:
    running = stack.enter_context(opensm(served, "", words=("-g", f"{SM:#x}")))
    sshd = stack.enter_context(Sshd(tmp_path / "sshd"))
    settings = tmp_path / "sm.toml"
    settings.write_text('[here]\nunit = "no-such-unit"\n')  # the OpenSMs of this host are not looked at
    settings.chmod(0o600)
    conf = served.folder / "opensm.conf"
    words = ("--sm-host", "smhost", "--ssh-config", sshd.config, "--sm-config", settings)
    for _ in range(2 if SOAK else 1):
        done = rotate(served, *words)
        assert done.returncode == 0, done.stderr
        assert "opensm.conf on smhost: " in done.stdout
        assert keys_in(conf.read_bytes()) == current(served.folder / "stores")
        assert left_over(conf) == []
    assert "file " in served.ibkeys("journal", 1).stdout
    assert f"{conf} on smhost" in served.ibkeys("journal", 1).stdout
    assert running.process.poll() is None


# --- ibkeys dies ------------------------------------------------------------------------------------------------------


def driven(served: Subnet, preloaded: str, mode: str, point: int | str) -> int:
    """Run the command, or finish what it began, so that it counts its points, or dies at one; return how many it
    passed."""
    with Journal.read(served.folder / "stores" / "journal.db") as journal:
        command = "smkey-rotate" if Changes.on_subnet(journal).unfinished is None else "resume"
    words = [command, "--yes", "-t", 200, "--retries", 0]
    done, points = run_to_a_point(served, preloaded, served.folder / "stores", words, mode, point)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return points


def strays(stores: Path) -> set[int]:
    """Return the pending keys of changes that died before the journal had them."""
    with Journal.read(stores / "journal.db") as journal, KeyStore(stores / "keys.db", create=False) as store:
        own, keys = Changes.on_subnet(journal).own_keys, SmKeys(store)
        return {row.ref for row in keys.outline() if row.state == "pending" and keys.names()[row.ref] not in own}


def is_taken_back(served: Subnet) -> bool:
    """Take the change back that was begun; return whether it was, and not refused, for a file has the keys."""
    with Journal.read(served.folder / "stores" / "journal.db") as journal:
        begun = Changes.on_subnet(journal).unfinished
    if begun is None:  # it died before that was there, or after it was closed: the next change goes on with its keys
        return False
    done = served.ibkeys("undo", str(begun.id), "--yes")
    assert done.returncode == 0 or "can only be finished" in done.stderr, done.stderr
    return done.returncode == 0


def test_killed_before_the_first_file_it_goes_back(served: Subnet, stack: ExitStack, preloaded: str) -> None:
    [running] = start(served, stack, 1)
    stores, before = served.folder / "stores", running.conf.read_bytes()
    driven(served, preloaded, "kill", "before the first file")
    assert left_over(running.conf) != []
    refused = rotate(served)
    assert (refused.returncode, "`ibkeys resume 1` finishes it" in refused.stderr) == (4, True)
    dry = served.ibkeys("undo", "--dry-run")
    assert (dry.returncode, dry.stdout.startswith("dry run: the new keys would be given up")) == (1, True)
    done = served.ibkeys("undo", "--yes")
    assert (done.returncode, "was undone: no file" in done.stdout) == (0, True), done.stderr
    assert (running.conf.read_bytes(), left_over(running.conf)) == (before, [])
    assert {row.state for row in stored(stores)} == {"former"}
    with Journal.read(stores / "journal.db") as journal:
        assert [each.state for each in journal.list_operations()] == ["undone"]
    assert rotate(served).returncode == 0


def test_killed_before_the_first_signal_it_can_only_be_finished(
    served: Subnet, stack: ExitStack, preloaded: str
) -> None:
    [running] = start(served, stack, 1)
    driven(served, preloaded, "kill", "before the first signal")
    written = running.conf.read_bytes()
    refused = served.ibkeys("undo", "1", "--yes")
    assert (refused.returncode, "can only be finished, by `ibkeys resume 1`" in refused.stderr) == (4, True)
    done = served.ibkeys("resume", "--yes")
    assert (done.returncode, done.stdout.endswith("and there is one master\n")) == (0, True), done.stderr
    assert (running.conf.read_bytes(), keys_in(written)) == (written, current(served.folder / "stores"))
    refused = served.ibkeys("undo", "1", "--yes")
    assert (refused.returncode, "`ibkeys smkey-rotate --via opensm` makes new ones" in refused.stderr) == (2, True)


@pytest.mark.soak
@pytest.mark.parametrize("way_on", ["resume", "undo"])
@pytest.mark.parametrize("part", range(PARTS))
def test_killed_at_any_point_it_is_finished_or_taken_back(
    served: Subnet, stack: ExitStack, preloaded: str, way_on: str, part: int
) -> None:
    [running] = start(served, stack, 1)
    stores = served.folder / "stores"
    points = driven(served, preloaded, "count", 0)
    assert points > 60
    for point in every_point(points, part, PARTS):
        before = current(stores)
        driven(served, preloaded, "kill", point)
        rows, left = stored(stores), strays(stores)
        assert {*keys_in(running.conf.read_bytes()).values()} <= {row.sm_key for row in rows if row.ref not in left}
        was_begun = any(row.state == "pending" for row in rows if row.ref not in left)
        if was_begun and way_on == "undo" and is_taken_back(served):
            assert (keys_in(running.conf.read_bytes()), left_over(running.conf)) == (before, [])
            assert current(stores) == before
            assert {row.ref for row in stored(stores) if row.state == "pending"} == left
            continue
        driven(served, preloaded, "off", 0)
        assert keys_in(running.conf.read_bytes()) == current(stores)
        assert left_over(running.conf) == []
        assert len(stored(stores)) == (len(rows) if was_begun else len(rows) + 2)
        assert current(stores) != before
        assert {row.ref for row in stored(stores) if row.state == "pending"} == left
    with Journal(stores / "journal.db") as journal:
        assert {each.state for each in journal.list_operations()} <= {"done", "undone"}
