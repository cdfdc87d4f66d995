"""The tables of ibkeys-journal(1): what resume, undo and confirm do with an operation in each state, typed through."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ibkeys.keys.pkey import PARTITION_MASK
from ibkeys.mad.const import Method
from ibkeys.sim.subnet import Subnet
from ibkeys.store.journal import Journal, OperationState, Stage
from tests.cli.conftest import Cli, between_commands
from tests.cli.rolling import LEVEL_2

PAGE = Path(__file__).parents[2] / "man" / "ibkeys-journal.1"
COMMANDS = ("resume", "undo", "confirm")
FAST = ("-t", 50, "--retries", 0)


@dataclass
class Scene:
    """A subnet and the stores in ``folder``, and the command that begins operation 1."""

    cli: Cli
    folder: Path
    patch: pytest.MonkeyPatch
    words: tuple[object, ...]

    @property
    def undo(self) -> tuple[object, ...]:
        """The command that takes back the operation where it has ended."""
        return ("undo", 1) if "apply" in self.words else ("undo", 1, "--leave-open")

    def begin(self, *more: object) -> None:
        self.cli(*self.words, *more, "--yes")

    def cut_off(self, *words: object, at: int = 2) -> None:
        """Type a command that is interrupted when it comes to its Set number *at*."""
        send, sets = Subnet.send, [0]

        def until(net: Subnet, mad: bytes, *rest: Any, **more: Any) -> Any:
            sets[0] += mad[3] == Method.SET
            if sets[0] == at:
                raise KeyboardInterrupt
            return send(net, mad, *rest, **more)

        with self.patch.context() as patch:
            patch.setattr(Subnet, "send", until)
            self.cli(*words, "--yes")

    def lose_a_port(self) -> None:
        """Begin while a port falls silent at its Set, and answers again afterwards."""
        send = Subnet.send

        def silent(net: Subnet, mad: bytes, *rest: Any, **more: Any) -> Any:
            if mad[3] == Method.SET:
                net.silence("node02 mlx4_0")
            return send(net, mad, *rest, **more)

        with self.patch.context() as patch:
            patch.setattr(Subnet, "send", silent)
            self.begin(*FAST)
        with between_commands(self.folder) as net:
            net.silence("node02 mlx4_0", False)

    def stand(self, stage: Stage, state: OperationState) -> None:
        """Let the operation be at a *stage*, as a process that was killed leaves it."""
        self.begin()
        with Journal(self.folder / "fabric.journal") as journal:
            journal.set_state(1, state)
            journal.leave_stage(1, journal.find(1).stage, stage)

    def be_overtaken(self) -> None:
        """Begin, be interrupted, and let somebody else change every end port."""
        self.cut_off(*self.words, at=4)
        with between_commands(self.folder) as net:
            for port in (port for node in net.nodes for port in node.end_ports):
                if "apply" not in self.words:
                    port.m_key = 0x77
                elif port.p_keys[1] & PARTITION_MASK:
                    port.p_keys = [port.p_keys[0], 0x8055]

    def lose(self, store: str) -> None:
        """Begin, be interrupted, and lose a store."""
        self.cut_off(*self.words)
        (self.folder / f"fabric.{store}").unlink(missing_ok=True)


STATES: dict[str, Callable[[Scene], None]] = {
    "after --first": lambda scene: scene.begin("--first", 1),
    "interrupted": lambda scene: scene.cut_off(*scene.words),
    "ports failed": Scene.lose_a_port,
    "unconfirmed": lambda scene: scene.stand("unconfirmed", "done"),
    "rollback cut off": lambda scene: scene.stand("going-back", "done"),
    "rollback refused": lambda scene: scene.stand("refused", "open"),
    "finished": Scene.begin,
    "undo cut off": lambda scene: (scene.begin(), scene.cut_off(*scene.undo))[0],
    "undone": lambda scene: (scene.begin(), scene.cli(*scene.undo, "--yes"))[0],
    "changed by others": Scene.be_overtaken,
    "key store lost": lambda scene: scene.lose("keys"),
    "journal lost": lambda scene: scene.lose("journal"),
}


def rows() -> Iterator[Any]:
    """Return of each table of the man page (kind, state, command, exit code, state in the journal afterwards)."""
    text = PAGE.read_text().replace("\\-", "-")
    section = text.partition(".SH WHAT GOES ON\n")[2].partition("\n.SH ")[0]
    for kind, table in re.findall(r"^\.SS (.*?)\n.*?^\.TS\n(.*?)^\.TE", section, re.MULTILINE | re.DOTALL):
        for row in table.partition("_\n")[2].strip().splitlines():
            state, *cells = row.split("@")
            for command, cell in zip(COMMANDS, cells, strict=True):
                code, words = cell.split(" ", 1)
                yield pytest.param(kind, state, command, int(code), words, id=f"{kind}-{state}-{command}")


def test_each_state_is_in_each_table() -> None:
    found = {(each.values[0], each.values[1]) for each in rows()}
    kinds = {kind for kind, _ in found}
    assert len(kinds) == 2
    confirmations = {"unconfirmed", "rollback cut off", "rollback refused"}
    wanted = {(kind, state) for kind in kinds for state in STATES if "M_Keys" not in kind or state not in confirmations}
    assert found == wanted


ENDS = {
    "finishes it": "done",
    "does the rest": "done",
    "keeps it": "done",
    "rolls back": "undone",
    "ends the undo": "undone",
}
"""The state in the journal after what the man page says."""


@pytest.mark.parametrize(("kind", "state", "command", "code", "words"), list(rows()))
def test_it_does_what_the_page_says(
    kind: str,
    state: str,
    command: str,
    code: int,
    words: str,
    cli: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    plan: Path,
) -> None:
    begins = ("mkey-deploy", "--per-port", *LEVEL_2) if "M_Keys" in kind else ("apply", plan, "--allow-removals")
    STATES[state](Scene(cli, tmp_path, monkeypatch, begins))
    before = cli("journal", "-f", "json").json["operations"]
    result = cli(command, 1, *([] if command == "confirm" else ["--yes"]))
    assert result.code == code, result.err
    after = cli("journal", "-f", "json").json["operations"]
    if words in ENDS:
        assert after[0]["state"] == ENDS[words]
    else:
        assert after == before, "what does not go on or back leaves the record as it is"
        assert code != 0 or words == "was confirmed"
