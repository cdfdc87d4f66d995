"""What `ibkeys sim run` starts reaches no adapter of this host, by no means that a program has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ibkeys.sim.hosted import namespaces
from ibkeys.simulated_host import LIBRARY
from tests.corpus import DATA
from tests.integration.ibsim import tool
from tests.integration.simulated import AS_NOBODY, NOBODY, SIM, beside_adapter, needs_root, sim

ON_DEMO = [*SIM, "run", "--on", "demo", "--"]
USERS = [pytest.param((), id="this user"), pytest.param(AS_NOBODY, id="another user", marks=needs_root)]
SEEN = "cat /dev/infiniband/umad0; ls /dev/infiniband /sys/class/infiniband /sys/class/infiniband_mad"

# Confines itself by one means and executes the rest of its words.
BY_ONE_MEANS = """
import os, sys
from ibkeys.sim.hosted.confining import confine
from ibkeys.simulated_host import SimulatedHost
print("hidden by", confine(SimulatedHost("none", "node", sys.argv[2]), (), [sys.argv[1]]), flush=True)
os.execvp(sys.argv[3], sys.argv[3:])
"""

# The command line where the kernel allows no namespace.
NO_NAMESPACE = """
from ibkeys.sim.hosted import namespaces
def refuse(*_):
    raise PermissionError(1, "Operation not permitted")
namespaces.make = refuse
from ibkeys.cli import main
main()
"""


def test_the_stand_in_is_seen_without_us() -> None:
    """Otherwise the other tests here would prove nothing."""
    assert beside_adapter(["sh", "-c", SEEN]).stdout.split("\n")[0] == "stand-in for umad0"


@pytest.mark.parametrize("user", USERS)
def test_devices_and_adapters_are_hidden(user: tuple[str, ...]) -> None:
    done = beside_adapter([*user, *ON_DEMO, "sh", "-c", SEEN])
    assert done.stdout == "/dev/infiniband:\n\n/sys/class/infiniband:\n\n/sys/class/infiniband_mad:\n"
    assert "/dev/infiniband/umad0: No such file" in done.stderr


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize(
    "means",
    [
        "umount /dev",
        "umount /dev/infiniband",
        "unshare -Um umount /dev",
        "unshare -Um umount /sys/class/infiniband",
        "unshare -Um sh -c 'mount --bind /dev /mnt && cat /mnt/infiniband/umad0'",
        "mknod /tmp/ibkeys-umad0 c 231 0",
        "cd /proc/1/root && cat dev/infiniband/umad0",
        "cd /proc/$PPID/root && cat dev/infiniband/umad0",
        "nsenter -t $PPID -m cat /dev/infiniband/umad0",
        "mount -t devtmpfs none /mnt",
        "unshare -Um mount -t devtmpfs none /mnt",
    ],
)
def test_nothing_brings_them_back(user: tuple[str, ...], means: str) -> None:
    done = beside_adapter([*user, *ON_DEMO, "sh", "-c", means])
    assert done.returncode not in (0, 127), done
    assert done.stdout == ""


@pytest.mark.parametrize("user", USERS)
def test_no_program_gets_a_privilege(user: tuple[str, ...]) -> None:
    done = beside_adapter([*user, *ON_DEMO, "grep", "-E", "^(Cap|NoNewPrivs)", "/proc/self/status"])
    found = dict(line.split(":\t") for line in done.stdout.splitlines())
    assert found.pop("NoNewPrivs") == "1"
    assert {*found.values()} == {"0000000000000000"}
    assert len(found) == 5


@needs_root
def test_a_setuid_program_stays_the_same_user(tmp_path: Path) -> None:
    program = tmp_path / "id"
    shutil.copy(tool("id"), program)
    os.chown(program, NOBODY, NOBODY)
    program.chmod(0o6755)
    tmp_path.chmod(0o755)
    assert subprocess.run([str(program), "-u"], capture_output=True, text=True).stdout == f"{NOBODY}\n"
    assert sim("run", "--on", "demo", "--", program, "-u").stdout == "0\n"


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    """A folder to be /etc in a namespace of the test, so that no program there can write to that of this machine."""
    made = tmp_path / "etc"
    (made / "opensm").mkdir(parents=True)
    (made / "opensm" / "partitions.conf").write_text("of the real host\n")
    for name in ("passwd", "group", "ld.so.cache"):
        shutil.copy(f"/etc/{name}", made)
    return made


def test_files_of_the_real_opensm_are_neither_read_nor_written(etc: Path) -> None:
    at = "/etc/opensm/partitions.conf"
    done = beside_adapter([*ON_DEMO, "sh", "-c", f"cat {at}; echo of the simulated one >{at}; cat {at}"], etc=etc)
    assert done.stdout == "of the simulated one\n"
    assert (etc / "opensm" / "partitions.conf").read_text() == "of the real host\n"


def test_a_folder_that_the_real_host_does_not_have_is_not_made_there(etc: Path) -> None:
    before = sorted(etc.iterdir())
    done = beside_adapter(
        [*ON_DEMO, "sh", "-c", "mkdir /etc/ibkeys && echo nonsense >/etc/ibkeys/ibkeys.toml"], etc=etc
    )
    assert done.returncode != 0
    assert "Read-only file system" in done.stderr
    assert sorted(etc.iterdir()) == before


@pytest.mark.parametrize("inherited", ["/dev/zero", "/dev", "/dev/infiniband"])
def test_an_inherited_device_or_folder_is_closed(inherited: str) -> None:
    inherits = ["sh", "-c", f'exec 7<{inherited}; exec "$@"', "sh"]
    done = beside_adapter([*inherits, *ON_DEMO, "ls", "/proc/self/fd"])
    assert done.returncode == 0, done.stderr
    assert "7" not in done.stdout.split()


def test_a_hidden_folder_is_not_the_working_directory_either() -> None:
    inherits = ["sh", "-c", 'cd /dev/infiniband; exec "$@"', "sh"]
    assert beside_adapter([*inherits, "cat", "umad0"]).stdout == "stand-in for umad0\n"
    done = beside_adapter([*inherits, *ON_DEMO, "cat", "umad0"])
    assert (done.returncode, done.stdout) == (1, "")


def test_a_program_whose_input_is_an_adapter_is_not_started() -> None:
    inherits = ["sh", "-c", 'exec </dev/infiniband/umad0; exec "$@"', "sh"]
    done = beside_adapter([*inherits, *ON_DEMO, "cat"])
    assert (done.returncode, done.stdout) == (4, "")
    assert "/dev/infiniband/umad0" in done.stderr


@pytest.mark.parametrize("user", USERS)
def test_a_program_without_our_library_finds_no_adapter(user: tuple[str, ...]) -> None:
    done = beside_adapter([*user, *ON_DEMO, "env", "-u", "LD_LIBRARY_PATH", tool("ibstat"), "-l"])
    assert done.stdout == ""
    done = beside_adapter([*user, *ON_DEMO, "env", "-u", "LD_LIBRARY_PATH", tool("smpquery"), "-D", "nodeinfo", "0"])
    assert done.returncode != 0
    assert "Node Type" not in done.stdout


def test_a_program_whose_run_path_has_another_libibumad_is_not_started(tmp_path: Path) -> None:
    other = tmp_path / "libibumad.so.3"
    shutil.copy(LIBRARY, other)
    source = tmp_path / "program.c"
    source.write_text("int umad_init(void); int main(void) { return umad_init() + 9; }\n")
    program = tmp_path / "program"
    path = ["-Wl,--disable-new-dtags", f"-Wl,-rpath,{tmp_path}"]
    subprocess.run([tool("cc"), "-o", program, source, other, *path], check=True, timeout=60)
    done = sim("run", "--on", "demo", "--", program)
    assert done.returncode == 2
    assert f"it loads {other}" in done.stderr
    subprocess.run([tool("cc"), "-o", program, source, other], check=True, timeout=60)
    assert sim("run", "--on", "demo", "--", program).returncode == 9


def by(means: str, folder: Path, *command: str) -> list[str]:
    return [sys.executable, "-c", BY_ONE_MEANS, means, str(folder), *command]


@pytest.mark.parametrize("user", USERS)
def test_landlock_hides_them_where_there_is_no_namespace(tmp_path: Path, user: tuple[str, ...]) -> None:
    words = "cat /dev/infiniband/umad0; echo >/dev/infiniband/umad0; ls /sys/class/infiniband/mlx5_0; cat /etc/passwd"
    done = beside_adapter([*user, *by("landlock", tmp_path, "sh", "-c", words)])
    said, _, rest = done.stdout.partition("\n")
    assert said == "hidden by landlock"
    assert "stand-in" not in rest
    assert "root:" in rest
    assert done.stderr.count("Permission denied") == 2
    done = beside_adapter([*user, *by("landlock", tmp_path, "unshare", "-Um", "mount", "-t", "tmpfs", "none", "/dev")])
    assert done.returncode != 0


def test_a_program_runs_on_the_fabric_by_landlock_too() -> None:
    done = beside_adapter(
        [sys.executable, "-c", NO_NAMESPACE, "sim", "run", "--on", "demo", "--", tool("ibstat"), "-l"]
    )
    assert done.stdout == "HCA-1\n", done.stderr
    assert "hidden by landlock" in done.stderr


def test_a_program_without_a_namespace_of_its_own_is_not_joined() -> None:
    """Its mount namespace is that of the real host."""
    with pytest.raises(OSError, match="has no mount namespace of a simulated host"):
        namespaces.join(os.getpid())


def test_another_simulated_host_is_reached_by_landlock_too(tmp_path: Path) -> None:
    """The server, the program and the shell on the other host: none of them gets a namespace."""
    (tmp_path / "sitecustomize.py").write_text(NO_NAMESPACE.partition("from ibkeys.cli")[0])
    on_node = ("run", "--on", DATA / "fabrics" / "two-switch.net", "--host", "node01", "--")
    done = sim(
        *on_node,
        sys.executable,
        "-m",
        "ibkeys",
        "sm-show",
        "--sm-host",
        "node02",
        "-f",
        "json",
        PYTHONPATH=str(tmp_path),
    )
    assert "hidden by landlock" in done.stderr
    here, there = json.loads(done.stdout)["hosts"]
    assert (there["host"], there["error"]) == ("node02", None)
    assert here["ports"][0]["guid"] != there["ports"][0]["guid"]


@needs_root
def test_permissions_count_only_for_a_user_who_cannot_open_the_devices(tmp_path: Path) -> None:
    hidden = beside_adapter([*AS_NOBODY, *by("permissions", tmp_path, "true")], mode="600")
    assert (hidden.returncode, hidden.stdout) == (0, "hidden by permissions\n")
    open_to_all = beside_adapter([*AS_NOBODY, *by("permissions", tmp_path, "true")])
    assert "umad0 can be opened" in open_to_all.stderr
    root = beside_adapter(by("permissions", tmp_path, "true"), mode="600")
    assert "root may open them" in root.stderr
    assert "not started" in root.stderr


STATIC = r"""
#include <fcntl.h>
#include <infiniband/umad.h>
#include <stdio.h>

int main(void)
{
    umad_ca_t ca;
    puts(open("/dev/infiniband/umad0", O_RDWR) >= 0 ? "opened" : "no device");
    puts(umad_init() == 0 && umad_get_ca("mlx5_0", &ca) == 0 ? "adapter" : "no adapter");
    puts(umad_open_port("mlx5_0", 1) >= 0 ? "port" : "no port");
}
"""


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with the libibumad of Debian in itself, which therefore loads none."""
    compiler = shutil.which("cc")
    assert compiler is not None, "no C compiler: apt-get install gcc libc6-dev libibumad-dev"
    folder = tmp_path_factory.mktemp("static")
    folder.chmod(0o755)
    (folder / "static.c").write_text(STATIC)
    program = folder / "static"
    subprocess.run([compiler, "-static", "-o", program, folder / "static.c", "-libumad"], check=True)
    return program


def test_a_static_program_opens_the_device_without_us(static: Path) -> None:
    """Otherwise the next test would prove nothing."""
    assert beside_adapter([static]).stdout.splitlines()[0] == "opened"


def test_a_static_program_finds_no_adapter(static: Path) -> None:
    """Not the one of this host, and not that of the simulated one either, because it does not load our library."""
    done = beside_adapter([*ON_DEMO, static])
    assert (done.returncode, done.stdout) == (0, "no device\nno adapter\nno port\n")
