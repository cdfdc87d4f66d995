"""Every option that names a file: what it does with something else than a file, a pipe, gigabytes, deep nesting."""

from __future__ import annotations

import os
import pty
import re
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from ibkeys.cli.exits import DONE
from tests.cli.conftest import KEY, TWO_SWITCH, Cli, Result, run
from tests.corpus import DATA

PATIENCE = 120  # seconds after which a command that waits for a pipe is ended
GIGABYTES = 1 << 35
SIM = ("--backend", TWO_SWITCH)

# Command line → what makes its file a good one. {} is the file.
SECRETS: Final[dict[str, str]] = {
    "mkey-show -y @{}": f"{KEY:#x}\n",
    "mkey-set 2 --new-m-key @{} --dry-run": f"{KEY:#x}\n",
    "mkey-deploy --new-m-key @{} --same --dry-run": f"{KEY:#x}\n",
    "mkey-recover --try-keys {} --dry-run": f"{KEY:#x}\n",
    "keystore list --keystore {sealed} --keystore-passphrase @{} -K": "open sesame\n",
    "keystore encrypt --keystore {store} --new-passphrase @{}": "open sesame\n",
}
TEXTS: Final[dict[str, str]] = {
    "policy-check {}": "Default=0x7fff: ALL=full;\n",
    "plan --policy {}": "Default=0x7fff: ALL=full;\n",
    "audit --policy {}": "Default=0x7fff: ALL=full;\n",
    "compare --policy {} -t 10": "Default=0x7fff: ALL=full;\n",
    "matrix --policy {}": "Default=0x7fff: ALL=full;\n",
    "compare --ipoib --policy {}": "Default=0x7fff: ALL=full;\n",
    "discover --node-name-map {}": '0x0002c90200401000 "leaf"\n',
    "discover --config {}": "timeout=100\n",
    "audit --registry {}": "0x8001 tenant\n",
    "audit --inventory {}": "0x0002c90200401000\n",
    "audit --sm-guids @{}": "0x0002c90200401000\n",
    "audit --waivers {}": '[[waiver]]\nrule = "PK001"\nports = ["*"]\nreason = "x"\nexpires = 2999-01-31\n',
    "apply {} --dry-run": "",
    "keystore import --opensm-conf {} --keystore {new}": "m_key 0x5\n",
    "keystore export {folder} --keystore {store} --opensm-conf {}": "m_key 0x5\n",
    "sm-repair --cache-dir {folder} --keystore {store} --opensm-conf {} --dry-run": "m_key 0x5\n",
    "discover --backend sim:{}": (DATA / "fabrics" / "two-switch.net").read_text(),
    "sim serve {} --at nowhere": (DATA / "fabrics" / "two-switch.net").read_text(),
    "sim serve --script {} --state {folder}": "help\n",
}
WRITTEN_ANEW: Final = "keystore export {folder} --keystore {store} --write-opensm-conf {}"
FOLDERS: Final[dict[str, str]] = {  # the file's name in the folder that is named
    "discover --security-keys {folder}": "guid2mkey",
    "mkey-show --security-keys {folder}": "neighbors",
    "port-show --caps --security-keys {folder}": "guid2lid",
    "keystore import {folder} --keystore {new}": "guid2mkey",
    "keystore export {folder} --keystore {store}": "guid2mkey",
    "sm-repair --cache-dir {folder} --keystore {store} --dry-run": "guid2mkey",
}
DATABASES: Final = (
    "pkey-show --all --from {}",
    "diff {} {}",
    "diff {snapshot} {}",
    "audit --baseline {}",
    "mkey-recover --topology {} --dry-run",
    "keystore list --keystore {}",
    "mkey-show --keystore {}",
    "journal --journal {}",
    "undo --journal {} --yes",
)
STATES: Final = ("discover --backend {net},state={}", "sim serve --state {}")
OUTPUTS: Final = (
    "discover --pcap {}",
    "sim serve --pcap {} --socket {name}",
    "plan --policy {policy} --out {}",
    "snapshot {}",
)


@contextmanager
def ends_by_itself() -> Iterator[None]:
    """Fail where a command waits for ever."""

    def late(*_: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., Result]:
    """Run a line of the tables above on *place*."""
    policy, folder = tmp_path / "policy", tmp_path / "keys"
    policy.write_text("Default=0x7fff: ALL=full;\n")
    folder.mkdir()

    def snapshot() -> Path:
        path = tmp_path / "good.db"
        if not path.exists():
            assert run("snapshot", path, *SIM).code == DONE
        return path

    def store(sealed: bool) -> Path:
        path = tmp_path / f"store{sealed}.db"
        if not path.exists():
            keys, phrase = tmp_path / "good", tmp_path / "phrase"
            keys.mkdir(exist_ok=True)
            (keys / "guid2mkey").touch(0o600)
            (keys / "guid2mkey").write_text("0x0002c903000a1021 0x5\n\n")
            phrase.touch(0o600)
            phrase.write_text("open sesame\n")
            assert run("keystore", "import", keys, "--keystore", path).code == DONE
            if sealed:
                assert run("keystore", "encrypt", "--keystore", path, "--new-passphrase", f"@{phrase}").code == DONE
        return path

    def execute(line: str, place: object) -> Result:
        values: dict[str, Any] = {"policy": policy, "folder": folder, "new": tmp_path / "new.db", "net": TWO_SWITCH}
        values |= {"name": f"ibkeys-files-{os.getpid()}"}
        for name, make in (("snapshot", snapshot), ("store", lambda: store(False)), ("sealed", lambda: store(True))):
            if f"{{{name}}}" in line:
                values[name] = make()
        words = [word.replace("{}", str(place)).format(**values) for word in line.split()]
        if not {"--backend", "--from"} & {*words} and not line.startswith(_WITHOUT_FABRIC):
            words += SIM
        with ends_by_itself():
            return run(*words)

    return execute


_WITHOUT_FABRIC: Final = ("policy-check", "diff", "sim", "keystore list", "keystore encrypt")


@pytest.fixture(params=["fifo", "socket", "device"])
def no_file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[Path], Path]]:
    """Put something else than a file at a place; the device is the end of a terminal of our own, behind a link."""
    with socket.socket(socket.AF_UNIX) as bound:
        ends = pty.openpty()

        def put(path: Path) -> Path:
            if request.param == "fifo":
                os.mkfifo(path)
            elif request.param == "socket":
                bound.bind(str(path))
            else:
                path.symlink_to(os.ttyname(ends[1]))
            return path

        yield put
        for end in ends:
            os.close(end)


def refused(result: Result, place: Path | str) -> None:
    assert result.code in (2, 3), result
    assert str(place) in result.error
    assert "internal" not in result.error
    assert result.out == ""


@pytest.mark.parametrize("line", [*SECRETS, *TEXTS, *DATABASES])
def test_what_is_no_file_is_refused_and_nobody_is_waited_for(
    command: Callable[..., Result], line: str, no_file: Callable[[Path], Path], tmp_path: Path
) -> None:
    place = no_file(tmp_path / "place")
    refused(command(line, place), place)


@pytest.mark.parametrize("line", FOLDERS)
def test_what_is_no_file_in_a_folder_of_key_files(
    command: Callable[..., Result], line: str, no_file: Callable[[Path], Path], tmp_path: Path
) -> None:
    place = no_file(tmp_path / "keys" / FOLDERS[line])
    refused(command(line, place), place)


@pytest.mark.parametrize("line", [*OUTPUTS, *STATES, WRITTEN_ANEW])
def test_what_is_no_file_is_not_written_to(
    command: Callable[..., Result], line: str, no_file: Callable[[Path], Path], tmp_path: Path
) -> None:
    place = no_file(tmp_path / "place")
    before = [os.lstat(place), os.stat(place)]
    refused(command(line, place), place)
    after = [os.lstat(place), os.stat(place)]
    assert [(each.st_ino, each.st_mode) for each in before] == [(each.st_ino, each.st_mode) for each in after]


@pytest.mark.parametrize("line", [*OUTPUTS, *STATES, WRITTEN_ANEW])
@pytest.mark.parametrize("there", [True, False])
def test_output_through_a_link_changes_nothing(
    command: Callable[..., Result], line: str, there: bool, tmp_path: Path
) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to("target")
    if there:
        target.write_text("precious")
        target.chmod(0o640)
    refused(command(line, link), link)
    assert link.is_symlink()
    assert target.exists() == there
    if there:
        assert (target.read_text(), stat.S_IMODE(target.stat().st_mode)) == ("precious", 0o640)


@pytest.mark.parametrize("line", STATES)
def test_a_state_file_with_two_names_is_left_alone(command: Callable[..., Result], line: str, tmp_path: Path) -> None:
    target, place = tmp_path / "target", tmp_path / "place"
    target.write_text("precious")
    target.chmod(0o640)
    os.link(target, place)
    refused(command(line, place), place)
    assert (target.read_text(), stat.S_IMODE(target.stat().st_mode)) == ("precious", 0o640)


def test_a_link_beside_the_state_file_is_not_written_through(cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / ".fabric.new").symlink_to(target)
    assert cli("pkey-add", 2, "0x8010", "--yes").code == DONE
    assert cli("pkey-add", 2, "0x8010", "--dry-run").code == DONE
    assert target.read_text() == "precious"


def test_key_files_are_not_exported_through_a_link(command: Callable[..., Result], tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("")
    target.chmod(0o644)
    (tmp_path / "keys" / "guid2mkey").symlink_to(target)
    result = command("keystore export {folder} --keystore {store}", "")
    refused(result, tmp_path / "keys" / "guid2mkey")
    assert (target.read_text(), stat.S_IMODE(target.stat().st_mode)) == ("", 0o644)


@pytest.mark.parametrize("line", [*SECRETS, *TEXTS, *STATES, *DATABASES])
def test_gigabytes_are_one_line_at_once(command: Callable[..., Result], line: str, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.touch(0o600)
    os.truncate(place, GIGABYTES)
    refused(command(line, place), place)


@pytest.mark.parametrize("line", FOLDERS)
def test_gigabytes_of_key_files(command: Callable[..., Result], line: str, tmp_path: Path) -> None:
    place = tmp_path / "keys" / FOLDERS[line]
    place.touch(0o600)
    os.truncate(place, GIGABYTES)
    refused(command(line, place), place)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("apply {}", "[" * 10_000_000),
        ("apply {}", '{"a":' * 10_000_000),
        (STATES[0], "[" * 10_000_000),
        (STATES[0], '{"wall": 1e999, "subnet": {}}'),
        ("audit --waivers {}", "x = " + "[" * 10_000_000),
        ("audit --waivers {}", "x = " + "{a=" * 3_000_000),
        ("audit --waivers {}", "a." * 10_000_000 + "a = 1"),
        ("audit --waivers {}", "[" + '"a" . ' * 3_000_000 + "a]"),
        ("audit --waivers {}", "x = {" + "a . " * 3_000_000 + "a = 1}"),
        ("audit --waivers {}", "x = 1" + "0" * 100_000),
        ("discover --backend sim:{}", 'include "place"\n' * 1000),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)
def test_deep_nesting_is_one_line(command: Callable[..., Result], line: str, text: str, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.touch(0o600)
    place.write_text(text)
    refused(command(line, place), place)


def pipe(content: bytes) -> int:
    reader, writer = os.pipe()
    os.write(writer, content)
    os.close(writer)
    return reader


@pytest.mark.parametrize("line", [*SECRETS, *TEXTS])
def test_an_inherited_pipe_is_as_good_as_a_file(command: Callable[..., Result], line: str, tmp_path: Path) -> None:
    """As a shell's ``<(...)`` makes one."""
    content = {**SECRETS, **TEXTS}[line]
    place = tmp_path / "place"
    place.touch(0o600)
    place.write_text(content)
    by_name = command(line, place)
    if line.startswith("keystore encrypt"):  # once more from the beginning
        for made in tmp_path.glob("store*.db"):
            made.unlink()
    reader = pipe(content.encode())
    by_pipe = command(line, f"/dev/fd/{reader}")
    os.close(reader)
    assert by_pipe.code == by_name.code
    for inherited, named in ((by_pipe.out, by_name.out), (by_pipe.err, by_name.err)):
        assert shape(inherited.replace(f"/dev/fd/{reader}", str(place))) == shape(named)


def shape(text: str) -> list[str]:
    """A text without what differs from one run to the next: times."""
    return re.sub(r"\d\d:\d\d:\d\dZ?", "TIME", text).splitlines()


@pytest.mark.parametrize("line", SECRETS)
def test_a_secret_from_a_pipe_is_bounded(command: Callable[..., Result], line: str) -> None:
    reader = pipe(b"0" * 5000)
    result = command(line, f"/dev/fd/{reader}")
    os.close(reader)
    refused(result, f"/dev/fd/{reader}")
    assert "more than 4096 bytes" in result.error


def test_a_secret_from_standard_input_is_bounded() -> None:
    result = run("mkey-show", "-y", "-", *SIM, stdin="0" * 100_000)
    assert (result.code, "standard input" in result.error) == (2, True)


def test_a_capture_goes_into_an_inherited_pipe() -> None:
    reader, writer = os.pipe()
    assert run("pkey-show", "--pcap", f"/dev/fd/{writer}", *SIM).code == DONE
    os.close(writer)
    with os.fdopen(reader, "rb") as captured:
        assert captured.read(4) == bytes.fromhex("d4c3b2a1")


def test_a_capture_replaces_a_file_that_others_may_have_open(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_text("old")
    path.chmod(0o666)
    with path.open() as other:
        assert run("pkey-show", "--pcap", path, *SIM).code == DONE
        assert other.read() == "old"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
