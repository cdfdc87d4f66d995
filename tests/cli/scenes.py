"""An operation of each kind, left as something has left it, and the commands that are typed then.

It is in the world of the recordings (`tests.recordings.world`): a simulated fabric that passes for a real one, with
made-up OpenSMs whose files are real, on this host and on another one.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from ibkeys.change.staged_files import StagedFiles
from ibkeys.cli import exits, main
from ibkeys.mad import offsets as at
from ibkeys.mad.const import Method
from ibkeys.managers.host_facts import host_facts
from ibkeys.store.journal import Journal, OperationState, Stage
from tests.fabricsim import replace_hca
from tests.recordings.recorder import Killed, Stop
from tests.recordings.scenarios.beginning import SM_NODE, STANDBY_NODE, policies
from tests.recordings.world import STANDBY_HOST, World

HOST: Final = "node02 mlx4_0"
_IN_THE_WAIT: Final = 100
"""A pause of somebody who waits for a confirmation: no change of a scene has so many before."""
_THEIRS: Final = "0x9c4e21d7b05a63f8"
_FABRIC: Final = "two-switch"
_PLAN: Final = "plan --policy {dir}/new.conf --out {dir}/plan.json"
_OWN_KEYS: Final = "sa_key 0x5e11a7c0ffee\n"


@dataclass(frozen=True, slots=True)
class Way:
    """How an operation of a kind is made. ``words``: what begins it; ``before``: commands that are typed first, as many
    of which are operations as ``earlier`` says; ``opensm``: lines of the options files, None for no OpenSM; ``rest``:
    options of what goes on with it; ``dies_at``: the Set at which it dies where ibkeys sends Sets."""

    words: str
    before: Sequence[str] = ()
    earlier: int = 0
    opensm: str | None = None
    rest: str = "--yes"
    dies_at: int = 2

    @property
    def stop(self) -> Stop:
        """What kills it when it has written something."""
        return Stop("set", self.dies_at, "killed") if self.opensm is None else Stop("signal", 1, "killed")


_SM: Final = "--yes --wait 5"
_ROTATE: Final = f"smkey-rotate {_SM} --sm-host {STANDBY_HOST}"
_DEPLOY: Final = f"mkey-deploy --via opensm --protect 2 --lease 60 --sm-host {STANDBY_HOST} {_SM}"
_MKEY_SET: Final = "mkey-set -D 0,1 --new-m-key @{dir}/new.key --protect 1 --lease 60 --override mkey-under-sm --yes"
WAYS: Final[dict[str, dict[str, Way]]] = {
    "apply": {
        "own Sets": Way("apply {dir}/plan.json --via direct --allow-removals --yes --override index-0", (_PLAN,)),
        "opensm": Way(
            f"apply {{dir}}/plan.json --via opensm --allow-removals --sm-host {STANDBY_HOST} {_SM}",
            (_PLAN,),
            opensm="",
            rest=_SM,
        ),
    },
    "M_Keys": {
        "own Sets": Way("mkey-deploy --via direct --per-port --protect 2 --lease 60 --yes"),
        "opensm": Way(_DEPLOY, opensm=_OWN_KEYS, rest=_SM),
    },
    "values": {
        "P_Keys": Way("pkey-set 2 3=0x8010 35=0x8011 --yes"),
        "enforcement": Way("enforce-set -D 0,1 3 --inbound on --outbound on --yes", dies_at=1),
    },
    "mkey-set": {"one port": Way(_MKEY_SET, dies_at=1)},
    "smkey-rotate": {"opensm": Way(_ROTATE, opensm="", rest=_SM)},
    "harden": {
        "opensm": Way(
            f"harden --via opensm --override mkey-under-sm --sm-host {STANDBY_HOST} {_SM}",
            (_ROTATE, _DEPLOY),
            earlier=2,
            opensm="part_enforce off\n",
            rest=_SM,
        )
    },
}


class Scene:
    """A world, and one operation in it. ``code``: how the last command ended; ``came``: whether it came to the stop
    that it was to come to."""

    def __init__(self, way: Way, folder: Path, stack: ExitStack) -> None:
        self.way, self.folder, self._stack = way, folder, stack
        self.operation = way.earlier + 1
        self.world = World(_FABRIC, folder)
        (key := folder / "new.key").write_text(_THEIRS)
        key.chmod(0o600)
        self.code: int | str = 0
        self.out = self.err = ""
        self._stop: Stop | None = None
        self._count = 0
        self._enter()
        for words in way.before:
            self.must(words)

    def _enter(self) -> None:
        """Let everything be in the world, where its OpenSMs run."""
        if self.way.opensm is None:
            policies(self.world, self._stack)
        else:
            self._start_opensms(self.way.opensm)
        self.world.seen = self._seen
        self._stack.enter_context(self.world.entered())
        patch = self._stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr("ibkeys.umad.probe.probe", lambda: iter(()))
        patch.setattr("ibkeys.doctor.checks.host_facts", partial(host_facts, **self.world.own_places()))
        for name, store in {"JOURNAL": "journal", "KEYSTORE": "keys"}.items():
            patch.setenv(f"IBKEYS_{name}", str(self.folder / f"{store}.db"))

    def _start_opensms(self, more: str) -> None:
        """Start a master and a standby; the master has swept last."""
        master, _ = (self.world.add_opensm(node, more) for node in (SM_NODE[_FABRIC], STANDBY_NODE))
        master.begin_again()
        policies(self.world, self._stack, master.policy.read_text())

    # --- commands -----------------------------------------------------------------------------------------------------

    def type(self, words: str, stop: Stop | None = None, typed: str = "") -> int | str:
        """Type a command; return how it ended. *typed*: the answers to its questions."""
        out, err, stdin = io.StringIO(), io.StringIO(), sys.stdin
        self._stop, self._count, sys.stdin = stop, 0, io.StringIO(typed)
        self.code = "killed"
        try:
            with redirect_stdout(out), redirect_stderr(err):
                main(shlex.split(words.format(dir=self.folder)))
        except SystemExit as ended:
            self.code = ended.code or 0
        except Killed:
            pass
        finally:
            sys.stdin = stdin
            exits.show_frames(False)
        self.came = self._stop is None
        self.out, self.err = out.getvalue(), err.getvalue()
        return self.code

    def must(self, words: str) -> None:
        """Type a command that does what it is asked for."""
        assert self.type(words) in (0, 1), self.err

    @property
    def command(self) -> str:
        """The command that begins the operation."""
        return self.way.words.split()[0]

    def begin(self, more: str = "", stop: Stop | None = None) -> None:
        """Begin the operation."""
        self.type(f"{self.way.words} {more}", stop)

    def go(self, command: str, *more: str) -> int | str:
        """Type a command that goes on with the operation."""
        rest = [] if command == "confirm" else [self.way.rest]
        return self.type(" ".join([command, str(self.operation), *more, *rest]))

    def operations(self) -> list[dict[str, Any]]:
        """Return what `ibkeys journal` says."""
        if self.type("journal -f json") == 3:
            return []  # there is no journal
        found: list[dict[str, Any]] = json.loads(self.out)["operations"]
        return found

    def checks(self) -> list[dict[str, Any]]:
        """Return what `ibkeys doctor` says."""
        self.must("doctor -f json")
        found: list[dict[str, Any]] = json.loads(self.out)["checks"]
        return found

    def _seen(self, kind: str, what: Any) -> None:
        if kind == "mad":
            kind = "set" if what.mad[at.METHOD] == Method.SET else "get"
        if self._stop is None or self._stop.kind != kind:
            return
        self._count += 1
        if self._count == self._stop.number:
            stop, self._stop = self._stop, None
            if stop.how == "killed":
                raise Killed
            if stop.how == "interrupted":
                signal.raise_signal(signal.SIGINT)
            else:
                stop.how(self.world)  # type: ignore[operator]

    # --- how it is left -----------------------------------------------------------------------------------------------

    def interrupt(self, stop: Stop | None = None) -> None:
        """Begin it, and let it die in the middle."""
        self.begin(stop=stop or self.way.stop)

    def die_before_a_file(self) -> None:
        """Begin it, and let it die when all is prepared beside the files."""

        def die(*given: object) -> None:
            raise Killed

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(StagedFiles, "check", die)
            self.begin()

    def stand(self, stage: Stage, state: OperationState) -> None:
        """Let it be at a *stage*, as a process that was killed leaves it."""
        self.begin()
        with Journal(self.folder / "journal.db") as journal:
            journal.set_state(self.operation, state)
            journal.leave_stage(self.operation, journal.find(self.operation).stage, stage)

    def wait(self) -> None:
        """Begin it so that it has to be confirmed, and let it die while it waits."""
        if self.way.opensm is None:
            self.stand("unconfirmed", "done")
        else:
            self.begin("--confirm-within 300", Stop("sleep", _IN_THE_WAIT, "killed"))

    def undo(self, stop: Stop | None = None) -> None:
        """Make it, and undo it."""
        self.begin()
        leave_open = "--leave-open" if self.command == "mkey-deploy" else ""
        self.type(f"undo {self.operation} {leave_open} {self.way.rest}", stop)

    def lose_a_host(self, is_back: bool = False) -> None:
        """A host that it changes falls silent in the middle."""
        kind, number = ("set", 6) if self.way.opensm is None else (self.way.stop.kind, 1)
        self.begin(stop=Stop(kind, number, lambda world: world.net.silence(HOST)))  # type: ignore[arg-type]
        self.world.net.silence(HOST, not is_back)

    def lose_the_manager(self) -> None:
        """It dies in the middle, and so does the master, which nobody starts again."""
        self.interrupt()
        self.world.opensms[0].end(for_good=True)

    def lose_the_standby(self, is_back: bool = False) -> None:
        """It dies in the middle, and then the host of a standby does not answer."""
        self.interrupt()
        if not is_back:
            self.world.silent_hosts.add(STANDBY_HOST)

    def be_overtaken(self) -> None:
        """It dies in the middle, and somebody else changes what it sets."""
        is_of_all = self.command in ("apply", "mkey-deploy")
        self.interrupt(Stop("set", 6, "killed") if self.way.opensm is None and is_of_all else None)
        if self.way.opensm is None:
            for port in (port for node in self.world.net.nodes for port in node.end_ports):
                if self.command == "pkey-set":
                    port.p_keys = [0xFFFF, 0, 0, 0x8055]
                elif self.command != "apply":
                    port.m_key = 0x77
                elif port.p_keys[1:]:
                    port.p_keys = [port.p_keys[0], 0x8055]
            return
        opensm = self.world.opensms[0]
        if self.command == "apply":
            opensm.policy.write_text(f"{opensm.policy.read_text()}more=0x0055 : ALL=limited ;\n")
        option = {"harden": "part_enforce in", "mkey-deploy": f"m_key {_THEIRS}"}.get(self.command, f"sm_key {_THEIRS}")
        rest = re.sub(rf"^{option.split()[0]} .*\n", "", opensm.conf.read_text(), flags=re.MULTILINE)
        opensm.conf.write_text(f"{rest}{option}\n")

    def go_to_another_subnet(self) -> None:
        """It dies in the middle, and what follows is typed on another subnet, with the same stores: an HCA may have its
        other port there."""
        self.interrupt()
        (folder := self.folder / "other").mkdir(mode=0o700)
        names, self.world = self.world.names, World(_FABRIC, folder)
        self.world.names = names
        for hardware in self.world.net.nodes:
            replace_hca(hardware, step=0x100000)
        self._enter()

    def lose(self, *stores: str) -> None:
        """Lose stores."""
        for path in (path for store in stores for path in self.folder.glob(f"{store}.db*")):
            path.unlink()

    def restore(self, is_older: bool = False) -> None:
        """It dies in the middle, both stores are lost, and a backup of before, or of then, is restored."""
        if is_older:
            self.must("pkey-add -D 0,1 2 0x0033 --yes --force")
            self.operation += 1
            self.must("keystore backup {dir}/backup")
        self.interrupt()
        if not is_older:
            self.must("keystore backup {dir}/backup")
        self.lose("keys", "journal")
        self.must("keystore restore {dir}/backup")


def _lost(store: str) -> Callable[[Scene], None]:
    def lose(scene: Scene) -> None:
        scene.interrupt()
        scene.lose(store)

    return lose


def _lowered(scene: Scene) -> None:
    scene.wait()
    scene.go("undo", "--unconfirmed")


STATES: Final[dict[str, Callable[[Scene], None]]] = {
    "after --first": lambda scene: scene.begin("--first 1"),
    "no file yet": Scene.die_before_a_file,
    "interrupted": Scene.interrupt,
    "host silent": Scene.lose_a_host,
    "host back": partial(Scene.lose_a_host, is_back=True),
    "unconfirmed": Scene.wait,
    "back cut off": lambda scene: scene.stand("going-back", "done"),
    "back refused": lambda scene: scene.stand("refused", "open"),
    "level lowered": _lowered,
    "finished": Scene.begin,
    "undo cut off": lambda scene: scene.undo(scene.way.stop),
    "undone": Scene.undo,
    "taken back": lambda scene: (scene.die_before_a_file(), scene.go("undo"))[0],
    "manager gone": Scene.lose_the_manager,
    "SM host away": Scene.lose_the_standby,
    "SM host back": partial(Scene.lose_the_standby, is_back=True),
    "overtaken": Scene.be_overtaken,
    "other subnet": Scene.go_to_another_subnet,
    "keys lost": _lost("keys"),
    "journal lost": _lost("journal"),
    "restored": Scene.restore,
    "old restored": partial(Scene.restore, is_older=True),
}
OF_OPENSM: Final = ("no file yet", "level lowered", "taken back", "manager gone", "SM host away", "SM host back")
"""What befalls an operation only where it goes through OpenSM."""
OF_OWN_SETS: Final = ("after --first",)
"""What befalls it only where ibkeys sends the Sets."""
