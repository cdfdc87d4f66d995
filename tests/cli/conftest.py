"""The command line in this process: what it writes, and its exit code, on small simulated subnets."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import ibkeys
from ibkeys.cli import exits, main
from ibkeys.errors import NoDevice
from ibkeys.plan.document import write_plan
from ibkeys.plan.model import PartitionPlan
from ibkeys.sim.state.file import StateFile
from ibkeys.sim.subnet import Subnet
from tests import documents
from tests.apply.lab import Lab
from tests.cli.sites import Written, toml
from tests.client.sasim import SA_KEY
from tests.corpus import DATA
from tests.fabricsim import subnet
from tests.plan.plans import entries

TWO_SWITCH = f"sim:{DATA / 'fabrics' / 'two-switch.net'}"
DUAL_HOME = f"sim:{DATA / 'fabrics' / 'dual-home.net'}"
KEY = 0x9C4E21D7B05A63F8
OTHER_KEY = 0x0BADC0FFEE0DDF00
WITH_SA = f"sm=node01 mlx4_0,sa-key={SA_KEY:#x}"
"""Of a backend: node01 has the SM, whose SA trusts `SA_KEY`."""


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line of an error; nothing else may stand on standard error."""
        assert self.err.startswith("ibkeys: error: "), self.err
        assert self.err.count("\n") == 1, self.err
        return self.err.removeprefix("ibkeys: error: ").rstrip("\n")


Cli = Callable[..., Result]


class Terminal(io.StringIO):
    """A standard stream that says it is one."""

    def isatty(self) -> bool:
        return True


def run(*args: object, stdin: str | Terminal = "", stdout: type[io.StringIO] = io.StringIO) -> Result:
    """Run ``ibkeys ARGS`` in this process. *stdout*: what standard output and standard error are."""
    out, err = stdout(), stdout()
    before = sys.stdin
    sys.stdin = io.StringIO(stdin) if isinstance(stdin, str) else stdin
    try:
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main([str(arg) for arg in args])
    finally:
        sys.stdin = before
    code = ended.value.code
    assert isinstance(code, int)
    documents.check(out.getvalue())
    return Result(code, out.getvalue(), err.getvalue())


def on_terminal(*args: object, columns: int = 80, stdin: str | Terminal = "") -> Result:
    """Run ``ibkeys ARGS`` where standard output and standard error are a terminal of so many columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        patch.setenv("TERM", "xterm")
        return run(*args, stdin=stdin, stdout=Terminal)


def pkeys(cli: Cli, *where: object) -> dict[int, str]:
    """Return what ``pkey-show`` says of a port, by index."""
    port = cli("pkey-show", *where, "-f", "json").json["ports"][0]
    return {entry["index"]: entry["pkey"] for entry in port["pkeys"]}


@contextmanager
def between_commands(folder: Path) -> Iterator[Subnet]:
    """The fabric of `cli` after one command and before the next. *folder*: ``tmp_path``. What is changed here stays."""
    with closing(StateFile(folder / "fabric", subnet("two-switch"))) as state:
        yield state.subnet  # closing saves it


def key_argument(path: Path, key: int) -> str:
    """Write a key to a file of mode 0600, and return what names it as the value of an option."""
    path.touch(0o600)
    path.write_text(f"{key:#018x}\n")
    return f"@{path}"


def written(folder: Path, plan: PartitionPlan) -> Path:
    """Write a plan to a file of *folder*, and return its path."""
    path = folder / "plan.json"
    write_plan(plan, path)
    return path


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [*os.environ]:
        if name.startswith("IBKEYS_") or name in ("SIM_HOST", "NO_COLOR", "FORCE_COLOR") or name.startswith("CLICOLOR"):
            monkeypatch.delenv(name)
    monkeypatch.setattr("ibkeys.cli.site.file.DEFAULT_SITE", Path("/nowhere/ibkeys.toml"))
    yield
    exits.show_frames(False)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Run commands on two-switch.net, whose state lasts for the test.

    The state is in ``tmp_path / "fabric"``, the key store beside it in ``fabric.keys``, the journal in
    ``fabric.journal``. `between_commands` gives the fabric itself.
    """
    monkeypatch.setenv("IBKEYS_BACKEND", f"{TWO_SWITCH},state={tmp_path / 'fabric'}")
    return run


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """A file of mode 0600 with `KEY`."""
    path = tmp_path / "key"
    key_argument(path, KEY)
    return path


@pytest.fixture
def sa_key(tmp_path: Path) -> str:
    """The value of --smkey that names a file with `SA_KEY`."""
    return key_argument(tmp_path / "sa.key", SA_KEY)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A plan that adds a key to node02 and node03, and limits the default of node03."""
    return written(tmp_path, Lab().plan({2: entries(0xFFFF, 0x8001), 3: entries(0x7FFF, 0x8001)}, {2: "io"}))


@pytest.fixture
def taken(cli: Cli, tmp_path: Path, key_file: Path) -> Path:
    """A snapshot of a fabric with some P_Keys and one M_Key."""
    assert cli("pkey-add", 3, "0x8001", "--yes").code == 0
    assert cli("mkey-set", 4, "--new-m-key", f"@{key_file}", "--protect", 0, "--yes").code == 0
    file = tmp_path / "monday.db"
    result = cli("snapshot", file)
    assert result.code == 0
    assert result.out == (
        f"{file}: 8 nodes, {result.out.split()[3]} ports, 8 links, {result.out.split()[7]} P_Keys; "
        "M_Keys as fingerprints\n"
    )
    return file


@pytest.fixture
def site_file(tmp_path: Path) -> Written:
    """Write a site file, and return its path."""

    def write(text: str = "", **values: Any) -> Path:
        path = tmp_path / "ibkeys.toml"
        path.write_text(text or toml(**values))
        path.chmod(0o644)
        return path

    return write


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ibkeys.Local]]:
    """The local ports that commands try to open; there is none."""
    tried: list[tuple[str, ibkeys.Local]] = []

    def open_port(backend: str, local: ibkeys.Local) -> None:
        tried.append((backend, local))
        raise NoDevice("no such device")

    monkeypatch.setattr("ibkeys.opening.open_port", open_port)
    return tried


@contextmanager
def waiting(answer: Callable[[float], bool], seconds: list[float]) -> Iterator[None]:
    """Let `apply` wait on a clock that *answer* moves: it gets the seconds to wait, and says whether Enter came."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibkeys.cli.partitions.apply.wait_for_enter", lambda interrupts: answer)
        patch.setattr("ibkeys.apply.confirm.seconds_since_boot", lambda: seconds[0])
        yield
