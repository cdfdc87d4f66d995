"""A terminal of 80 columns: what is for people fits it, has colour where that is wanted, and is the same text."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from ibkeys.cli import COMMANDS, GROUPS, main
from ibkeys.cli.screen.colour import plain
from ibkeys.fabric.snapshot import take_snapshot
from ibkeys.fabric.snapshot_file import save_snapshot
from ibkeys.keys.fingerprint import Fingerprints
from tests.cli.conftest import Result, Terminal, on_terminal, run
from tests.cli.screen.screen import shown_lines
from tests.corpus import DATA
from tests.fabricsim import subnet, tool
from tests.host.kernel.trees import connectx

WIDTH = 80
HOST = "-gpu-cluster-west-rack07-chassis-b.example.org mlx5_0"


@dataclass(frozen=True)
class Place:
    """A simulated fabric with long names, and files about it."""

    folder: Path

    @property
    def backend(self) -> str:
        return f"sim:{self.folder / 'fabric.net'},state={self.folder / 'state'},sm=0x0002c903000a1010"

    def words(self, text: str) -> list[str]:
        """Return the words of a command, with the files that it names; the fabric where it takes one."""
        words = [word.replace("@", f"{self.folder}/") for word in text.split()]
        command = main.get_command(click.Context(main), words[0])
        assert command is not None
        takes = any("--backend" in param.opts for param in command.params)
        return [*words, *(["--backend", self.backend] if takes and "--from" not in words else [])]


DEFAULT = "Default=0x7fff,ipoib : ALL=full;\n"
LUSTRE = "lustre_filesystem_of_the_west=0x21 : 0x0002c903000a1021=full, 0x0002c903000a1031=limited;\n"
OTHER = "lustre_filesystem_of_the_west=0x21 : 0x0002c903000a1021=limited, 0x0002c903000a1051=full;\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A fabric of which two snapshots differ, with a plan and a journal."""
    there = Place(tmp_path_factory.mktemp("t"))
    net = (DATA / "fabrics" / "two-switch.net").read_text()
    net = re.sub(r'"(node\d\d) mlx4_0"', rf'"\1{HOST}"', net)
    net = net.replace("switch-a:IS5023", "leaf-switch-a.rack07.west.example.org:MQM8700")
    (there.folder / "fabric.net").write_text(net)
    connectx(there.folder / "sys", ports=8)
    (there.folder / "a.conf").write_text(DEFAULT + LUSTRE)
    (there.folder / "b.conf").write_text(DEFAULT.replace("full", "limited, SELF=full") + OTHER)
    (there.folder / "days").mkdir()
    steps = (
        "snapshot --into @days",
        "snapshot @1.snap",
        "plan --policy @a.conf --out @plan.json",
        "apply @plan.json --yes --force",
    )
    for step in (*steps, "pkey-add 4 0x8010 0x8011 --yes --force", "enforce-set 7 2 --outbound on --yes --force"):
        done = run(*there.words(step))
        assert done.code == (1 if step.startswith("plan") else 0), done.err
    assert run(*there.words("snapshot @2.snap")).code == 0
    assert (there.folder / "state.journal").exists(), [*there.folder.iterdir(), *os.environ]
    return there


SHOWN = [
    "pkey-show --all",
    "pkey-show --all --each",
    "pkey-show 2",
    "mkey-show --all",
    "mkey-show --all --each",
    "mkey-show 7",
    "port-show --enforcement --all",
    "port-show --enforcement --all --each",
    "port-show --caps --all",
    "port-show --caps --all --each",
    "port-show --counters --all",
    "port-show --counters --all --each",
    "port-show --counters 2",
    "classkey-show --all --ask-unkeyed",
    "classkey-show --all --each",
    "classkey-show 2 --class b",
    "host-show --sysfs @sys",
    "host-show --sysfs @sys --each --partition 0x0033",
    "discover",
    "discover --names",
    "sm-show",
    "matrix",
    "matrix --pairs",
    "why 2 3",
    "audit",
    "audit --policy @b.conf --baseline @1.snap",
    "audit --explain MK001",
    f"import {DATA}/dumps/keyed.cache --out @imported.db",
    "report @pages",
    "compare --policy @b.conf",
    "compare --policy @b.conf --full --each",
    "diff @1.snap @2.snap",
    "diff @1.snap @2.snap --reach",
    "diff @1.snap @2.snap --reach --pairs",
    "history 0x0010 @days",
    "history 2 @days",
    "snapshot @3.snap",
    "watch --for 1",
    "doctor",
    "plan --policy @b.conf",
    "plan --policy @b.conf --each",
    "policy-check @a.conf",
    "policy-diff @a.conf @b.conf",
    "policy-diff @a.conf @b.conf --each",
    "compare --ipoib --policy @a.conf",
    "journal",
    "journal 1",
    "apply @plan.json --dry-run",
    "undo 1 --dry-run",
    "undo 1",
    "pkey-set 2 9=0x8012 --dry-run",
    "pkey-remove 4 0x8010 --dry-run",
    "mkey-deploy --same --protect 1 --lease 60 --dry-run",
    "keystore list",
    "decode " + "01810101" + "00" * 252,
    "pkey-check 0x1 0x8002",
    "pkey-explain 0x8001",
    "qkey-explain 0x80010000",
]
NOT_FOR_PEOPLE = {"export"}
"""Commands of "Show" and "Check" whose text is for a program."""


def test_every_command_that_shows_or_checks_is_here() -> None:
    there = {words.split()[0] for words in SHOWN}
    assert {*GROUPS["Show"], *GROUPS["Check"]} - there == NOT_FOR_PEOPLE


def lines_of(result: Result) -> list[str]:
    """Return the lines of a result as they stand on the terminal; a bar of progress is gone at the end."""
    return [plain(line) for line in (*result.out.splitlines(), *shown_lines(result.err))]


@pytest.mark.parametrize("words", SHOWN)
def test_no_line_is_wider_than_the_terminal(words: str, place: Place) -> None:
    result = on_terminal(*place.words(words), stdin=Terminal("n\n"), columns=WIDTH)
    assert result.out or result.err
    assert [line for line in lines_of(result) if len(line) > WIDTH] == []


WIDE = [words for words in SHOWN if words.split()[0] in {"discover", "audit", "plan", "compare", "policy-diff", "diff"}]


@pytest.mark.parametrize("words", WIDE)
def test_no_name_and_no_guid_is_broken_or_lost(words: str, place: Place) -> None:
    given = place.words(words)
    narrow, wide = (" ".join(plain(on_terminal(*given, columns=width).out).split()) for width in (WIDTH, 1000))
    for value in {*re.findall(rf"node\d\d{HOST}|0x[0-9a-f]{{16}}|0x[0-9a-f]{{4}}", wide)}:
        assert value in narrow
    lines = plain(on_terminal(*given, columns=WIDTH).out).splitlines()
    assert not [line for line in lines if re.search(r"(node\d\d-gpu[^ ]*|0x[0-9a-f]{5,15})$", line)]


# --- colour -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "role", "said"),
    [
        ("audit", "1;critical", "CRITICAL"),
        ("audit", "31", "HIGH"),
        ("diff @1.snap @2.snap", "32", "P_Key 0x8010 added at index"),
        ("plan --policy @b.conf", "33", "0: 0xffff -> 0x7fff"),
        ("undo 1 --dry-run", "31", "1: 0x8021 -> -"),
        ("policy-diff @a.conf @b.conf", "32", "joins as full"),
        ("policy-diff @a.conf @b.conf", "31", "leaves, was limited"),
        ("compare --policy @b.conf", "33", "differ"),
        ("pkey-set 2 9=0x8012 --dry-run", "32", "P_Key[9]: - -> 0x8012"),
        ("mkey-show --all", "33", "zero"),
        ("mkey-show 2", "33", "not set (0)"),
        ("why 2 3", "32", "can talk"),
        ("doctor", "32", "ok"),
    ],
)
def test_severity_and_change_have_colour_on_a_terminal(words: str, role: str, said: str, place: Place) -> None:
    shown = on_terminal(*place.words(words), columns=200)
    painted = [text for style, text in re.findall(r"\x1b\[([0-9;]+)m([^\x1b]*)", shown.out) if style != "0"]
    assert any(said in text for text in painted), shown.out + shown.err
    if role.isdigit():
        assert f"\x1b[{role}m" in shown.out


SAME = [
    "audit",
    "diff @1.snap @2.snap",
    "plan --policy @b.conf",
    "policy-diff @a.conf @b.conf --each",
    "journal 1",
]


def without_times(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\dT[0-9:]+Z", "TIME", text)


@pytest.mark.parametrize("words", SAME)
def test_the_text_is_the_same_with_and_without_colour(words: str, place: Place) -> None:
    given = place.words(words)
    for width in (WIDTH, 200):
        coloured, bare = (
            without_times(on_terminal(*given, "--color", wish, columns=width).out) for wish in ("always", "never")
        )
        assert "\x1b" not in bare
        assert plain(coloured) == bare
    piped, forced = (without_times(run(*given, *more).out) for more in ((), ("--color", "always")))
    assert "\x1b" not in piped
    assert plain(forced) == piped
    assert ("\x1b" in forced) == (words != "journal 1")


@pytest.mark.parametrize("format", ["json", "csv", "sarif", "junit", "html"])
def test_what_is_for_programs_has_no_colour(format: str, place: Place) -> None:
    out = on_terminal(*place.words("audit"), "--color", "always", "-f", format).out
    assert out
    assert "\x1b[" not in out
    if format in ("json", "sarif"):
        json.loads(out)


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb"), ("CLICOLOR", "0")])
def test_the_environment_turns_colour_off_and_always_turns_it_on(
    name: str, value: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(name, value)
    words = place.words("policy-diff @a.conf @b.conf")
    assert "\x1b[3" not in run(*words, stdout=Terminal).out
    assert "\x1b[3" in run(*words, "--color", "always", stdout=Terminal).out
    monkeypatch.setenv(name, {"NO_COLOR": "", "TERM": "xterm", "CLICOLOR": "1"}[name])
    assert "\x1b[3" in run(*words, stdout=Terminal).out
    monkeypatch.setenv("IBKEYS_COLOR", "never")
    assert "\x1b" not in run(*words, stdout=Terminal).out


@pytest.mark.parametrize("name", ["CLICOLOR_FORCE", "FORCE_COLOR"])
def test_the_environment_forces_colour_into_a_pipe_unless_it_refuses_it(
    name: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = place.words("policy-diff @a.conf @b.conf")
    for value in ("", "0"):
        monkeypatch.setenv(name, value)
        assert "\x1b" not in run(*words).out
    monkeypatch.setenv(name, "1")
    assert "\x1b[3" in run(*words).out
    assert "\x1b" not in run(*words, "--color", "never").out
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b[3" in run(*words).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run(*words).out


def test_every_command_takes_the_option() -> None:
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        for each in command.commands.values() if isinstance(command, click.Group) else [command]:
            assert each is not None
            assert any("--color" in param.opts for param in each.params), name


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two snapshots of a fabric with a node that calls itself by escape sequences, and has got a P_Key in between."""
    folder = tmp_path_factory.mktemp("hostile")
    net = subnet("two-switch")
    net.node("node03 mlx4_0").description_bytes = b"\x1b[31mred\x1b[0m \x1b]0;t\x07 x".ljust(64, b"\0")
    for name in ("1", "2"):
        with tool(net) as fabric:
            save_snapshot(folder / name, take_snapshot(fabric, Fingerprints.generate()))
        net.port("H-0002c903000a1030", 1).p_keys = [0xFFFF, 0x8123]
    return folder


@pytest.mark.parametrize("words", ["pkey-show --all", "pkey-show --all --each", "audit", "matrix", "discover", "diff"])
def test_a_name_from_the_fabric_paints_nothing(words: str, hostile: Path) -> None:
    given = (words, hostile / "1", hostile / "2") if words == "diff" else (*words.split(), "--from", hostile / "2")
    out = on_terminal(*given, "--color", "always", columns=WIDTH).out
    assert "[31mred" in out
    assert re.findall(r"\x1b(?!\[[0-9;]+m)", out) == []
    assert all("red" not in painted for painted in re.findall(r"\x1b\[[1-9][0-9;]*m([^\x1b]*)", out))
