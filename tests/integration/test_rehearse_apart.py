"""A rehearsal is apart from its host: it can neither load, write nor listen there, and leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ibkeys.managers.opensm.process import opensm_processes
from ibkeys.rehearse.bundle import Bundle, bundle_bytes
from tests.integration.hosted import BLUNT, plan_for, undo, via
from tests.integration.ibsim import RUN_TIMEOUT, ibkeys, ibkeys_environment
from tests.integration.rehearsing import KEYED, MOST, site
from tests.integration.simulated import AS_NOBODY, needs_root
from tests.integration.tenants import GREEN
from tests.sample import sampled

pytestmark = pytest.mark.integration


def test_options_can_neither_load_nor_write_nor_listen(tmp_path: Path) -> None:
    with site() as here:
        here.conf.write_text(
            f"event_plugin_name {tmp_path}/evil.so\nlog_file {tmp_path}/log\ndump_files_dir {tmp_path}\n"
            f"event_db_dump_file {tmp_path}/events\nsa_db_dump TRUE\nconsole loopback\ndaemon TRUE\nperfmgr TRUE\n"
        )
        pidfile = f"--pidfile {tmp_path}/pid -B -f {tmp_path}/other"
        command = f"opensm -F {here.conf} -P {here.running.policy} {pidfile}"
        code, document, errors = here.rehearse("--now", opensm=command)
        assert (code, document["verdict"]) == (0, "identical"), errors
        assert os.listdir(tmp_path) == []


@needs_root
def test_a_user_without_any_privilege_can_rehearse(tmp_path: Path) -> None:
    with site() as here:
        words = ["rehearse", "--now", "--from", "/dev/stdin", "--opensm", "opensm", "-f", "json"]
        copy = Path(f"/dev/shm/rehearse-{os.getpid()}.db")
        copy.write_bytes(here.snapshot.read_bytes())
        copy.chmod(0o644)
        try:
            words[words.index("/dev/stdin")] = str(copy)
            done = subprocess.run(
                [*AS_NOBODY, sys.executable, "-m", "ibkeys", *words],
                env=ibkeys_environment(),
                cwd="/",
                capture_output=True,
                text=True,
                timeout=MOST,
                check=False,
            )
        finally:
            copy.unlink()
        assert done.returncode == 1, done.stderr  # Without the policy every port is a full member.
        assert {each["cause"] for each in json.loads(done.stdout)["at_start"]} >= {"no-policy"}


MOMENTS = [0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0]


@pytest.mark.parametrize("seconds", sampled(MOMENTS, [3.0]))
def test_a_rehearsal_that_is_killed_leaves_nothing_and_nobody_sees_its_opensm(seconds: float, tmp_path: Path) -> None:
    with site() as here:
        plan_for(here.served, GREEN)
        mark = f"opensm -F {here.conf} -P {here.running.policy}"
        words = [
            "rehearse",
            here.plan,
            "--journal",
            here.journal,
            "--allow-removals",
            *BLUNT,
            "--from",
            here.snapshot,
            "--opensm",
            mark,
        ]
        process = subprocess.Popen(
            [sys.executable, "-m", "ibkeys", *map(str, words)],
            env={**ibkeys_environment(), "TMPDIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        with process.stdout:
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and process.poll() is None:
                assert [each for each in opensm_processes() if each.config == Path("/mnt/opensm.conf")] == []
            process.send_signal(signal.SIGKILL)
            process.wait(RUN_TIMEOUT)
            process.stdout.read()  # Ends when every process that inherited it has ended.
        assert os.listdir(tmp_path) == []
        assert here.served.ibkeys("pkey-show", "--all").returncode == 0


def test_a_bundle_has_no_key_and_is_rehearsed_elsewhere(tmp_path: Path) -> None:
    with site(conf=KEYED + "sm_key 0x99aabbccddeeff01\n") as here:
        policy, bundle = here.served.folder / "new.conf", tmp_path / "site.bundle"
        policy.write_text(GREEN)
        command = f"opensm -F {here.conf} -P {here.running.policy} -k 0x77aabbccddeeff77"
        done = ibkeys(
            *("rehearse", "--pack", bundle, "--from", here.snapshot, "--opensm", command),
            env={**ibkeys_environment(), "OSM_CACHE_DIR": str(here.served.folder)},
            timeout=MOST,
        )
        assert (done.returncode, "partition_config_file" in done.stdout) == (0, True), done.stderr
        data = bundle.read_bytes()
        for key in ("1122334455667788", "99aabbccddeeff01", "77aabbccddeeff77"):
            assert key.encode() not in data.lower()
            assert bytes.fromhex(key) not in data
        words = ("--from", bundle, "--journal", here.journal, "--allow-removals", *BLUNT, "--policy", policy)
        done = ibkeys("rehearse", "-f", "json", *words, env=ibkeys_environment(), timeout=MOST)
        document = json.loads(done.stdout)
        assert (document["verdict"], document["at_start"]) == ("identical", []), done.stderr
        assert document["opensm"]["source"] == "packed"


@pytest.mark.soak
def test_a_hostile_bundle_can_neither_load_nor_write_nor_read_outside_its_folder(tmp_path: Path) -> None:
    """Its options name a plugin, outputs, and a policy of this host; an option that OpenSM lacks is refused."""
    marker = tmp_path / "policy.conf"
    marker.write_text("Default=0x7fff : ALL=full ;\nfound=0x1234 : ALL=full ;\n")
    with site() as here:
        options = (
            f"event_plugin_name {tmp_path}/evil.so\nlog_file {tmp_path}/log\ndump_files_dir {tmp_path}\n"
            f"event_db_dump_file {tmp_path}/events\nsa_db_dump TRUE\nconsole loopback\ndaemon TRUE\n"
            f"partition_config_file {marker}\nroot_guid_file ../../../../etc/passwd\n"
        )
        for text, code in ((options, 1), (options + "no_such_option 1\n", 2)):
            found = Bundle("/no/such/opensm", ("--x",), text.encode(), {}, here.snapshot.read_bytes())
            (here.served.folder / "evil.bundle").write_bytes(bundle_bytes(found))
            words = ("rehearse", "--now", "--from", here.served.folder / "evil.bundle", "-f", "json")
            done = ibkeys(*words, env=ibkeys_environment(), timeout=MOST)
            assert done.returncode == code, done.stderr
            assert "0x9234" not in done.stdout
        assert "no_such_option" in done.stderr
        assert os.listdir(tmp_path) == ["policy.conf"]


@pytest.mark.soak
def test_names_of_nodes_lead_nowhere(tmp_path: Path) -> None:
    with site() as here:
        names = ("..", "../../../../tmp/evil", "$(touch evil)", "a\nb\x1b[31m", "/etc/passwd")
        for node, name in zip(here.served.net.nodes, names, strict=False):
            node.description_bytes = name.encode().ljust(64, b"\0")
        here.take_snapshot()
        before = sorted(os.listdir("/tmp"))
        code, document, errors = here.rehearse("--now")
        assert (code, document["verdict"]) == (0, "identical"), errors
        assert not [each for each in sorted(os.listdir("/tmp")) if each not in before and "evil" in each]
        assert os.listdir(tmp_path) == []
        assert "\x1b" not in errors


def looked_at(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Return the bytes, mode and time of change of each file in *folder*."""
    files = (each for each in folder.iterdir() if each.is_file())
    return {each.name: (each.read_bytes(), each.stat().st_mode, each.stat().st_mtime_ns) for each in files}


@pytest.mark.soak
def test_two_rehearsals_at_once_and_a_real_change_beside_them(tmp_path: Path) -> None:
    """What runs on the fabric neither sees the copies nor disturbs them."""
    with site() as here:
        plan_for(here.served, GREEN)

        def seen() -> object:
            """Return the OpenSMs on this host that sm-show finds. Other tests may run some that doctor finds, too."""
            managers = json.loads(here.served.ibkeys("sm-show", "-f", "json").stdout)
            assert "/mnt/" not in here.served.ibkeys("doctor", "-f", "json").stdout
            return [[each["pid"] for each in host["instances"]] for host in managers["hosts"]]

        before, files = seen(), looked_at(here.served.folder)
        words = ["rehearse", here.plan, "--allow-removals", *BLUNT, "--from", here.snapshot, "-f", "json"]
        command = f"opensm -F {here.conf} -P {here.running.policy}"
        both = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "ibkeys",
                    *map(str, words),
                    "--journal",
                    tmp_path / f"{name}.db",
                    "--opensm",
                    command,
                ],
                env=ibkeys_environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for name in ("one", "two")
        ]
        for each in both:
            assert each.stderr is not None
            while "makes the change" not in (line := each.stderr.readline()):
                assert line, "it ended early"
        assert seen() == before
        assert looked_at(here.served.folder) == files
        assert via(here.served).returncode == 0
        for each in both:
            output, errors = each.communicate(timeout=MOST)
            assert json.loads(output)["verdict"] == "identical", errors
        assert undo(here.served).returncode == 0
        assert seen() == before
