"""Whatever another host answers, it ends the look at that host at most: the others and this one are in the report."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from contextlib import redirect_stdout

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.cli.sm.show import write_words
from ibkeys.managers.dangers.catalogue import all_dangers
from ibkeys.managers.document import to_json
from ibkeys.managers.elsewhere.remote import RemoteFiles
from ibkeys.managers.report import HostReport, join_reports, report_on_host
from tests import documents
from tests.managers.answering import Answering
from tests.managers.hosts import MadeUpHost


def made_up(name: str = "") -> MadeUpHost:
    host = MadeUpHost(name)
    host.file("/etc/opensm/opensm.conf", "sm_key 5\n", 0o600)
    host.file("/etc/opensm/partitions.conf", "Default=0x7fff : ALL=full ;\n")
    folder = "/sys/class/infiniband/mlx5_0/ports/1"
    host.file(f"{folder}/link_layer", "InfiniBand\n")
    host.file(f"{folder}/gids/0", "fe80:0000:0000:0000:0002:c903:000a:1011\n")
    host.file(f"{folder}/cap_mask", "0x0251484a\n")
    host.folder("/var/cache/opensm")
    host.opensm(7, unit="opensm.service")
    return host


def asked() -> list[bytes]:
    channel = Answering(made_up(), {})
    with RemoteFiles("sm2", [], {}, lambda *_: channel) as files:
        report_on_host(files)
    return channel.questions


QUESTIONS = asked()


def look(lies: dict[int, Sequence[bytes]]) -> HostReport:
    with RemoteFiles("sm2", [], {}, lambda *_: Answering(made_up(), lies)) as files:
        return report_on_host(files)


def whole(lies: dict[int, Sequence[bytes]]) -> HostReport:
    """The report of a host that lies, after all that is made of it."""
    report = join_reports(None, [report_on_host(made_up()), look(lies), report_on_host(made_up("sm3"))])
    dangers = list(all_dangers(report))
    document = to_json(report, dangers)
    documents.check(json.dumps({"schema": "ibkeys.sm-show/2", **document, "errors": [], "unreached": 0}))
    assert [[each["pid"] for each in document["hosts"][at]["instances"]] for at in (0, 2)] == [[7], [7]]
    with redirect_stdout(io.StringIO()):
        write_words(report, dangers)
    return report.hosts[1]


def at(question: str) -> int:
    return next(number for number, each in enumerate(QUESTIONS) if each.startswith(question.encode()))


def hexed(text: str) -> list[bytes]:
    return [b" " + text.encode().hex(" ").encode(), b"."]


def stat_line(ticks: str) -> list[bytes]:
    return hexed(f"7 (opensm) S {' '.join('0' for _ in range(18))} {ticks} 0 0")


LIES: list[tuple[str, list[bytes]]] = [
    *((question, [reason]) for question in ("processes", "user") for reason in (b"! denied", b"! failed")),
    ("status", [b"."]),
    ("status", [b" 41ed 0 0 0 1 2 253402300799 1 a:59.9999999|b:00", b"."]),
    ("status", [b" ffffffffffffffffff 0 0 0 1 2 1 1 a:59|b:00", b"."]),
    ("clock", [b" 1 99999999999999999999", b"."]),
    ("clock", [b" 99999999999999999999 1", b"."]),
    ("content 1048576 /proc/7/stat\n", stat_line("9" * 4000)),
]


@pytest.mark.parametrize(("question", "lie"), LIES)
def test_an_answer_that_no_host_gives_ends_the_look_at_that_host_only(question: str, lie: list[bytes]) -> None:
    found = whole({at(question): lie})
    assert found.error, found
    assert (found.instances, found.name) == ((), "sm2")


def test_a_time_that_cannot_be_is_not_known() -> None:
    found = whole({at("content 1048576 /proc/7/stat\n"): stat_line("9" * 20)})
    assert [each.process.pid for each in found.instances] == [7]


def test_a_host_with_more_opensms_than_can_be_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibkeys.managers.report.MOST_OPENSMS", 1)
    host = made_up("sm2")
    host.opensm(8)
    assert report_on_host(host).error == "more than 1 OpenSMs seem to run there"
    assert report_on_host(made_up("sm2")).error == ""


def test_the_made_up_program_tells_what_the_made_up_host_has() -> None:
    assert look({}).instances[0].files["policy"].digest == report_on_host(made_up()).instances[0].files["policy"].digest
    assert len(QUESTIONS) > 30


numbers = st.sampled_from(
    ["0", "-1", "1e9", "9" * 20, "9" * 400, "9" * 5000, "253402300799", "ffffffffffffffff", "\u0663"]
)
lines = st.one_of(
    st.binary(max_size=40).map(lambda data: b" " + data.replace(b"\n", b"")),
    st.lists(numbers, max_size=10).map(lambda words: b" " + " ".join(words).encode()),
    st.lists(st.one_of(numbers, st.text(max_size=5)), max_size=30).map(lambda words: hexed(" ".join(words))[0]),
    st.sampled_from([b"! denied", b"! failed", b"! absent", b"! no file", b".", b"what", b""]),
)


@given(st.dictionaries(st.integers(0, len(QUESTIONS)), st.lists(lines, max_size=4), min_size=1, max_size=5))
def test_whatever_a_host_answers_the_report_is_made(lies: dict[int, Sequence[bytes]]) -> None:
    whole(lies)
