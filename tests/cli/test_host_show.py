"""host-show, and pkey-show without the right to send SMPs: output, documents, exit codes, as a user without rights."""

from __future__ import annotations

import csv
import io
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

import ibkeys
from ibkeys.errors import AccessDenied, PortDown, TransportError
from ibkeys.host.kernel import sysfs, view
from ibkeys.host.kernel.programs import PROGRAMS
from ibkeys.host.kernel.selinux import SelinuxPolicy, labels_in
from tests.cli.conftest import TWO_SWITCH, on_terminal, run
from tests.host.kernel import trees
from tests.host.kernel.trees import Tree
from tests.sample import in_soak

GUID = 0x0C42A10300A10000
DENIED = "mlx5_0 port 1: no permission to open its umad device (Permission denied): run as root"
BUILDERS = {
    "connectx": lambda root: trees.connectx(root, ports=8),
    "vf-in-guest": lambda root: trees.mlx5_virtual_function(root, in_guest=True),
    "vf-on-host": lambda root: trees.mlx5_virtual_function(root, in_guest=False),
    "mlx4": trees.mlx4_sriov,
    "qib": trees.qib,
    "rxe": trees.rxe,
}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Two ports with IPoIB on each, one child made by sysfs and one by netlink."""
    tree = trees.connectx(tmp_path / "sys", ports=2)
    tree.child_by_sysfs(GUID, 0x8010)
    tree.child_by_netlink("storage", GUID + 0x10, 0x0010, "ib1")
    return tree


def test_a_port_with_its_table_and_who_takes_which_entry(tree: Tree) -> None:
    result = run("host-show", "--sysfs", tree.root, "-C", "mlx5_1")
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        "mlx5_1: node01 mlx5_1 (ca 0x0c42a10300a10010) port 1, LID 6\n"
        "  InfiniBand, ACTIVE; no virtual function (its CapabilityMask lacks IsSMdisabled: it may send SMPs)\n"
        "  2 of 128 P_Key entries in use\n"
        "Index  P_Key   Partition  Membership  Taken by\n"
        "    0  0xffff  0x7fff     full        NCCL, UCX (Open MPI 5), Open MPI to 4, MVAPICH2, GASNet (ibv), NVSHMEM, "
        "Mooncake, ib1\n"
        "    1  0x8010  0x0010     full        storage\n"
        "  PortXmitConstraintErrors 0, PortRcvConstraintErrors 0\n"
        "\n"
        "IPoIB     Parent  P_Key   Port           Index  Mode      State\n"
        "ib0       -       0xffff  mlx5_0 port 1      0  datagram  running\n"
        "ib0.8010  ib0     0x8010  mlx5_0 port 1      1  datagram  running\n"
        "ib1       -       0xffff  mlx5_1 port 1      0  datagram  running\n"
        "storage   ib1     0x8010  mlx5_1 port 1      1  ?         running\n"
        "\n"
        "P_Keys that programs take by default (-f env prints them for a job script):\n"
        "  NCCL: NCCL_IB_PKEY=0\n"
        "  UCX (Open MPI 5): UCX_IB_PKEY=0x7fff\n"
        "  Open MPI to 4: OMPI_MCA_btl_openib_pkey=0x7fff\n"
        "  MVAPICH2: MV2_DEFAULT_PKEY=0x7fff\n"
        "  GASNet (ibv): GASNET_IBV_PKEY=0x7fff\n"
        "  NVSHMEM: NVSHMEM_IB_PKEY_INDEX=0\n"
        "  Mooncake: MC_PKEY_INDEX=0\n"
    )


def test_lines_for_a_job_script_set_what_a_shell_then_has(tree: Tree) -> None:
    result = run("host-show", "--sysfs", tree.root, "--partition", "0x8010", "-f", "env")
    assert (result.code, result.err) == (0, "")
    names = [each.variable for each in PROGRAMS]
    shell = "\n".join([result.out, *(f"echo ${name}" for name in names)])
    done = subprocess.run(["sh", "-eu", "-c", shell], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "0x0010", "0x0010", "0x0010", "0x0010", "1", "1"]
    assert (
        "# NVSHMEM: the index, for 0x8010 at index 1; versions before 3.7.0 take index 0, whatever is set\n"
        in result.out
    )


def test_a_limited_client_has_what_each_program_takes(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "sys")
    tree.port(tree.device("mlx5_0"), (0x7FFF, 0x0010))
    for words in ((), ("--partition", "0x8010")):
        result = run("host-show", "--sysfs", tree.root, *words, "-f", "env")
        assert (result.code, result.err) == (0, "")
        assert " is not set" not in result.out
    text = run("host-show", "--sysfs", tree.root, "--partition", "0x10")
    assert text.code == 0
    assert "UCX_IB_PKEY=0x0010 (a limited member: it reaches full members only)\n" in text.out


def test_partition_1_is_no_fault_of_the_host(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "sys")
    tree.port(tree.device("mlx5_0"), (0xFFFF, 0x8001))
    result = run("host-show", "--sysfs", tree.root, "--partition", "0x1", "-f", "env")
    assert result.code == 0
    assert "# GASNet (ibv): no value of GASNET_IBV_PKEY names partition 0x0001: they start at 2\n" in result.out


def test_where_none_fits_nothing_is_exported_and_it_says_why(tree: Tree) -> None:
    result = run("host-show", "--sysfs", tree.root, "--partition", "0x33", "-f", "env")
    assert (result.code, result.err) == (1, "")
    assert "export" not in result.out
    assert "# NCCL: NCCL_IB_PKEY is not set: mlx5_0 port 1: partition 0x0033 is not in the P_Key table; " in result.out
    assert run("host-show", "--sysfs", tree.root, "--partition", "0x33").code == 1


def test_programs_that_take_different_partitions_by_default_are_named(tmp_path: Path) -> None:
    tree = trees.qib(tmp_path / "sys")
    result = run("host-show", "--sysfs", tree.root, "-f", "env")
    assert result.code == 0
    assert "# programs take different partitions (0x0005, 0x7fff): --partition chooses one for all\n" in result.out
    text = run("host-show", "--sysfs", tree.root).out
    assert "NCCL_IB_PKEY=0 (a limited member: it reaches full members only)\n" in text


def test_a_device_name_cannot_put_a_line_into_a_job_script(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "sys")
    tree.port(tree.device("x\nexport EVIL=1\x1b[2J"), (0xFFFF,))
    result = run("host-show", "--sysfs", tree.root, "-f", "env")
    assert result.code == 0
    lines = result.out.splitlines()
    assert not [line for line in lines if line.startswith("export EVIL")]
    assert "\x1b" not in result.out


@pytest.mark.parametrize("format", ["table", "json", "csv", "env"])
def test_names_that_are_no_utf_8_are_escaped(open_folder: Path, format: str) -> None:
    tree = Tree(open_folder / "sys")
    tree.port(tree.device("mlx5_0"), (0xFFFF,))
    tree.parent("ib0", 0x0002C90300A10021, 0xFFFF)
    for path, name in (("class/infiniband/mlx5_0", b"m\xff"), ("class/net/ib0", b"ib\xfe\x1b[2J")):
        place = tree.root / path
        place.rename(os.fsdecode(os.fsencode(place.parent) + b"/" + name))
    done = _as_nobody("host-show", "--sysfs", str(tree.root), "-f", format)
    assert (done.returncode, done.stderr) == (0, "")
    assert "m\\udcff" in done.stdout
    assert "\x1b" not in done.stdout


def test_ports_that_say_the_same_are_one_on_a_terminal(tmp_path: Path) -> None:
    tree = trees.connectx(tmp_path / "sys", ports=8)
    result = on_terminal("host-show", "--sysfs", tree.root)
    assert result.code == 0
    assert result.out.startswith("8 ports: mlx5_[0-7] port 1\n")
    assert "ib[0-7]" in result.out
    assert max(map(len, result.out.splitlines())) <= 80
    assert run("host-show", "--sysfs", tree.root).out.count(" P_Key entries in use") == 8
    assert on_terminal("host-show", "--sysfs", tree.root, "--each").out.count(" P_Key entries in use") == 8


def test_the_documents_have_what_the_table_has(tree: Tree) -> None:
    document = run("host-show", "--sysfs", tree.root, "--partition", "0x10", "-f", "json").json
    assert document["schema"] == "ibkeys.host-show/1"
    assert (document["partition"], document["errors"]) == ("0x0010", [])
    port = document["ports"][0]
    assert (port["device"], port["port"], port["capacity"], port["virtual_function"]) == ("mlx5_0", 1, 128, False)
    entry = {"index": 1, "pkey": "0x8010", "partition": "0x0010", "membership": "full", "selinux_type": None}
    assert port["pkeys"][1] == entry
    names = {each["name"]: (each["pkey"], each["source"], each["index"]) for each in document["interfaces"]}
    assert names["storage"] == ("0x8010", "broadcast", 1)
    settings = {each["variable"]: (each["takes"], each["value"]) for each in document["settings"]}
    assert settings == {
        "NCCL_IB_PKEY": ("index", "1"),
        "UCX_IB_PKEY": ("value", "0x0010"),
        "OMPI_MCA_btl_openib_pkey": ("value", "0x0010"),
        "MV2_DEFAULT_PKEY": ("value", "0x0010"),
        "GASNET_IBV_PKEY": ("value", "0x0010"),
        "NVSHMEM_IB_PKEY_INDEX": ("index", "1"),
        "MC_PKEY_INDEX": ("index", "1"),
    }
    rows = list(csv.DictReader(io.StringIO(run("host-show", "--sysfs", tree.root, "-f", "csv").out)))
    assert [(row["device"], row["index"], row["pkey"]) for row in rows] == [
        ("mlx5_0", "0", "0xffff"),
        ("mlx5_0", "1", "0x8010"),
        ("mlx5_1", "0", "0xffff"),
        ("mlx5_1", "1", "0x8010"),
    ]


def test_what_could_not_be_read_is_named_and_exits_3(tree: Tree) -> None:
    tree.write("class/infiniband/mlx5_0/ports/1/pkeys/1", "full")
    result = run("host-show", "--sysfs", tree.root, "--partition", "0x10")
    assert result.code == 3
    why = "class/infiniband/mlx5_0/ports/1/pkeys/1: 'full' is not a number up to 0xffff"
    assert result.err == f"ibkeys: not read: {why}\n"
    assert "NCCL: mlx5_0 port 1: index 1 could not be read" in result.out


def test_a_host_without_a_device_and_a_device_that_is_not_there(tmp_path: Path, tree: Tree) -> None:
    empty = run("host-show", "--sysfs", tmp_path)
    assert empty.code == 3
    assert empty.error.startswith("the kernel shows no RDMA device: ")
    wrong = run("host-show", "--sysfs", tree.root, "-C", "mlx5_7", "-P", 1)
    assert wrong.code == 3
    assert wrong.error.startswith("no mlx5_7 port 1: there is mlx5_0 port 1, mlx5_1 port 1; did you mean mlx5_")


def test_root_sees_the_selinux_type_of_each_p_key(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = SelinuxPolicy("enforcing", True, True, labels_in("tenant_pkey_t fe80:: 0x8010, 0x10"))
    monkeypatch.setattr(view, "read_policy", lambda *_: policy)
    result = run("host-show", "--sysfs", tree.root)
    assert re.search(r"^Index +P_Key +Partition +Membership +SELinux +Taken by$", result.out, re.MULTILINE)
    assert re.search(r"^ +1 +0x8010 +0x0010 +full +tenant_pkey_t +", result.out, re.MULTILINE)
    assert re.search(r"^ +0 +0xffff +0x7fff +full +- +", result.out, re.MULTILINE)
    document = run("host-show", "--sysfs", tree.root, "-f", "json").json
    assert [each["selinux_type"] for each in document["ports"][0]["pkeys"]] == [None, "tenant_pkey_t"]
    assert document["selinux"]["labels"][0] == {
        "type": "tenant_pkey_t",
        "subnet_prefix": "0xfe80000000000000",
        "first": "0x8010",
        "last": "0x8010",
    }


def test_selinux_is_told_where_it_decides(tree: Tree) -> None:
    tree.selinux("1")
    assert "SELinux enforces a policy that can refuse P_Keys or SMPs" in run("host-show", "--sysfs", tree.root).out


@pytest.mark.parametrize(
    ("name", "format"),
    [
        *(in_soak(name, "json") for name in BUILDERS),
        ("connectx", "table"),
        ("mlx4", "csv"),
        in_soak("qib", "env"),
        ("rxe", "env"),
    ],
)
def test_nobody_sees_all_of_it(open_folder: Path, name: str, format: str) -> None:
    """As user nobody, in a process of its own."""
    tree = BUILDERS[name](open_folder / "sys")
    tree.open_to_all()
    as_root = run("host-show", "--sysfs", tree.root, "-f", format)
    done = _as_nobody("host-show", "--sysfs", str(tree.root), "-f", format)
    assert (done.returncode, done.stdout, done.stderr) == (as_root.code, as_root.out, as_root.err)
    assert as_root.code == (1 if (name, format) == ("rxe", "env") else 0)
    assert as_root.out


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter; that of pytest is the tests' own user's."""
    with tempfile.TemporaryDirectory(prefix="ibkeys-host-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def _as_nobody(*args: str) -> subprocess.CompletedProcess[str]:
    """Run ``ibkeys ARGS`` without rights: as user nobody, but as the tests' own user where that is not root, or where
    nobody may not enter the folder of this working tree, or of its Python."""
    settings: dict[str, object] = {}
    programs = (Path(sys.executable).absolute(), Path(sys.executable).resolve())  # a venv's is a link to it
    places = (*(each for path in programs for each in path.parents), *Path(ibkeys.__file__).absolute().parents)
    if os.geteuid() == 0 and all(folder.stat().st_mode & 0o001 for folder in places):
        user = pwd.getpwnam("nobody")
        settings = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LANG": "C.UTF-8"}
    command = [sys.executable, "-m", "ibkeys", *args]
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        command, env=environment, cwd="/", capture_output=True, text=True, check=False, timeout=60, **settings
    )


# --- pkey-show without the right to send SMPs -------------------------------------------------------------------------


@pytest.fixture
def denied(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """This host's /sys is a tree, and its umad device may not be opened."""
    monkeypatch.setattr(sysfs, "SYSFS", tree.root)
    refuse(monkeypatch, AccessDenied(DENIED))
    return tree


def refuse(monkeypatch: pytest.MonkeyPatch, error: TransportError) -> None:
    def opened(*args: object, **settings: object) -> NoReturn:
        raise error

    monkeypatch.setattr("ibkeys.opening.open_port", opened)


@pytest.mark.parametrize(
    ("words", "device"),
    [
        ((), "mlx5_0"),
        (("-C", "mlx5_1"), "mlx5_1"),
        (("-D", "0"), "mlx5_0"),
        ((6,), "mlx5_1"),
        (("-G", f"{GUID + 0x10:#018x}", 1), "mlx5_1"),
    ],
    ids=["local", "-C", "-D 0", "LID", "GUID"],
)
def test_pkey_show_reads_a_local_port_from_sysfs_and_says_so(
    denied: Tree, words: tuple[object, ...], device: str
) -> None:
    result = run("pkey-show", *words)
    assert result.code == 0
    assert result.out.startswith(f"node01 {device} (ca ")
    assert result.out.endswith("    0  0xffff  0x7fff     full\n    1  0x8010  0x0010     full\n")
    assert result.err == (
        f"ibkeys: note: {DENIED}; so the P_Key table is read from sysfs, as the driver of {device} port 1 has it\n"
    )
    document = run("pkey-show", *words, "-f", "json").json
    assert (document["source"], document["errors"]) == ("sysfs", [])
    assert document["ports"][0]["pkeys"][1]["pkey"] == "0x8010"


@pytest.mark.parametrize("words", [("--all",), (77,), ("-D", "0,1"), ("-N", "node01"), (6, 2)], ids=str)
def test_pkey_show_of_another_port_needs_the_right(denied: Tree, words: tuple[object, ...]) -> None:
    result = run("pkey-show", *words)
    assert (result.code, result.error) == (3, DENIED)


def test_pkey_show_names_entries_that_sysfs_does_not_show(denied: Tree) -> None:
    denied.write("class/infiniband/mlx5_0/ports/1/pkeys/1", "?")
    result = run("pkey-show", "-f", "json")
    assert result.code == 3
    assert [each["error"] for each in result.json["errors"]] == ["sysfs does not show index 1"]


def test_pkey_show_of_a_port_without_a_link_or_a_simulated_one_is_no_case_for_sysfs(
    denied: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("pkey-show", "--backend", TWO_SWITCH).code == 3
    refuse(monkeypatch, PortDown("no port with a link"))
    assert run("pkey-show").error == "no port with a link"


def test_without_a_device_the_error_stays_what_it_was(tmp_path: Path, denied: Tree) -> None:
    shutil.rmtree(denied.root / "class/infiniband")
    assert run("pkey-show").error == DENIED
