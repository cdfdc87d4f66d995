"""Makes a scenario, and the recording of it: all that each of its commands says, sends, writes and keeps."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shlex
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

from ibkeys.cli import exits, main
from ibkeys.mad import offsets as at
from ibkeys.mad.const import SMP_CLASSES, AttributeID, Method, MgmtClass
from ibkeys.umad.port import Outgoing
from tests.recordings.world import World

GIVEN: Final = (0x9C4E21D7B05A63F8, 0x0BADC0FFEE0DDF00, 0x5E11A7C0FFEE0003)
"""Keys that scenarios give, as given1.key to given3.key."""
_FIRST_BYTES: Final = {MgmtClass.SUBN_ADM: 56, MgmtClass.PERF_MGMT: 64}
"""Where the data of a GMP begins."""
_WIDTH: Final = 160
_WHOLE: Final = {"text", "out", "err", "events"}
"""Names of what always has a line for each of its values."""
_SUMMED: Final = ("links", "lids")
"""Tables of which only the number of rows and a digest are kept."""
_TIMES: Final = ("since", "seen", "started", "finished", "when", "taken")
_OWNERS: Final = ("uid", "gid")
_SAID_BY_THE_GUID: Final = ("node_guid", "node_desc", "node_type", "lid")
_MOST_TEXT, _MOST_BYTES = 1200, 260
"""Characters of a text and of bytes in a row; of more, such as a plan, a digest is kept. Files are events too."""
_MOST_LINES: Final = 20
"""Lines of a file that is there at the beginning."""
_STORES: Final = {"journal": "journal.db", "keys": "keys.db"}
_NOT_WATCHED: Final = {"proc", "cache", "state", "opensm-subnet.lst"}


class Killed(BaseException):
    """The end of this process, as far as a recording can make one: no handler of errors sees it."""


@dataclass(frozen=True, slots=True)
class Stop:
    """What happens to a command before the *number*-th thing of a *kind*; of ``rest`` only what is to change something
    counts. ``how``: its end, or what is done to the world."""

    kind: Literal["set", "signal", "sleep", "rest"]
    number: int = 1
    how: Literal["interrupted", "killed"] | Callable[[World], object] = "interrupted"

    def __str__(self) -> str:
        how = self.how if isinstance(self.how, str) else self.how.__name__.strip("_")
        return f"{how} before {self.kind} {self.number}"


@dataclass(frozen=True, slots=True)
class Command:
    """One command line. ``{dir}`` in *words* is the folder of the scenario, ``{ufm}`` the URL of its UFM.

    ``before``: done to the world before it. ``is_recorded``: False for one that only prepares what follows.
    ``has_json``: whether it has ``-f json``.
    """

    words: str
    stop: Stop | None = None
    before: Callable[[World], object] | None = None
    is_recorded: bool = True
    has_json: bool = True

    @property
    def name(self) -> str:
        """The command, of a group with its subcommand."""
        first, *rest = shlex.split(self.words)
        return f"{first} {rest[0]}" if first == "keystore" else first


@dataclass(frozen=True, slots=True)
class Scenario:
    """Commands on one fabric, one after the other. ``begin``: makes the world what it is before the first."""

    name: str
    commands: Sequence[Command]
    fabric: str = "two-switch"
    begin: Callable[[World, ExitStack], object] = lambda world, stack: None


def record(scenario: Scenario) -> dict[str, Any]:
    """Make a scenario, once for documents and once for people, and return its recording.

    Raises AssertionError if these two differ in more than in what is printed.
    """
    documents, texts = (_Run(scenario, as_json).make() for as_json in (True, False))
    for document, text in zip(documents["commands"], texts["commands"], strict=True):
        document["text"] = text.pop("text")
        if {name: document[name] for name in text} != text:
            raise AssertionError(f"{scenario.name}: {text['command']}: -f json changes what it does")
    return documents


def written(recording: dict[str, Any]) -> str:
    """Return a recording as it is kept: what is short in one line, and each line of words, so that a difference can be
    read."""
    return _lines(recording, "") + "\n"


def _lines(value: Any, margin: str, is_whole: bool = False) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if (len(margin + text) <= _WIDTH and not is_whole) or not value or not isinstance(value, dict | list):
        return text
    inner = margin + " "
    if isinstance(value, dict):
        parts = [f"{json.dumps(name)}: {_lines(value[name], inner, name in _WHOLE)}" for name in sorted(value)]
        return f"{{\n{inner}" + f",\n{inner}".join(parts) + f"\n{margin}}}"
    return f"[\n{inner}" + f",\n{inner}".join(_lines(each, inner) for each in value) + f"\n{margin}]"


@dataclass
class _Run:
    """A scenario while it is made. ``files``: those that are watched, as they were last."""

    scenario: Scenario
    as_json: bool
    files: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    stores: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    events: list[Any] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    stop: Stop | None = None

    def make(self) -> dict[str, Any]:
        """Make it, and return what is recorded."""
        with TemporaryDirectory(dir="/tmp") as folder, ExitStack() as stack:
            self.folder = Path(folder)
            self.world = World(self.scenario.fabric, self.folder)
            for number, key in enumerate(GIVEN, 1):
                self.world.names.give(key)
                self._keep(f"given{number}.key", f"{key:#018x}\n")
            self.scenario.begin(self.world, stack)
            self.world.seen, self.world.wrote = self.seen, self._look
            self._look()
            self.begun = {name: self._content(mode, data) for name, (mode, data) in self.files.items()}
            for each in self.begun.values():
                if len(each["lines"]) > _MOST_LINES:
                    each["lines"] = _digest(self._text("\n".join(each["lines"])))
            with self.world.entered():
                commands = [found for each in self.scenario.commands if (found := self._command(each)) is not None]
        found = {"fabric": self.scenario.fabric, "files": self._clean(self.begun), "commands": commands}
        self.world.names.refuse_keys_in(json.dumps(found))
        return found

    def _keep(self, name: str, text: str) -> None:
        path = self.folder / name
        path.touch(0o600)
        path.write_text(text)

    # --- what happens -------------------------------------------------------------------------------------------------

    def seen(self, kind: str, what: Any) -> None:
        """Record one thing that is about to happen, and stop there if that is wanted."""
        if kind == "mad":
            kind = "set" if what.mad[at.METHOD] == Method.SET else "get"
        if kind == "get":
            self.asked.append(_described(what))
            return
        if kind == "rest" and what.startswith("GET "):
            self.asked.append(what.replace(" ", " REST to ", 1))
            return
        self._files_changed()
        self.counts[kind] += 1
        if self.stop is not None and (self.stop.kind, self.stop.number) == (kind, self.counts[kind]):
            self._stop(self.stop)
        if kind == "set":
            self.events.append(_described(what))
        elif kind != "sleep":
            self.events.append(f"{kind} {what}")

    def _stop(self, stop: Stop) -> None:
        self.stop = None
        self.events.append(str(stop))
        if stop.how == "killed":
            raise Killed
        if stop.how == "interrupted":
            signal.raise_signal(signal.SIGINT)
        else:
            stop.how(self.world)

    def _files_changed(self) -> None:
        before = dict(self.files)
        self._look()
        for name in sorted(before.keys() | self.files.keys()):
            if before.get(name) != self.files.get(name):
                content = self._content(*self.files[name]) if name in self.files else "removed"
                self.events.append({"file": name, "now": content})

    def _look(self) -> None:
        """Read the files that are watched."""
        self.files = {
            str(path.relative_to(self.folder)): (path.stat().st_mode & 0o7777, path.read_bytes())
            for path in sorted(self.folder.rglob("*"))
            if _is_watched(path.relative_to(self.folder)) and path.is_file()
        }

    @staticmethod
    def _content(mode: int, data: bytes) -> dict[str, Any]:
        try:
            lines = data.decode().splitlines()
        except UnicodeDecodeError:
            lines = [f"{data[:15]!r}, not text"]
        return {"mode": f"{mode:04o}", "lines": lines}

    # --- one command --------------------------------------------------------------------------------------------------

    def _command(self, command: Command) -> dict[str, Any] | None:
        if command.before is not None:
            command.before(self.world)
            self._look()
        self.events, self.asked, self.stop = [], [], command.stop
        self.counts.clear()
        places = {"dir": str(self.folder), "ufm": f"ufm:{self.world.ufm.url}" if self.world.ufm is not None else ""}
        words = shlex.split(command.words.format(**places))
        code, out, err = self._ended([*words, *(["-f", "json"] if command.has_json and self.as_json else [])])
        if self.stop is not None:
            raise AssertionError(f"{self.scenario.name}: {command.words}: it never came to {self.stop}")
        told = self.world.told_guard()
        if not command.is_recorded:
            if code not in (0, 1):
                raise AssertionError(f"{self.scenario.name}: {command.words}: {code}: {err}")
            self._look()
            self._new_rows()
            return None
        self._files_changed()
        found: dict[str, Any] = {
            "command": command.words,
            "exit": code,
            "events": self.events,
            "asked": self._questions(),
        }
        if command.stop is not None:
            found["stop"] = str(command.stop)
        if told:
            found["guard"] = told
        found["stores"] = self._new_rows()
        if not self.as_json:
            found["text"] = {"out": out.splitlines(), "err": err.splitlines()}
        elif command.has_json:
            found["documents"] = _documents(out)
        return self._clean(found)

    def _ended(self, words: list[str]) -> tuple[int | str, str, str]:
        """Run a command, and return its exit code and what it wrote."""
        out, err, stdin = io.StringIO(), io.StringIO(), sys.stdin
        sys.stdin = io.StringIO("")
        code: int | str | None = "killed"
        try:
            with redirect_stdout(out), redirect_stderr(err):
                main(words)
        except SystemExit as ended:
            code = ended.code
        except Killed:
            pass
        finally:
            sys.stdin = stdin
            exits.show_frames(False)
        return code if code is not None else 0, out.getvalue(), err.getvalue()

    def _questions(self) -> dict[str, Any]:
        """Return what was asked: how often for each attribute, and a digest of all in their order."""
        text = self._text("\n".join(self.asked))
        counts = Counter(each.partition(" to ")[0].partition(" 0x")[0] for each in text.splitlines())
        return {**counts, "digest": _digest(text)} if self.asked else {}

    def _clean(self, value: Any) -> Any:
        return self.world.names.clean(_replaced(value, self._places()))

    def _text(self, text: str) -> str:
        found: str = self._clean(text)
        return found

    def _places(self) -> dict[str, str]:
        places = {str(self.folder): "DIR"}
        if self.world.ufm is not None:
            places[self.world.ufm.url] = "UFM"
        return places

    # --- what is kept -------------------------------------------------------------------------------------------------

    def _new_rows(self) -> dict[str, list[str]]:
        """Return the rows of journal and key store that are new, changed or gone since the last command."""
        found: dict[str, list[str]] = {}
        for store, file in _STORES.items():
            now = {name: dict(rows) for name, rows in self._tables(self.folder / file)}
            before = self.stores.get(store, {})
            for table in sorted(now.keys() | before.keys()):
                rows, old = now.get(table, {}), before.get(table, {})
                lines = [text for name, text in rows.items() if old.get(name) != text]
                lines += [f"gone: {text}" for name, text in old.items() if name not in rows]
                if lines and table in _SUMMED:
                    lines = [f"{len(rows)} rows, {_digest(chr(10).join(rows.values()))}"]
                if lines:
                    found[f"{store}.{table}"] = lines
            self.stores[store] = now
        return found

    def _tables(self, path: Path) -> Iterator[tuple[str, Iterator[tuple[str, str]]]]:
        """Yield each table of a store with its rows: what names a row → the row as a line."""
        if not path.exists():
            return
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
            names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
            for (table,) in store.execute(names).fetchall():
                columns = store.execute(f"PRAGMA table_info({table})").fetchall()
                keys = [column[1] for column in columns if column[5]] or [columns[0][1]]
                rows = store.execute(f"SELECT * FROM {table} ORDER BY {', '.join(keys)}")
                header = [column[0] for column in rows.description]
                yield table, iter([self._row(dict(zip(header, row, strict=True)), keys) for row in rows.fetchall()])

    def _row(self, row: dict[str, Any], keys: list[str]) -> tuple[str, str]:
        shown = {
            name: value
            for name, value in row.items()
            if value is not None
            and name not in (*_TIMES, *_OWNERS)
            and not (name in _SAID_BY_THE_GUID and "port_guid" in row)
        }
        words = (f"{name}={self._short(value)}" for name, value in shown.items())
        return " ".join(str(row[name]) for name in keys), " ".join(words)

    def _short(self, value: Any) -> str:
        if isinstance(value, str):
            value = value.replace(f'"user": {os.geteuid()}', '"user": "OWN"')
        text = self._text(_value(value))
        return text if len(text) <= (_MOST_BYTES if isinstance(value, bytes) else _MOST_TEXT) else _digest(text)


def _is_watched(path: Path) -> bool:
    return (
        not {path.parts[0], path.name} & _NOT_WATCHED
        and not path.name.startswith(tuple(_STORES.values()))
        and path.suffix != ".lock"
    )


def _documents(text: str) -> list[Any]:
    """Return the JSON documents of standard output: one, or one in each line."""
    text = text.strip()
    if not text:
        return []
    try:
        return [json.loads(text)]
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return text.splitlines()


_ATTRIBUTES: Final = {int(each): each.name for each in AttributeID}
_METHODS: Final = {int(each): each.name for each in Method}


def _described(outgoing: Outgoing) -> str:
    """Return a MAD in a line: method, attribute, modifier, way and M_Key, and of a Set what it sets."""
    mad, kind = outgoing.mad.ljust(256, b"\0"), outgoing.mad[at.MGMT_CLASS]
    is_smp = kind in SMP_CLASSES
    number, modifier = (int.from_bytes(mad[each]) for each in (at.ATTRIBUTE_ID, at.ATTRIBUTE_MODIFIER))
    attribute = _ATTRIBUTES.get(number, f"{number:#06x}") if is_smp else f"{number:#06x}"
    method = _METHODS.get(mad[at.METHOD], f"{mad[at.METHOD]:#x}")
    way = f"LID {outgoing.lid}"
    if kind == MgmtClass.SUBN_DIRECTED_ROUTE:
        way = ",".join(map(str, [0, *mad[at.INITIAL_PATH][1 : mad[at.HOP_COUNT] + 1]]))
    key = int.from_bytes(mad[at.M_KEY]) if is_smp else 0
    words = [method, *([] if is_smp else [f"class {kind:#04x}"]), attribute, f"{modifier:#x}", "to", way]
    words += [f"M_Key {key:016x}"] if key else []
    if mad[at.METHOD] == Method.SET:
        data = mad[at.DATA] if is_smp else mad[_FIRST_BYTES.get(MgmtClass(kind), 64) :]
        words.append(f": {data.rstrip(bytes(1)).hex()}")
    return " ".join(words)


def _value(value: Any) -> str:
    if not isinstance(value, bytes):
        return json.dumps(value, ensure_ascii=False)
    try:
        text = value.decode("ascii")
        is_text = len(value) != 8 and text.replace("\n", "").replace("\t", "").isprintable()
    except UnicodeDecodeError:
        is_text = False
    return json.dumps(text) if is_text else value.hex() if len(value) <= 8 else value.rstrip(bytes(1)).hex()


def _replaced(value: Any, places: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {_replaced(name, places): _replaced(each, places) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(each, places) for each in value]
    if isinstance(value, str):
        for found, name in places.items():
            value = value.replace(found, name)
    return value


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
