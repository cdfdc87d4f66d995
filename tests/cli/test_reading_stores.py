"""Commands that read, and every --dry-run, leave the stores as they are: none is made, migrated or locked."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ibkeys.cli import COMMANDS
from tests.cli.conftest import SA_KEY, TWO_SWITCH, WITH_SA, key_argument, run
from tests.corpus import DATA
from tests.host.kernel.trees import mlx4_sriov
from tests.sample import one_in

STORES = DATA / "stores"
VERSIONS = ("none", "first", "70c34ae", "3eed0cee")
POLICY = "Default=0x7fff, ipoib : ALL=full ;\nblue=0x21 : 0x0002c903000a1021=full ;\n"
LEVEL = ("--protect", "2", "--lease", "60")
READING = (
    *((command, "--all") for command in ("pkey-show", "mkey-show", "port-show")),
    *((command,) for command in ("discover", "sm-show", "matrix", "audit", "policy-from", "doctor", "journal")),
    ("classkey-show", "2", "--class", "cc"),
    ("discover", "--names"),
    ("why", "node02 mlx4_0", "node03 mlx4_0"),
    ("journal", "1"),
    ("keystore", "list"),
    ("keystore", "list", "-K"),
    ("keystore", "export", "{out}/cache"),
    ("keystore", "export", "{out}/cache", "--guid2lid"),
    ("snapshot", "{out}/a.db", "--sa", "--smkey", "{sa_key}"),
    ("report", "{out}/report"),
    ("export",),
    ("compare", "--policy", "{policy}", "--smkey", "{sa_key}"),
    ("compare", "--ipoib", "--policy", "{policy}"),
    ("policy-check", "{policy}"),
    ("policy-diff", "{policy}", "{policy}"),
    ("partition-add", "--policy", "{policy}", "blue", "--full", "node04*"),
    ("partition-remove", "--policy", "{policy}", "blue", "node02*"),
    ("partition-add", "--policy", "{policy}", "red=0x22", "--out-of", "blue", "node02*"),
    ("partition-show", "blue", "--policy", "{policy}"),
    ("partition-rename", "--policy", "{policy}", "blue", "navy"),
    ("partition-delete", "--policy", "{policy}", "navy"),
    ("replace", "--policy", "{policy}", "0x2c903000a9991", "node04"),
    ("plan", "--policy", "{policy}", "--out", "{out}/plan.json"),
    ("watch", "--for", "1", "--smkey", "{sa_key}"),
    ("host-show", "--sysfs", "{sys}"),
)
DRY = (
    ("pkey-add", "3", "0x8021"),
    ("pkey-set", "3", "5=0x8021"),
    ("pkey-remove", "3", "0x8021"),
    ("enforce-set", "7", "3", "--inbound", "on"),
    ("counters-clear", "--all"),
    ("mkey-set", "5", "--protect", "2"),
    ("mkey-deploy", "--per-port", *LEVEL),
    ("mkey-rotate", "--per-port", *LEVEL),
    ("mkey-remove",),
    ("mkey-recover",),
    ("partition-spread",),
    ("apply", "{plan}"),
    ("undo",),
    ("undo", "1"),
    ("resume",),
    ("resume", "--overtaken"),
    ("harden",),
    ("smkey-rotate",),
    ("sm-repair",),
)
COMMANDS_OF_LINES = {line[0] for line in (*READING, *DRY)}
ROWS = [
    pytest.param(words, version, id=f"{' '.join(words)}-{version}")
    for words in (*READING, *((*line, "--dry-run") for line in DRY))
    for version in VERSIONS
]
WITHOUT_STORES = {
    *("pkey-check", "pkey-explain", "qkey-explain", "decode", "explain", "sim", "completion", "help"),
    *("diff", "history", "import"),  # files that are named
}
WRITE_THEM = {"confirm", "rehearse"}  # rehearse: one note in the journal (test_rehearsed.py)


def test_every_command_is_here() -> None:
    assert set(COMMANDS) == COMMANDS_OF_LINES | WITHOUT_STORES | WRITE_THEM


def stores(folder: Path, version: str) -> Path:
    """Return a folder with key store and journal as *version* left them, or without any."""
    folder.mkdir(0o700)
    if version == "first":
        with closing(sqlite3.connect(folder / "keys.db")) as connection:
            connection.executescript((STORES / "keystore-1.sql").read_text())
    elif version != "none":
        shutil.copyfile(STORES / version / "rotate-cut-off" / "keys.db", folder / "keys.db")
        shutil.copyfile(STORES / version / "apply-cut-off" / "journal.db", folder / "journal.db")
    for path in folder.iterdir():
        path.chmod(0o600)
    return folder


def looked_at(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}


@pytest.mark.parametrize(("words", "version"), one_in(3, ROWS))
def test_the_stores_stay_as_they_are(tmp_path: Path, version: str, words: tuple[str, ...]) -> None:
    folder, out = stores(tmp_path / "stores", version), tmp_path / "out"
    out.mkdir()
    policy = tmp_path / "policy.conf"
    policy.write_text(POLICY)
    named = {
        "out": out,
        "policy": policy,
        "plan": STORES / "3eed0cee" / "apply-first" / "plan.json",
        "sa_key": key_argument(tmp_path / "sa.key", SA_KEY),
        "sys": mlx4_sriov(tmp_path / "sys").root,
    }
    where = () if words[0] in ("policy-check", "host-show") else (
        *("--backend", f"{TWO_SWITCH},state={tmp_path / 'fabric'},{WITH_SA}"),
        *("--keystore", folder / "keys.db", "--journal", folder / "journal.db"),
    )  # fmt: skip
    before, listed = looked_at(folder), {*tmp_path.iterdir()}
    result = run(*(word.format(**named) for word in words), *where)
    assert result.code in (0, 1, 2, 3, 4), result.err
    assert "no such option" not in result.err.lower()
    assert looked_at(folder) == before
    new = {path.name for path in {*tmp_path.iterdir()} - listed}
    assert new <= {"fabric", "fabric.lock", *(["fabric.fingerprint"] if words[0] == "snapshot" else [])}
