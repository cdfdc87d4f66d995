"""Bad input: one line on standard error, the documented exit code, no traceback, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import corpus
from tests.integration.ibsim import Ibsim, ibkeys, ibkeys_environment

NET = corpus.DATA / "fabrics" / "dual-home.net"
SIM = ("--backend", f"sim:{NET}")
SWITCH = "0,1"
HOPS = ",".join(["0", *["1"] * 64])

# command line, exit code, and words that the line has to have
ON_A_FABRIC = [
    ("pkey-show 48000", 3, "LID 48000"),
    ("pkey-show 0", 2, "LID 0"),
    ("pkey-show 0xffff", 2, "permissive"),
    ("pkey-show 49152", 2, "multicast"),
    ("pkey-show 65536", 2, "LID"),
    ("pkey-show 010", 2, "write 10"),
    ("pkey-show -1", 2, "-1"),
    ("pkey-show nonsense", 2, "-N"),
    (f"pkey-show -D {HOPS}", 2, "63 is the maximum"),
    (f"pkey-show -D {HOPS},1,1,1", 2, "63 is the maximum"),
    ("pkey-show -D 1,2", 2, "begin with 0"),
    ("pkey-show -D 0,256", 2, "256"),
    ("pkey-show -D 0,,1", 2, "route"),
    (f"pkey-show -D {SWITCH},7", 3, f"{SWITCH},7"),
    (f"pkey-show -D {SWITCH},7,1", 3, f"{SWITCH},7,1"),
    (f"pkey-show -D {SWITCH} 13", 2, "12 ports"),
    ("pkey-show -D 0 99", 2, "no port 99"),
    (f"pkey-show -D {SWITCH} 256", 2, "256"),
    ("pkey-show -G 0x1", 3, "0x0000000000000001"),
    ("pkey-show -N nobody", 3, "nobody"),
    ("pkey-show -L -G 1", 2, "-L and -G"),
    ("pkey-show -L", 2, "-L"),
    ("pkey-add -D 0 0x10000 --yes", 2, "0x10000"),
    ("pkey-add -D 0 0x8000 --yes", 2, "0x8000"),
    ("pkey-add -D 0 1 010 --yes", 2, "0xa"),
    ("pkey-set -D 0 64=0x8001 --yes", 2, "64 entries"),
    ("pkey-set -D 0 65536=0x8001 --yes", 2, "65536"),
    ("pkey-set -D 0 3=0x10000 --yes", 2, "0x10000"),
    ("pkey-set -D 0 03=0x8001 --yes", 2, "write 3"),
    (f"pkey-set -D {SWITCH} 8=0x8001 --yes", 2, "8 entries"),
    ("mkey-set -D 0 --new-m-key 0x10000000000000000 --yes", 2, "64 bits"),
    ("mkey-set -D 0 --new-m-key @missing --yes", 2, "missing"),
    ("mkey-set -D 0 --protect 4 --yes", 2, "0..3"),
    ("mkey-set -D 0 --lease 65536 --yes", 2, "65535"),
    (f"mkey-set -D {SWITCH} 3 --protect 1 --yes", 2, "port 0"),
    ("mkey-show -y 0x10000000000000000", 2, "64 bits"),
    ("enforce-set -D 0 1 --inbound on --yes", 2, "external ports of switches"),
    (f"enforce-set -D {SWITCH} 3 --inbound maybe", 2, "maybe"),
    ("pkey-show -C nonsense", 3, "nonsense"),
    ("pkey-show -t 0", 2, "timeout"),
    ("pkey-show -f xml", 2, "xml"),
    ("pkey-show --pcap nowhere/file.pcap", 3, "nowhere/file.pcap"),
    ("pkey-show -z nowhere", 2, "nowhere"),
    ("pkey-show --node-name-map nowhere", 2, "nowhere"),
    ("pkey-show --security-keys nowhere", 2, "nowhere"),
]


def check(done: subprocess.CompletedProcess[str], code: int, words: str) -> None:
    assert done.returncode == code, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("ibkeys: error: ")
    assert words in line
    assert done.stdout == ""


@pytest.mark.parametrize(("line", "code", "words"), ON_A_FABRIC, ids=[line for line, *_ in ON_A_FABRIC])
def test_on_the_simulated_subnet(tmp_path: Path, line: str, code: int, words: str) -> None:
    check(ibkeys(*line.split(), *SIM, cwd=tmp_path), code, words)


def test_on_ibsim(ibsim: Callable[..., Ibsim]) -> None:
    fabric = ibsim(NET)
    fabric.opensm()
    for line, code, words in ON_A_FABRIC:
        check(fabric.ibkeys(*line.split()), code, words)


ANYWHERE = [
    ("decode 0102", 2, "2 bytes"),
    (f"decode {'01' * 255}", 2, "255 bytes"),
    (f"decode {'01' * 257}", 2, "257 bytes"),
    ("decode --attribute PortInfo 010", 2, "3 hex digits"),
    (f"decode --attribute PortInfo {'00' * 65}", 2, "65"),
    ("decode --attribute PortInfo 0g", 2, "not hex"),
    ("decode --attribute Nonsense 00", 2, "Nonsense"),
    ("pkey-check 0x10000 0x8001", 2, "0x10000"),
    ("pkey-explain 0x10000", 2, "0x10000"),
    ("qkey-explain 0x100000000", 2, "0x100000000"),
    ("qkey-explain 010", 2, "write 10"),
    ("keystore generate -n 0", 2, "0"),
    ("nonsense", 2, "nonsense"),
    ("pkey-show --nonsense", 2, "--nonsense"),
    ("pkey-show --backend nonsense", 2, "nonsense"),
    ("journal --backend nonsense", 2, "nonsense"),
    ("confirm --backend nonsense", 2, "nonsense"),
    ("doctor --backend nonsense", 2, "nonsense"),
    ("pkey-show --backend sim:,nonsense=1", 2, "nonsense"),
    ("pkey-show --backend sim:,seed=x", 2, "seed"),
    ("pkey-show --backend sim:,drop=101", 2, "drop"),
    ("pkey-show --backend sim:,port-guids=x", 2, "port-guids"),
    ("pkey-show --backend sim:nowhere.net", 2, "nowhere.net"),
    ("pkey-show --backend sim: --at nobody", 2, "nobody"),
    ("pkey-show --backend sim: -P 9", 3, "port 9"),
    ("pkey-show --backend sim:,state=nowhere/state", 3, "nowhere/state"),
    ("pkey-show --at login1", 2, "--at"),
]


@pytest.mark.parametrize(("line", "code", "words"), ANYWHERE, ids=[line[:60] for line, *_ in ANYWHERE])
def test_anywhere(tmp_path: Path, line: str, code: int, words: str) -> None:
    check(ibkeys(*line.split(), cwd=tmp_path), code, words)


NETS = {
    "no-port-number": ('Switch 8 "S-1"\n[1] "H-1"[1]\n\nCa 1 "H-1"\n[x] "S-1"[1]\n', ":5:1: "),
    "port-past-the-node": ('Ca 1 "H-1"\n[2] "H-2"[1]\n\nCa 1 "H-2"\n[1] "H-1"[2]\n', ":2:"),
    "no-such-node": ('Ca 1 "H-1"\n[1] "H-2"[1]\n', ":2:"),
    "one-sided": ('Ca 1 "H-1"\n[1] "H-2"[1]\n\nCa 1 "H-2"\n', ":2:"),
    "twice": ('Ca 1 "H-1"\n\nCa 1 "H-1"\n', ":3:"),
    "no-node": ("# nothing\n", "net: "),
}


@pytest.mark.parametrize("name", NETS)
def test_a_mistake_in_a_net_file_is_shown_with_line_and_column(tmp_path: Path, name: str) -> None:
    text, place = NETS[name]
    (tmp_path / "bad.net").write_text(text)
    done = ibkeys("discover", "--backend", "sim:bad.net", cwd=tmp_path)
    check(done, 2, f"bad.{place}" if place.startswith("net") else f"bad.net{place}")


def test_truncated_mads_on_standard_input() -> None:
    mad = corpus.load(corpus.DATA / "vectors" / "mads_ibsim.json")["vectors"][0]["request"]["hex"]
    done = ibkeys("decode", "-", input=f"0102\n{mad}\n{mad[:-2]}\n")
    assert done.returncode == 2
    assert done.stderr == "ibkeys: error: 2 lines could not be decoded\n"
    lines = done.stdout.splitlines()
    assert ["error" in line for line in lines] == [True, False, True]
    assert "line 1: " in lines[0]
    assert "line 3: " in lines[2]


# --- the host --------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(any(Path("/sys/class").glob("infiniband/*")), reason="this machine has an InfiniBand device")
def test_no_device() -> None:
    check(ibkeys("pkey-show", "--backend", "umad"), 3, "--backend sim:")


# What libibumad says when the device belongs to somebody else. Whoever runs this may be root, whom nothing refuses.
DENIED = """
import errno, sys
from ibkeys.errors import AccessDenied
import ibkeys.umad.libibumad as umad
def refused(ca=None, port=None):
    raise AccessDenied("umad_open_port mlx5_0:1: Permission denied; run as root, or let a group have it", errno.EACCES)
umad.open_port = refused
from ibkeys.cli import main
main()
"""


def test_no_permission_for_the_device() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DENIED, "pkey-show"],
        env=ibkeys_environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    check(done, 3, "Permission denied")


@pytest.mark.parametrize("option", ["--pcap", "--keystore", "state"])
def test_no_permission_for_a_file(tmp_path: Path, option: str) -> None:
    """In /sys nobody may make a file, root neither; nor below a file."""
    blocked = "/sys/ibkeys-test" if option != "--keystore" else str(tmp_path / "file" / "keys")
    (tmp_path / "file").write_text("")
    where = ["--backend", f"sim:{NET},state={blocked}"] if option == "state" else [*SIM, option, blocked]
    line = ["mkey-set", "-D", "0", "--lease", "60", "--yes"] if option == "--keystore" else ["pkey-show"]
    done = ibkeys(*line, *where, cwd=tmp_path)
    check(done, 3, blocked)


# --- standard output -------------------------------------------------------------------------------------------------

WRITERS = [
    ("pkey-show", "--all", *SIM),
    ("pkey-show", "--all", "-f", "json", *SIM),
    ("discover", "-f", "csv", *SIM),
    ("--help",),
]


@pytest.mark.parametrize("line", WRITERS, ids=" ".join)
def test_standard_output_closed_early(line: tuple[str, ...]) -> None:
    """As with ``| head``, when the reader has gone before the end."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = ibkeys(*line, capture_output=False, stdout=writing, stderr=subprocess.PIPE)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, ""), "a reader that had enough is no error"


@pytest.mark.parametrize("line", WRITERS, ids=" ".join)
def test_standard_output_full(line: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = ibkeys(*line, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 3
    (text,) = done.stderr.splitlines()
    assert "No space left" in text


def test_no_standard_output_at_all() -> None:
    program = "import os, sys; os.close(1); os.execv(sys.executable, [sys.executable, '-m', 'ibkeys', *sys.argv[1:]])"
    done = subprocess.run(
        [sys.executable, "-c", program, "pkey-show", *SIM],
        env=ibkeys_environment(),
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (3, "ibkeys: error: standard output is closed\n")
