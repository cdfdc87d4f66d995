"""The method that ``--via auto`` chooses, beside the real OpenSM: each row of its table, and what a choice binds.

The fabric is one and the same. An OpenSM of "another host" is one that sm.toml hides on this host; the ssh of these
tests leads to it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from ibkeys.change.method import STATES
from ibkeys.mad.const import SMState
from ibkeys.plan.document_reader import read_plan
from tests.corpus import DATA
from tests.integration.hosted import BLUNT, Hosted
from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.opensms import NodesOpensm
from tests.integration.polling import wait_until
from tests.integration.sshd import Sshd
from tests.integration.tenants import BY_GUID, BY_GUID_GREEN

FIRST, SECOND = "node01 mlx4_0", "node05 mlx4_0"
GUIDS = {FIRST: 0x2C903000A1011, SECOND: 0x2C903000A1051}
SM = ("--sm-guid", f"{GUIDS[FIRST]:#x}")
Words = tuple[str | Path, ...]


class Site:
    """A subnet with a plan, whose OpenSMs come and go. ``hidden``: options by which this host shows no OpenSM."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.served = stack.enter_context(Hosted(DATA / "fabrics" / "two-switch.net"))
        self._folder, self._stack = folder, stack
        settings = folder / "sm.toml"
        settings.write_text('[here]\nunit = "no-such-unit"\n')
        settings.chmod(0o600)
        self.hidden: Words = ("--sm-config", settings)

    def named(self) -> Words:
        """Return the options by which the OpenSMs of this host are found on another one."""
        sshd = self._stack.enter_context(Sshd(self._folder / "sshd"))
        return (*self.hidden, "--ssh-config", sshd.config, "--sm-host", "smhost")

    def start(self, node: str, priority: int = 3, options: str = "") -> NodesOpensm:
        """Start an OpenSM on *node*, again too, and return when it has brought the subnet up, or stands by."""
        shutil.rmtree(self.served.folder / node.partition(" ")[0], ignore_errors=True)
        opensm = NodesOpensm(self.served, node, priority, self._stack, BY_GUID, GUIDS[node], options)
        opensm.log.wait("SUBNET UP|ENTERING SM STANDBY STATE")
        return opensm

    def kill(self, opensm: NodesOpensm) -> None:
        opensm.process.kill()
        opensm.process.wait(RUN_TIMEOUT)
        wait_until(lambda: not any(each.endswith(" SM") and opensm.node in each for each in self.clients()))

    def clients(self) -> list[str]:
        """Return the programs that are attached, with the node of each, and SM for a subnet manager."""
        return self.served.steer("clients").splitlines()

    def plan(self, *words: str | Path) -> str | None:
        """Make a plan as the fabric is now, and return the method in it."""
        (self.served.folder / "new.conf").write_text(BY_GUID_GREEN)
        out, policy = self.served.folder / "plan.json", self.served.folder / "new.conf"
        done = self.served.ibkeys("plan", "--policy", policy, "--out", out, *SM, *words)
        assert done.returncode in (0, 1, 3), done.stdout + done.stderr  # 3: an SM did not answer
        return read_plan(out).method

    def apply(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return self.served.ibkeys("apply", self.served.folder / "plan.json", "--allow-removals", *words)

    def deploy(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return self.served.ibkeys("mkey-deploy", "--same", *words)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(tmp_path, stack)


def is_in_state(site: Site, words: str, *options: str | Path, found: str = "", keys: bool = False) -> None:
    """Let plan and apply choose, with *keys* mkey-deploy too, and look whether they do what the row *words* of the
    table says. *found*: what they have to name."""
    [state] = [each for each in STATES if each.words == words]
    assert site.plan(*options) == state.method
    for command in (site.apply, site.deploy) if keys else (site.apply,):
        done = command("--dry-run", *options)
        if state.method is None:
            assert done.returncode == 4, done.stdout + done.stderr
            assert "no method is chosen for this change: " in done.stderr
        else:
            way = "through OpenSM (master " if state.method == "opensm" else "direct ("
            assert f"method: {way}" in done.stdout, done.stdout + done.stderr
        assert found in done.stdout + done.stderr
        if keys and state.method is not None:
            done = command("--yes", *options)
            assert done.returncode == 4, done.stdout + done.stderr
            assert f"now it would be `--via {state.method}`" in done.stderr


OURS = "one master, an OpenSM on this host or on one that was named"


@pytest.mark.soak
def test_each_state_beside_opensm(site: Site) -> None:
    is_in_state(site, "no SM", keys=True)
    first = site.start(FIRST)
    is_in_state(site, OURS, found=FIRST, keys=True)
    is_in_state(site, "one master, on no host that was named", *site.hidden, found=FIRST, keys=True)
    named = site.named()
    is_in_state(site, OURS, *named, found=f"{GUIDS[FIRST] - 1:016x} port 1 on smhost")
    is_in_state(site, "one master, and its OpenSM is found on several hosts", *named[2:], found="this host and smhost")
    is_in_state(site, "a host cannot be examined", *named[:-1], "stranger", found="host stranger")
    first.process.send_signal(signal.SIGSTOP)
    # The server gives an SMInfo back that OpenSM ignores, after 0.8 s. libumad2sim must not get it when the program has
    # closed the port already, for then it ends by SIGSEGV: so nobody gives up before the server.
    waiting = ("-t", "10000", "--retries", "0")
    is_in_state(site, "no master, and another SM, or one that does not answer", *waiting, found="SMInfo not")
    site.kill(first)


def test_each_state_of_two_opensms(site: Site) -> None:
    first = site.start(FIRST)
    second = site.start(SECOND, 1, "sminfo_polling_timeout 100000\n")
    is_in_state(site, OURS, found=FIRST)
    site.kill(first)
    is_in_state(site, "no master, and a standby", found=SECOND)
    site.kill(second)
    second = site.start(SECOND, 1)
    is_in_state(site, OURS, found=SECOND)
    site.start(FIRST, 9).log.wait("SUBNET UP")  # the master of higher priority is back
    second.log.wait("ENTERING SM STANDBY STATE")
    is_in_state(site, OURS, found=FIRST)
    site.kill(second)
    second = site.start(SECOND, 1, "sm_key 0x77\n")
    is_in_state(site, "two SMs are master", found=SECOND)
    site.kill(second)
    site.served.net.set_sm(site.served.net.node(SECOND), SMState.DISCOVERING)
    is_in_state(site, "an SM is discovering: it starts, or a failover is under way", found=SECOND)


@contextmanager
def process_called_opensm(site: Site) -> Iterator[int]:
    """Run a process called opensm, as one is before it sets the IsSM bit; yield its number."""
    program = site.served.folder / "opensm"
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([program, "600"], env=site.served.environment) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def test_an_opensm_that_no_port_shows(site: Site) -> None:
    with process_called_opensm(site) as pid:
        is_in_state(site, "no SM on the fabric, and an OpenSM runs on a host", found=str(pid))


def answered(site: Site, *words: str | Path) -> str:
    """Run a command on a terminal whose user says yes, and return its standard output."""
    ours, theirs = os.openpty()
    os.write(ours, b"y\n" * 3)
    command = site.served.arguments(site.served.ibkeys_command(*words))
    out = site.served.folder / "out"
    with out.open("w") as file, open(ours, "rb", buffering=0, closefd=True) as terminal:
        streams = {"stdin": theirs, "stderr": theirs, "stdout": file}
        process = subprocess.Popen(command, cwd=site.served.folder, env=site.served.environment, **streams)
        os.close(theirs)
        said = b""
        with suppress(OSError):  # EIO: the command has ended
            while part := terminal.read(4096):
                said += part
        assert process.wait(RUN_TIMEOUT) == 0, said.decode(errors="replace")
    return out.read_text()


APPLY = ("apply", "plan.json", "--allow-removals", *BLUNT)


SOAK = pytest.mark.soak


@pytest.mark.parametrize(
    "words", [pytest.param((*APPLY, "--first", "1"), marks=SOAK), ("mkey-deploy", "--same", "--first", "2")]
)
def test_a_change_that_went_direct_does_not_go_on_when_an_opensm_has_come(site: Site, words: Words) -> None:
    assert site.plan() == "direct"
    assert "method: direct (no subnet manager was found)" in answered(site, *words)
    with process_called_opensm(site):
        for command in (("resume", "1", "--yes"), ("resume", "1", "--dry-run")):
            done = site.served.ibkeys(*command)
            assert (done.returncode, "refused by interlock stale" in done.stderr) == (4, True), done.stderr
    done = site.served.ibkeys("resume", "1", "--yes")
    assert done.returncode == 0, done.stderr


@SOAK
def test_what_was_typed_goes_on_beside_an_opensm_as_the_interlocks_let_it(site: Site) -> None:
    site.plan()
    done = site.served.ibkeys(*APPLY, "--first", "1", "--via", "direct", "--yes")
    assert done.returncode == 0, done.stderr
    with process_called_opensm(site):
        done = site.served.ibkeys("resume", "1", "--yes")
    assert done.returncode == 0, done.stderr


def test_a_plan_is_not_applied_by_another_method_than_it_says(site: Site) -> None:
    site.plan()
    opensm = site.start(FIRST)
    for words in (("--yes",), ("--dry-run",), ("--via", "auto", "--dry-run")):
        done = site.apply(*words)
        assert (done.returncode, "the plan was made to be applied with the method direct" in done.stderr) == (4, True)
        assert "refused by interlock stale" in done.stderr
    done = site.apply("--via", "opensm", "--dry-run")
    assert "the plan was made for the method direct, and this is made by opensm" in done.stderr
    assert site.plan() == "opensm"
    site.kill(opensm)
    done = site.apply("--dry-run")
    assert (done.returncode, "the method opensm, and now" in done.stderr) == (4, True), done.stderr


def test_through_the_opensm_that_was_found_and_back(site: Site) -> None:
    opensm = site.start(FIRST)
    assert site.plan() == "opensm"
    assert f"method: through OpenSM (master '{FIRST}'" in answered(site, *APPLY)
    assert opensm.policy.read_text() == BY_GUID_GREEN
    done = site.served.ibkeys("undo", "1", "--yes", *BLUNT)
    assert (done.returncode, opensm.policy.read_text()) == (0, BY_GUID), done.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((*APPLY, "--first", "1", "--dry-run"), "--first counts leaf switches, but opensm changes all"),
        (("mkey-deploy", "--per-port", "--dry-run"), "stock OpenSM has one M_Key for the subnet"),
        pytest.param(
            ("mkey-rotate", "--order", "nearest", "--dry-run"), "--order cannot be combined with a run", marks=SOAK
        ),
    ],
)
def test_an_option_that_the_chosen_method_lacks(site: Site, words: Words, why: str) -> None:
    site.start(FIRST)
    site.plan()
    done = site.served.ibkeys(*words)
    assert (done.returncode, why in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    "words", [pytest.param((*APPLY, "--rewrite"), marks=SOAK), ("mkey-deploy", "--same", "--confirm-within", "60")]
)
def test_an_option_of_opensm_where_the_method_is_direct(site: Site, words: Words) -> None:
    site.plan()
    done = site.served.ibkeys(*words, "--dry-run")
    assert (done.returncode, words[-1] in done.stderr or "--confirm-within" in done.stderr) == (2, True), done.stderr


def test_with_a_site_file_nothing_is_typed(site: Site) -> None:
    opensm = site.start(FIRST)
    policy, file = site.served.folder / "site.conf", site.served.folder / "ibkeys.toml"
    policy.write_text(BY_GUID_GREEN)
    ours = site.served.ibkeys("doctor", "-f", "json").stdout
    [guid] = set(re.findall(r"port GUID (0x[0-9a-f]{16})", ours))
    file.write_text(f'subnet = ["{guid}"]\nvia = "opensm"\npolicy = "{policy}"\n')
    known = ("--site", file)
    done = site.served.ibkeys("plan", "--out", site.served.folder / "plan.json", *SM, *known)
    assert (done.returncode, "method of an apply now: opensm (site file)" in done.stdout) == (1, True), done.stderr
    assert read_plan(site.served.folder / "plan.json").method == "opensm"
    done = site.apply("--dry-run", "--via", "direct")  # as somebody without this file may
    assert "the plan was made for the method opensm, and this is made by direct" in done.stderr
    done = site.apply("--yes", *BLUNT, *known)
    assert (done.returncode, "method: opensm (site file)" in done.stdout) == (0, True), done.stderr
    assert opensm.policy.read_text() == BY_GUID_GREEN
    done = site.served.ibkeys("undo", "1", "--yes", *BLUNT, *known)
    assert (done.returncode, opensm.policy.read_text()) == (0, BY_GUID), done.stderr
    file.write_text(file.read_text().replace(guid, "0x0002c90300ffffff"))
    done = site.served.ibkeys("plan", *SM, *known)
    assert (done.returncode, "names another subnet for policy" in done.stderr, guid in done.stderr) == (
        4,
        True,
        True,
    ), done.stderr
