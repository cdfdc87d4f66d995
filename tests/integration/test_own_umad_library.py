"""Our libibumad as a library: its interface, what it does claim by claim, and what sanitizers see of it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.corpus import DATA
from tests.integration.ibsim import OWN_LIBRARY, ROOT
from tests.integration.own_umad import OwnUmad

SOURCES = ROOT / "native" / "umad-sim"
CONFORMANCE = ROOT / "tests" / "conformance"
TWO_SWITCH = DATA / "fabrics" / "two-switch.net"
LIMIT = 240.0

STRINGS = """
import ctypes, json, sys
library = ctypes.CDLL(sys.argv[1])
for name in ("class", "method", "common_mad_status", "sa_mad_status", "attribute"):
    getattr(library, f"umad_{name}_str").restype = ctypes.c_char_p
classes = range(256)
big = lambda number: number >> 8 | (number & 0xFF) << 8
print(json.dumps([
    [library.umad_class_str(each).decode() for each in classes],
    [[library.umad_method_str(each, method).decode() for method in range(256)] for each in (1, 3, 4, 0x81)],
    [library.umad_common_mad_status_str(big(status)).decode() for status in range(0x20)],
    [library.umad_sa_mad_status_str(big(status << 8)).decode() for status in range(32)],
    [[library.umad_attribute_str(each, big(number)).decode() for number in range(256)] for each in (1, 3, 4, 7, 0x81)],
    [library.umad_attribute_str(3, big(0xFF90)).decode(), library.umad_attribute_str(1, big(0xFF90)).decode()],
]))
"""


@pytest.fixture(scope="module")
def fabric() -> Iterator[OwnUmad]:
    with OwnUmad(TWO_SWITCH, links="active") as served:
        yield served
        assert served.counts().get("internal errors", 0) == 0


def compiler() -> str:
    found = shutil.which("cc")
    assert found is not None, "no C compiler: apt-get install gcc libc6-dev"
    return found


def symbols(library: str | Path) -> set[str]:
    """Return the functions of a library with their versions."""
    done = subprocess.run(["objdump", "-T", str(library)], capture_output=True, text=True, check=True, timeout=60)
    return set(re.findall(r"DF \.text\s+\S+\s+(IBUMAD_\S+\s+umad_\w+)", done.stdout))


def system_library() -> str:
    found = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True, timeout=60).stdout
    path = re.search(r"libibumad\.so\.3 .*=> (\S+)", found)
    assert path is not None, "libibumad3 is not installed"
    return path[1]


def test_it_has_all_functions_of_libibumad_with_their_versions() -> None:
    ours = symbols(OWN_LIBRARY)
    assert symbols(system_library()) <= ours
    names = {each.split()[1] for each in ours}
    assert len(names) == len(ours)
    assert {"umad_open_smi_port", "umad_get_smi_gsi_pairs", "umad_get_smi_gsi_pair_by_ca_name"} <= names


def test_it_exports_nothing_else_but_what_it_is_known_by() -> None:
    done = subprocess.run(["nm", "-D", "--defined-only", str(OWN_LIBRARY)], capture_output=True, text=True, check=True)
    found = [line.split()[2] for line in done.stdout.splitlines()]
    others = [name for name in found if not name.startswith(("umad_", "IBUMAD_"))]
    assert others == ["IBKEYS_1.0", "ibkeys_simulated_fabric@@IBKEYS_1.0"]


def test_it_has_the_words_of_libibumad() -> None:
    said = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", STRINGS, str(library)], capture_output=True, text=True, check=True, timeout=60
            ).stdout
        )
        for library in (OWN_LIBRARY, system_library())
    ]
    assert said[0] == said[1]


Build = Callable[..., Path]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compile a program with our library's own sources, and options of the compiler."""
    folder = tmp_path_factory.mktemp("built")

    def make(name: str, *options: str) -> Path:
        built = folder / (name + "".join(options).replace("=", "-"))
        own = [str(SOURCES / each) for each in ("devices.c", "mads.c", "wire.c", "words.c")]
        common = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]
        command = [compiler(), *common, *options, "-o", str(built), str(CONFORMANCE / f"{name}.c"), *own]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return built

    return make


def run(fabric: OwnUmad, program: Path, *words: str, host: str = "node01") -> subprocess.CompletedProcess[str]:
    settings = {
        "IBKEYS_SIM_HOST": host,
        "ASAN_OPTIONS": "halt_on_error=1:detect_leaks=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "TSAN_OPTIONS": "halt_on_error=1",
    }
    return fabric.run([str(program), *words], LIMIT, env=settings)


@pytest.mark.parametrize("port", [(), ("mlx4_0", "1")])
def test_every_claim_holds(fabric: OwnUmad, port: Sequence[str]) -> None:
    """The program is linked to the library as any other; nothing of ours is in it. So `make hardware` runs it."""
    done = fabric.run([sys.executable, "-m", "tests.conformance", *port], LIMIT, sim_host="node01")
    held, _, claims = (done.stdout.split(" claims hold")[0]).rpartition(" of ")
    assert (done.returncode, held) == (0, claims), done.stdout + done.stderr
    assert int(claims) > 50


def test_make_hardware_runs_them_on_a_real_port() -> None:
    command = ["make", "-n", "hardware", "CONFORMANCE=mlx5_0/1"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    assert ".venv/bin/python -m tests.conformance mlx5_0 1\n" in printed


def test_a_claim_that_does_not_hold_is_named(fabric: OwnUmad) -> None:
    done = fabric.run([sys.executable, "-m", "tests.conformance", "mlx4_7", "1"], LIMIT, sim_host="node01")
    assert done.returncode == 1
    assert done.stdout.startswith("not ok - there is a port (umad_get_port(3))\n"), done.stdout


def test_every_claim_holds_on_a_switch(fabric: OwnUmad, build: Build) -> None:
    done = run(fabric, build("umad"), host="MF0;switch-a:IS5023/U1")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("program", ["umad", "stress"])
def test_address_and_undefined_behaviour_sanitizers_see_nothing(fabric: OwnUmad, build: Build, program: str) -> None:
    built = build(program, "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    done = run(fabric, built, *(["forks"] if program == "stress" else []))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Sanitizer" not in done.stderr


def test_thread_sanitizer_sees_nothing(fabric: OwnUmad, build: Build) -> None:
    done = run(fabric, build("stress", "-fsanitize=thread"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ThreadSanitizer" not in done.stderr


def test_programs_that_died_left_nothing(fabric: OwnUmad, build: Build) -> None:
    run(fabric, build("stress"), "forks")
    fabric.wait_until(lambda: not fabric.steer("clients"))
    assert len(os.listdir(f"/proc/{fabric.pid}/fd")) < 32


ANSWERS = {
    "nothing": b"",
    "short": b"\0\0\0\0",
    "no port": struct.pack("=iI", 0, 0),
    "too few P_Keys": struct.pack("=iI", 0, 0) + bytes(72) + struct.pack("=I", 4000) + bytes(20),
    "text": struct.pack("=iI", -1, 0) + b"the host is not there",
    "junk": struct.pack("=iI", 0, 0) + bytes(range(256)) * 3,
}


@contextmanager
def none_of_ours() -> Iterator[tuple[socket.socket, dict[str, str]]]:
    """Yield a socket of no server of ours, and the environment in which programs connect to it."""
    name = f"ibkeys-none-of-ours-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(b"\0" + f"{name}:umad".encode())
        listening.listen(1)
        listening.settimeout(LIMIT)
        yield listening, {**os.environ, "IBKEYS_SIM_SOCKET": name}


NAMES = """
import ctypes, sys
names = ctypes.create_string_buffer(32 * 20 + 1)
count = ctypes.CDLL(sys.argv[1]).umad_get_cas_names(names, 32)
print(count, {len(names.raw[20 * each :].partition(b"\\0")[0]) for each in range(32)})
"""


@pytest.mark.parametrize(
    ("answer", "code", "out", "err"),
    [
        (struct.pack("=iI", 0, 40) + b"A" * 40 * 20, 0, "32 {19}\n", ""),
        (struct.pack("=iI", -1, 0) + b"no\x1b[2J\r\n\x7fhost \xc3\xa9", 1, "", "no?[2J???host \u00e9\n"),
    ],
    ids=["names without an end", "a text with controls"],
)
def test_what_a_server_of_another_user_answers_is_harmless(answer: bytes, code: int, out: str, err: str) -> None:
    with none_of_ours() as (listening, environment):
        command = [sys.executable, "-c", NAMES, str(OWN_LIBRARY)]
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as program:
            connected, _ = listening.accept()
            with connected:
                connected.recv(1000)
                connected.send(answer)
            printed, said = program.communicate(timeout=LIMIT)
    assert (program.returncode, printed, said.rpartition(" ends: ")[2]) == (code, out, err)


SEND = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
umad = ctypes.create_string_buffer(64 + 256)
print(library.umad_send(library.umad_open_port(None, 0), 0, umad, 256, 0, 0))
"""


@pytest.mark.parametrize(("size", "seals"), [(0, fcntl.F_SEAL_SHRINK), (1 << 16, 0)], ids=["short", "may be cut off"])
def test_a_shared_page_that_may_be_too_short_is_not_used(size: int, seals: int) -> None:
    """A read beyond the end of the memory would be SIGBUS."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    memory = os.fdopen(os.memfd_create("page", os.MFD_ALLOW_SEALING), "wb")
    with none_of_ours() as (listening, environment), ours, theirs, memory:
        memory.truncate(size)
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seals)
        command = [sys.executable, "-c", SEND, str(OWN_LIBRARY)]
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as program:
            connected, _ = listening.accept()
            with connected:
                connected.recv(1000)
                socket.send_fds(connected, [struct.pack("=iI", 0, 0)], [theirs.fileno(), memory.fileno()])
            memory.truncate(0)
            theirs.close()
            _, said = program.communicate(timeout=LIMIT)
    assert (program.returncode, said.partition(" ends: ")[2]) == (
        1,
        "what serves the simulated fabric is not of this version of ibkeys\n",
    )


DESCRIPTORS = f"""
import os
before = os.listdir("/proc/self/fd")
{NAMES}
print(len(os.listdir("/proc/self/fd")) - len(before))
"""


def test_descriptors_that_were_not_asked_for_are_closed() -> None:
    with none_of_ours() as (listening, environment):
        command = [sys.executable, "-c", DESCRIPTORS, str(OWN_LIBRARY)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as program:
            connected, _ = listening.accept()
            with connected:
                connected.recv(1000)
                answer = struct.pack("=iI", 0, 1) + b"HCA-1".ljust(20, b"\0")
                socket.send_fds(connected, [answer], [listening.fileno(), listening.fileno()])
            printed, _ = program.communicate(timeout=LIMIT)
    assert printed.splitlines()[-1] == "0"


@pytest.mark.parametrize("name", ANSWERS)
def test_a_server_that_is_none_of_ours_ends_the_program(build: Build, name: str) -> None:
    """Whatever comes: a line to stderr, and no byte is read that did not come."""
    built = build("umad", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    with (
        none_of_ours() as (listening, environment),
        subprocess.Popen([str(built)], env=environment, stderr=subprocess.PIPE, text=True) as program,
    ):
        connected, _ = listening.accept()
        with connected:
            connected.recv(1000)
            first_question = struct.pack("=iI", 0, 1) + b"HCA-1".ljust(20, b"\0")
            connected.send(first_question)
        connected, _ = listening.accept()
        with connected:
            connected.recv(1000)
            if ANSWERS[name]:
                connected.send(ANSWERS[name])
        _, said = program.communicate(timeout=LIMIT)
    assert program.returncode == 1, said
    assert said.startswith("ibkeys: process "), said
    assert "Sanitizer" not in said


def test_the_issm_device_is_for_other_users_if_the_server_is() -> None:
    with OwnUmad(TWO_SWITCH, extra=["--allow-others"]) as served:
        code = (
            "import ctypes, sys; path = ctypes.create_string_buffer(200);"
            "print(ctypes.CDLL('libibumad.so.3').umad_get_issm_path(None, 0, path, 200), path.value.decode())"
        )
        result, path = served.run([sys.executable, "-c", code], check=True).stdout.split()
        assert (result, os.stat(path).st_mode & 0o777) == ("0", 0o644)
        assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o755
    assert not os.path.exists(path)
