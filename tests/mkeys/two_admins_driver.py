"""Run by test_two_admins.py: two administrators with two stores change one subnet in a random order, and die in it.

    two_admins_driver.py DIRECTORY STEPS SEED...

Each sits on a host of its own and knows the other's keys only where he copies them, as a user would with `keystore
export` and `keystore import`. After each command: the key of every port is in a store; a command that goes on or back
changed only what held a value that its operation found or wrote; and "nothing to change" has changed nothing. The
points at which a command dies are those of `run_apart`, with crashpoint.c preloaded.
"""

from __future__ import annotations

import importlib
import io
import os
import pkgutil
import random
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from unittest.mock import patch

import ibkeys
from ibkeys.cli import main as run_ibkeys
from ibkeys.sim.nodes import SimPort
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import Runs
from ibkeys.store.keystore.keystore import KeyStore
from tests.corpus import DATA
from tests.crashpoints.apart import run_apart
from tests.fabricsim import subnet

FABRIC: Final = "two-switch"
BACKEND: Final = f"sim:{DATA / 'fabrics' / FABRIC}.net"
HOSTS: Final = {"anna": "node01 mlx4_0", "bert": "node02 mlx4_0"}
SILENCED: Final = [f"node0{number} mlx4_0" for number in range(3, 7)]
"""Hosts that may be away."""
PARTITIONS: Final = ("0x0010", "0x8020", "0x8030")
KILLS: Final = 0.4
"""The share of commands that die."""
MOST_POINTS: Final = 700
"""A command has fewer points than that, so some deaths come after its end."""
NOTHING: Final = "nothing to change"
EXIT_CODES: Final = range(5)
ALWAYS: Final = ("deploy", "rotate", "remove", "add", "copy", "host")
AFTER_KEYS: Final = ("on", "on", "back", "back", "rotate")
AFTER_TABLES: Final = ("undo",)
"""What an administrator may do, some of it only when he has something to go back from."""

Setting = tuple[int, int, int]
"""M_Key, level and lease of a port."""
Table = dict[int, int]
"""The P_Keys of a port by index."""
Fact = tuple[str, str, int]
"""What of a port may change: ("m_key", name, 0), or ("p_key", name, index)."""
Facts = dict[Fact, tuple[int, ...]]


@dataclass
class Operation:
    """One operation of an administrator: what it found, and each value that it wrote."""

    found: Facts
    wrote: dict[Fact, set[tuple[int, ...]]] = field(default_factory=dict)

    def may_replace(self, fact: Fact, value: tuple[int, ...]) -> bool:
        return value == self.found.get(fact) or value in self.wrote.get(fact, set())

    def note(self, before: Facts, after: Facts) -> None:
        for fact, value in after.items():
            if value != before[fact]:
                self.wrote.setdefault(fact, set()).add(value)


@dataclass
class Admin:
    """One of the two: where he sits, his stores, and the last operation of each kind."""

    name: str
    folder: Path
    keys: Operation | None = None
    tables: list[Operation] = field(default_factory=list)

    @property
    def store(self) -> Path:
        return self.folder / "keys.db"

    def last_run(self) -> int:
        """Return the operation of the last run, 0 if there was none."""
        with Journal.read(self.folder / "journal.db") as journal:
            last = Runs(journal).last()
        return 0 if last is None else last.id

    def last_table(self) -> int | None:
        """Return the last change of a table that was not undone."""
        with Journal.read(self.folder / "journal.db") as journal:
            found = [each.id for each in journal.list_operations() if each.command == "pkey-add"]
            return next((each for each in reversed(found) if journal.find(each).state != "undone"), None)

    def known_keys(self) -> set[tuple[int, int]]:
        """Return every key that the store has for a port, with the GUID of the port."""
        with KeyStore(self.store) as store:
            return {(guid, key.reveal()) for guid, keys in store.all_keys().items() for key in keys}


class Site:
    """The subnet and its two administrators."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.net = subnet(FABRIC, seed)
        self.random = random.Random(seed)
        self.admins = []
        for name in HOSTS:
            (folder / name).mkdir(parents=True)
            self.admins.append(Admin(name, folder / name))
        self.history: list[str] = []

    # --- the fabric ---------------------------------------------------------------------------------------------------

    def facts(self) -> Facts:
        """Return all that a command may change on a port, by what it is of."""
        facts: Facts = {}
        for port in self.end_ports():
            facts["m_key", str(port), 0] = (port.m_key, port.protect_bits, port.lease_period)
        for node in self.net.nodes:
            for port in node.ports:
                facts |= {("p_key", str(port), index): (key,) for index, key in enumerate(port.p_keys)}
        return facts

    def end_ports(self) -> Iterator[SimPort]:
        for node in self.net.nodes:
            for port in node.end_ports:
                if port.is_up or port.number == 0:
                    yield port

    # --- commands -----------------------------------------------------------------------------------------------------

    def run(self, admin: Admin, *words: str, may_die: bool = True) -> tuple[int, str]:
        """Run a command of *admin*, which may die in it; return its exit code and all that it said."""
        said = admin.folder / "said"
        point = self.random.randrange(MOST_POINTS) if may_die and self.random.random() < KILLS else -1

        def work(started: Callable[[], None]) -> int:
            with said.open("w") as out, redirect_stdout(out), redirect_stderr(out), self._is_the_fabric():
                sys.stdin = io.StringIO()
                os.environ.update(self._environment(admin))
                started()
                try:
                    run_ibkeys([*words])
                except SystemExit as ended:
                    return int(ended.code or 0)
            raise AssertionError("the command did not exit")

        ended = run_apart(self.net, work, "kill" if point >= 0 else "count", max(point, 0))
        text = said.read_text()
        self.history.append(f"{admin.name}: {' '.join(words)} → {ended.code} {text.strip()[-300:]}")
        if ended.code not in EXIT_CODES and ended.code != -signal.SIGKILL:
            raise AssertionError(f"exit code {ended.code}: {text}")
        return ended.code, text

    def _is_the_fabric(self) -> AbstractContextManager[object]:
        return patch("ibkeys.sim.subnet.Subnet.from_file", lambda *args, **rest: self.net)

    def _environment(self, admin: Admin) -> Mapping[str, str]:
        return {
            "IBKEYS_BACKEND": BACKEND,
            "IBKEYS_AT": HOSTS[admin.name],
            "IBKEYS_KEYSTORE": str(admin.store),
            "IBKEYS_JOURNAL": str(admin.folder / "journal.db"),
            "HOME": str(admin.folder),
        }

    def change_keys(self, admin: Admin, *words: str) -> None:
        """Begin an operation on M_Keys, unless it is refused."""
        before, last = self.facts(), admin.last_run()
        _, text = self.run(admin, *words, "--yes")
        if admin.last_run() != last:
            admin.keys = Operation(before)
            admin.keys.note(before, self.facts())
        self.check(before, text)

    def go(self, admin: Admin, word: str) -> None:
        """Go on with the last operation on M_Keys, or back; nothing of anybody else's may be overwritten."""
        before, number = self.facts(), admin.last_run() or None
        if number is None:
            return
        _, text = self.run(admin, word, str(number), "--yes")
        after = self.facts()
        operation = admin.keys or Operation(before)
        self.check_ours(operation, before, after, text)
        operation.note(before, after)
        self.check(before, text)

    def change_table(self, admin: Admin, host: str, p_key: str) -> None:
        before = self.facts()
        self.run(admin, "pkey-add", "-G", f"0x{self.net.port(host, 1).guid:016x}", p_key, "--yes")
        operation = Operation(before)
        operation.note(before, self.facts())
        if operation.wrote:
            admin.tables.append(operation)

    def undo(self, admin: Admin) -> None:
        before, number = self.facts(), admin.last_table()
        if number is None:
            return
        _, text = self.run(admin, "undo", str(number), "--yes")
        after = self.facts()
        ours = Operation({}, {})
        for each in admin.tables:
            for fact, values in each.wrote.items():
                ours.wrote.setdefault(fact, set()).update(values)
                ours.wrote[fact].add(each.found[fact])
        self.check_ours(ours, before, after, text)
        again = Operation(before)
        again.note(before, after)
        if again.wrote:
            admin.tables.append(again)
        self.check(before, text)

    def copy_keys(self, source: Admin, target: Admin) -> None:
        """Let one take the keys of the other."""
        folder = target.folder / "files"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if self.run(source, "keystore", "export", str(folder), may_die=False)[0] == 0:
            self.run(target, "keystore", "import", str(folder), may_die=False)

    # --- what must hold -----------------------------------------------------------------------------------------------

    def check_ours(self, operation: Operation, before: Facts, after: Facts, text: str) -> None:
        for fact, value in before.items():
            if after[fact] != value and not operation.may_replace(fact, value):
                raise AssertionError(
                    f"{fact} was overwritten, which is not of this operation: {value}; it said: {text}"
                )

    def check(self, before: Facts, text: str) -> None:
        changed = [fact for fact, value in self.facts().items() if before[fact] != value]
        if changed and NOTHING in text:
            raise AssertionError(f"{NOTHING!r} was said, and {changed} changed")
        self.check_that_no_key_is_lost()

    def check_that_no_key_is_lost(self) -> None:
        known = set[tuple[int, int]]().union(*(each.known_keys() for each in self.admins))
        for port in self.end_ports():
            if port.m_key and (port.guid, port.m_key) not in known:
                raise AssertionError(f"the key of {port} is in no store")

    # --- one sequence -------------------------------------------------------------------------------------------------

    def act(self) -> None:
        admin, other = self.random.sample(self.admins, 2)
        level = self.random.choice(("0", "1", "2"))
        what = self.random.choice(
            (*ALWAYS, *(AFTER_KEYS if admin.keys else ()), *(AFTER_TABLES if admin.tables else ()))
        )
        match what:
            case "deploy":
                how = self.random.choice(("--per-port", "--same"))
                self.change_keys(admin, "mkey-deploy", how, "--protect", level, "--lease", "60", *self.first())
            case "rotate":
                self.change_keys(admin, "mkey-rotate", "--per-port", *self.first())
            case "remove":
                self.change_keys(admin, "mkey-remove", "--leave-open")
            case "on":
                self.go(admin, "resume")
            case "back":
                self.go(admin, "undo")
            case "add":
                host = self.random.choice([*HOSTS.values(), *SILENCED])
                self.change_table(admin, host, self.random.choice(PARTITIONS))
            case "undo":
                self.undo(admin)
            case "copy":
                self.copy_keys(other, admin)
            case "host":
                host = self.random.choice(SILENCED)
                self.net.silence(host, self.random.random() < 0.3)

    def first(self) -> tuple[str, ...]:
        return ("--first", "3") if self.random.random() < 0.2 else ()


def import_all() -> None:
    """Import what commands import when they need it, so that not every child has to."""
    for module in pkgutil.walk_packages(ibkeys.__path__, "ibkeys."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def main(directory: str, steps: str, *seeds: str) -> None:
    import_all()
    for seed in seeds:
        folder = Path(directory) / seed
        site = Site(folder, int(seed))
        try:
            for _ in range(int(steps)):
                site.act()
        except BaseException as error:
            print("\n".join(site.history), file=sys.stderr)
            raise SystemExit(f"seed {seed}: {error!r}") from error
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
