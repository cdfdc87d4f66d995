"""Run by test_crash.py: a process that dies at its n-th step, for every n, each time in a directory of its own.

A step is each file that is opened or directory that is made, and each SQL statement. What a method promised when it
returned is noted in the file ``promised``: the names of the keys that must be found from then on. ``end`` says how many
steps there are.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from ibkeys.keys.smkey import SMKey
from ibkeys.store import sqlite
from ibkeys.store.journal import Image, Journal
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.sealing import Cost, Passphrase
from ibkeys.store.keystore.sm_keys import SmKeys
from ibkeys.store.moving_runs import move_run_between
from ibkeys.store.opensm import KEY_FILES, KeyFiles, write_key_files
from ibkeys.store.snapshot import write_snapshot
from tests.dying import at_each_step, crash

KEYS = {name: MKey(0x1111111111111111 * number) for number, name in enumerate("ABCD", 1)}
PORT_GUID = 0x0002C90300A1B2C3
STORES = Path(__file__).parents[1] / "data" / "stores"

steps_left = -1  # negative: not counting


def step(*_: object) -> None:
    global steps_left
    if steps_left == 0:
        crash()
    steps_left -= 1


def audit(event: str, arguments: tuple[object, ...]) -> None:
    if steps_left >= 0 and event in ("open", "os.mkdir", "os.rename", "os.remove", "sqlite3.connect"):
        step()


def promise(directory: Path, text: str) -> None:
    global steps_left
    kept, steps_left = steps_left, -1
    with (directory / "promised").open("a") as file:
        file.write(text)
    steps_left = kept


def use_key_store(directory: Path) -> None:
    store = KeyStore(directory / "made" / "keys.db")
    first = store.put_pending(1, PORT_GUID, 1, KeySetting(KEYS["B"], 2, 60), KeySetting(KEYS["A"], 2, 60))
    promise(directory, "AB")
    store.promote(first)
    second = store.put_pending(1, PORT_GUID, 1, KeySetting(KEYS["C"], 2, 60), KeySetting(KEYS["B"], 2, 60))
    promise(directory, "C")
    store.abandon(second)
    store.put_pending(1, PORT_GUID, 1, KeySetting(KEYS["D"], 2, 60), None)
    promise(directory, "D")
    store.close()


def use_sm_keys(directory: Path) -> None:
    store = KeyStore(directory / "keys.db")
    keys = SmKeys(store)
    names = {name: SMKey(key.reveal()) for name, key in KEYS.items()}
    keys.put_imported("sa_key", names["A"])
    promise(directory, "A")
    first = keys.put_pending("sa_key", names["B"])
    promise(directory, "B")
    keys.promote(first)
    keys.abandon(keys.put_pending("sa_key", names["C"]))
    promise(directory, "C")
    keys.put_pending("sa_key", names["D"])
    promise(directory, "D")
    store.close()


def use_encryption(directory: Path) -> None:
    store = KeyStore(directory / "keys.db")
    store.put_imported(PORT_GUID, KEYS["A"])
    promise(directory, "A")
    store.encrypt(Passphrase(lambda: "first"), Cost(n=4))
    promise(directory, "1")
    store.put_imported(PORT_GUID, KEYS["B"])
    promise(directory, "B")
    store.encrypt(Passphrase(lambda: "second"), Cost(n=4))
    promise(directory, "2")
    store.decrypt()
    promise(directory, "0")
    store.close()


def use_key_files(directory: Path) -> None:
    for name in "AB":
        files = KeyFiles({PORT_GUID: KEYS[name]}, {(1, 1): (2, 2)}, {PORT_GUID: (1, 1)})
        write_key_files(directory / "made", files, KEY_FILES)
        promise(directory, name)


def use_journal(directory: Path) -> None:
    with Journal(directory / "journal.db") as journal, journal.operation("pkey-set") as operation:
        for number in range(4):
            image = Image(1, 2, "n", "ca", 1, 1, "P_KeyTable", number, bytes(64), b"\xff" * 64)
            [entry] = operation.record_all([image])
            promise(directory, str(number))
            entry.done()


def take_snapshots(directory: Path) -> None:
    """An earlier snapshot is there; a later one takes its place."""
    global steps_left
    kept, steps_left = steps_left, -1
    earlier, later = ([("note",)], [("note",), ("another",)])
    write_snapshot(directory / "fabric.db", {"notes": earlier})
    steps_left = kept
    write_snapshot(directory / "fabric.db", {"notes": later})
    promise(directory, "later")


def bring_up_to_date(version: str, directory: Path) -> None:
    """The stores of an earlier version that was interrupted in a rotation are there."""
    global steps_left
    kept, steps_left = steps_left, -1
    for name in ("keys.db", "journal.db"):
        shutil.copyfile(STORES / version / "rotate-cut-off" / name, directory / name)
        (directory / name).chmod(0o600)
    steps_left = kept
    move_run_between(directory / "keys.db", directory / "journal.db", dry_run=False)
    promise(directory, "moved")


USES = {
    "70c34ae": partial(bring_up_to_date, "70c34ae"),
    "3eed0cee": partial(bring_up_to_date, "3eed0cee"),
    "keys": use_key_store,
    "sm_keys": use_sm_keys,
    "encryption": use_encryption,
    "files": use_key_files,
    "journal": use_journal,
    "snapshot": take_snapshots,
}


def crash_everywhere(directory: Path, work: Callable[[Path], None]) -> None:
    connect = sqlite.connect

    def traced(path: Path | None, read_only: bool) -> object:
        connection = connect(path, read_only)
        connection.set_trace_callback(step)
        return connection

    sqlite.connect = traced  # type: ignore[assignment]
    sys.addaudithook(audit)
    import sqlite3  # noqa: F401  (its own files are not steps)

    at_each_step(directory, lambda place, number: die_in(work, place, number))


def die_in(work: Callable[[Path], None], place: Path, steps: int) -> None:
    global steps_left
    steps_left = steps
    work(place)


if __name__ == "__main__":
    crash_everywhere(Path(sys.argv[2]), USES[sys.argv[1]])
