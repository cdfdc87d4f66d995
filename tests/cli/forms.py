"""Every command on one fabric, as a program reads it: the documents of -f json and the tables of -f csv."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.conftest import KEY, TWO_SWITCH, WITH_SA, key_argument, run
from tests.client.sasim import SA_KEY
from tests.corpus import DATA
from tests.host.kernel.trees import mlx4_sriov

_LEVEL_2 = ("--protect", 2, "--lease", 60)
_POLICY = """Default=0x7fff, ipoib : ALL=limited, SELF=full ;
blue=0x21 : 0x0002c903000a1021=full, 0x0002c903000a1031=limited ;
"""
_WISHED = """Default=0x7fff, ipoib : ALL=full ;
blue=0x21 : 0x0002c903000a1021=full, 0x0002c903000a1031=full ;
red=0x22 : 0x0002c903000a1041=full, 0x0002c903000a1051=full ;
"""


TABLE_OR_JSON = ("sm-show",)


@dataclass(frozen=True)
class Form:
    """What one command wrote. ``name``: the command, and what tells this use of it apart; ``documents``: of JSON, one a
    line where there are several; ``header`` and ``rows``: of CSV."""

    name: str
    code: int
    documents: tuple[Any, ...] = ()
    header: tuple[str, ...] = ()
    rows: tuple[dict[str, str], ...] = ()


def every_form(folder: Path, format: str) -> Iterator[Form]:
    """Run every command that writes *format* and needs no OpenSM, on two switches whose SM is simulated."""
    place = _Place(folder)
    for name, step in place.steps():
        if name in TABLE_OR_JSON and format == "csv":
            continue
        result = step("-f", format)
        assert result.out, f"{name}: {result.err}"
        assert result.code in (0, 1), f"{name}: {result.err}"
        if format == "json":
            yield Form(name, result.code, tuple(_documents(result.out)))
        else:
            reader = csv.DictReader(io.StringIO(result.out))
            yield Form(name, result.code, header=tuple(reader.fieldnames or ()), rows=tuple(reader))


def _documents(text: str) -> Iterator[Any]:
    try:
        yield json.loads(text)
    except json.JSONDecodeError:
        yield from map(json.loads, text.splitlines())


class _Place:
    """A folder with a fabric that lasts, two policies, a plan and snapshots."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spec = f"{TWO_SWITCH},state={folder / 'fabric'},{WITH_SA}"
        self.key = key_argument(folder / "m.key", KEY)
        self.sa_key = key_argument(folder / "sa.key", SA_KEY)
        self.policy = self._file("policy.conf", _POLICY)
        self.wished = self._file("wished.conf", _WISHED)
        self.edited = self._file("edited.conf", _POLICY)
        self.series = folder / "series"

    def steps(self) -> Iterator[tuple[str, Callable[..., Any]]]:
        """Yield each use of a command, to be run in this order: they change the fabric."""
        yes = ("--yes", "--force")
        over = tuple(word for name in _OVERRIDDEN for word in ("--override", name))
        at = self._at
        yield "snapshot", at("snapshot", self.folder / "a.db", "--sa", "--smkey", self.sa_key)
        yield "snapshot series", at("snapshot", "--into", self.series)
        yield "pkey-add dry", at("pkey-add", 3, "0x8021", "--dry-run", *yes)
        yield "pkey-add", at("pkey-add", 2, "0x8021", *yes)
        yield "pkey-add other", at("pkey-add", 3, "0x0021", *yes)
        yield "pkey-set", at("pkey-set", 4, "3=0x8010", "5=0x8010", *yes)
        yield "pkey-remove", at("pkey-remove", 4, "0x8010", *yes, *over)
        yield "enforce-set", at("enforce-set", 7, 3, "--inbound", "on", "--outbound", "on", *yes, *over)
        yield "mkey-deploy dry", at("mkey-deploy", "--per-port", *_LEVEL_2, "--dry-run", *over)
        yield "mkey-deploy", at("mkey-deploy", "--per-port", *_LEVEL_2, "--yes", *over)
        yield "mkey-set", at("mkey-set", 5, "--new-m-key", self.key, *yes, *over)
        yield "mkey-rotate", at("mkey-rotate", "--per-port", "--yes", *over)
        for command in ("pkey-show", "mkey-show", "port-show"):
            yield f"{command} one", at(command, 2)
            yield command, at(command, "--all", "-K")
        yield "classkey-show one", at("classkey-show", 2, "--class", "cc")
        yield "classkey-show", at("classkey-show", "--all", "--class", "vs", "--class", "n2n")
        yield "discover", at("discover")
        yield "discover names", at("discover", "--names")
        yield "sm-show", at("sm-show")
        yield "matrix", at("matrix", "--policy", self.policy)
        yield "matrix pairs", at("matrix", "--pairs")
        yield "why", at("why", "node02 mlx4_0", "node03 mlx4_0")
        yield "why switch", at("why", "node02 mlx4_0", "node04 mlx4_0")
        yield "audit", at("audit", "--policy", self.policy, "--baseline", self.folder / "a.db")
        yield "audit explain", at("audit", "--explain", "MK001")
        yield "compare", at("compare", "--policy", self.policy, "--smkey", self.sa_key, "--full")
        yield "compare ipoib", at("compare", "--ipoib", "--policy", self.policy)
        yield "compare ipoib members", at("compare", "--ipoib", "--policy", self.policy, "--members")
        yield "policy-check", _plain("policy-check", self.policy)
        yield "policy-check bad", _plain("policy-check", self._file("bad.conf", "x=0x21 : nonsense ;\n"))
        yield "policy-from", at("policy-from")
        yield "policy-diff", at("policy-diff", self.policy, self.wished)
        yield "partition-show", at("partition-show", "--policy", self.policy)
        yield "partition-add", at("partition-add", "--policy", self.edited, "blue", "--full", "node04*")
        yield (
            "partition-add move",
            at("partition-add", "--policy", self.edited, "red=0x22", "--out-of", "blue", "node04*"),
        )
        yield "partition-remove", at("partition-remove", "--policy", self.edited, "blue", "node03*")
        yield "partition-rename", _plain("partition-rename", "--policy", self.edited, "blue", "navy")
        yield "partition-delete", _plain("partition-delete", "--policy", self.edited, "navy")
        former = self._file("former.conf", "Default=0x7fff : ALL=limited ;\nblue=0x21 : 0x0002c903000a9991=full ;\n")
        yield "replace", at("replace", "--policy", former, "0x2c903000a9991", "node04")
        plan = self.folder / "plan.json"
        yield "plan", at("plan", "--policy", self.wished, "--out", plan, "--full")
        yield "apply dry", at("apply", plan, "--dry-run", *yes, *over)
        yield "apply", at("apply", plan, "--allow-removals", "--allow-break", *yes, *over)
        yield "undo dry", at("undo", 1, "--dry-run", *yes, *over)
        yield "undo", at("undo", 1, *yes, *over)
        yield "journal", at("journal")
        yield "journal one", at("journal", 1)
        yield "import", _plain("import", DATA / "dumps" / "keyed.cache", "--out", self.folder / "imported.db")
        yield "snapshot later", at("snapshot", "--into", self.series)
        yield "diff", _plain("diff", self.series)
        yield "diff reach", _plain("diff", self.series, "--reach")
        yield "history", _plain("history", "node02 mlx4_0", self.series)
        yield "counters-clear", at("counters-clear", "--all", *yes)
        yield "keystore list", at("keystore", "list", "-K")
        yield "keystore generate", _plain("keystore", "generate", "-n", 2)
        yield "keystore export", at("keystore", "export", self.folder / "cache")
        yield "keystore import", at("keystore", "import", self.folder / "cache")
        yield "mkey-recover dry", at("mkey-recover", "--dry-run", *over)
        yield "mkey-recover", at("mkey-recover", "--yes", *over)
        yield "mkey-remove dry", at("mkey-remove", "--dry-run", *over)
        yield "mkey-remove", at("mkey-remove", "--yes", *over)
        yield "pkey-check", _plain("pkey-check", "0x8001", "0x0001")
        yield "pkey-explain", _plain("pkey-explain", "0x8001")
        yield "qkey-explain", _plain("qkey-explain", "0x80010000")
        yield "decode", _plain("decode", "--attribute", "P_KeyTable", "ffff8001" + "0" * 120)
        yield "explain", _plain("explain", "ERR 1B14", "LID 2")
        yield "doctor", at("doctor")
        yield "host-show", _plain("host-show", "--sysfs", mlx4_sriov(self.folder / "sys").root)

    def _at(self, *words: object) -> Callable[..., Any]:
        stores = ("--keystore", self.folder / "keys.db")
        return lambda *more: run(*words, *more, "--backend", self.spec, *stores)

    def _file(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path


_OVERRIDDEN = ("index-0", "default-pkey", "mkey-under-sm", "enforce-blind", "lease-0", "links-initialize")


def _plain(*words: object) -> Callable[..., Any]:
    return lambda *more: run(*words, *more)
