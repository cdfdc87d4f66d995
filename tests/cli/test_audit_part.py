"""An audit's text folded, and an audit of a part of the fabric: what is named, what counts, and that it says so."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibkeys.cli.listing.folding import NARROW
from tests.cli.conftest import Cli, run
from tests.cli.saved import save
from tests.cli.unfolding import Row, unfolded
from tests.corpus import DATA
from tests.fabricsim import subnet

HOSTS = [f"node0{number} mlx4_0" for number in range(1, 7)]
RULES = ("--check", "MK001,PK001,PK007,SE001,QK001")


def findings(document: dict[str, Any]) -> Counter[tuple[str, str, int]]:
    """Return (rule, node GUID, port) of each finding of the JSON."""
    return Counter(
        (result["rule"], subject["node_guid"], subject["port"])
        for result in document["results"]
        for subject in result["subjects"]
        if subject["result"] == "fail"
    )


def named(out: str, ports: list[Row]) -> Counter[tuple[str, str, int]]:
    """Return the same of the folded text: words below a rule or below one of its findings, and single findings."""
    found: Counter[tuple[str, str, int]] = Counter()
    rule, words, begun = "", [], False

    def end() -> None:
        nonlocal words
        found.update((rule, guid, number) for guid, number in unfolded(words, ports))
        words = []

    for line in out.splitlines():
        if head := re.fullmatch(r"  ([A-Z]{2}\d{3})  .*: \d+ (ports?|findings?).*", line):
            end()
            rule, begun = head[1], head[2].startswith("port")
        elif single := re.match(r" {9}- .* \((?:ca|switch) (0x[0-9a-f]{16})\) port (\d+), LID", line):
            found[rule, single[1], int(single[2])] += 1
        elif begun and line.startswith(" " * 9 + "- "):
            words.append(line[11:])
        elif line.startswith(" " * 15):
            words[-1] += line.strip()
        elif line.startswith(" " * 13):
            words.append(line[13:])
        elif not line.startswith(" " * 9):
            end()
            begun = False
    end()
    return found


def ports_of(backend: str) -> list[Row]:
    rows: list[Row] = run("port-show", "--counters", "--all", "--backend", backend, "-f", "json").json["ports"]
    return rows


@pytest.mark.parametrize("fabric", ["two-switch", "dual-home", "ft648", "torus444"])
def test_the_folded_report_names_exactly_the_ports_of_the_json(fabric: str) -> None:
    backend = f"sim:{DATA / 'fabrics' / f'{fabric}.net'}"
    wanted = findings(run("audit", "--backend", backend, *RULES, "-f", "json").json)
    out = run("audit", "--backend", backend, *RULES, "--fold", "--no-remedy").out
    assert named(out, ports_of(backend)) == wanted
    assert len(out.splitlines()) < 50
    assert max(len(line) for line in out.splitlines() if line.startswith(" " * 13)) <= NARROW


@settings(max_examples=15, deadline=None)
@given(violations=st.lists(st.integers(0, 2), min_size=6, max_size=6), enforcing=st.sets(st.integers(1, 6)))
def test_nothing_that_differs_is_together(
    tmp_path_factory: pytest.TempPathFactory, violations: list[int], enforcing: set[int]
) -> None:
    net = subnet("two-switch")
    for number, (host, count) in enumerate(zip(HOSTS, violations, strict=True), 1):
        port = net.port(host, 1)
        port.p_key_violations = count
        assert port.peer is not None
        port.peer.inbound_enforcement = number in enforcing
    file = save(net, tmp_path_factory.mktemp("part") / "a.db")
    document = run("audit", "--from", file, "--group", "QK,SE", "-f", "json").json
    out = run("audit", "--from", file, "--group", "QK,SE", "--fold", "--no-remedy").out
    ports: list[Row] = run("port-show", "--counters", "--all", "--from", file, "-f", "json").json["ports"]
    assert named(out, ports) == findings(document)
    words = " ".join(out.split())
    for host, count in zip(HOSTS, violations, strict=True):
        if count:
            said = {
                subject["message"]
                for result in document["results"]
                for subject in result["subjects"]
                if subject["node_desc"] == host
            }
            assert said & {message for message in said if message in words}


def test_each_lists_every_port_and_nothing_is_cut(cli: Cli) -> None:
    backend = f"sim:{DATA / 'fabrics' / 'ft648.net'}"
    each = run("audit", "--backend", backend, "--check", "MK001", "--each").out
    assert each.count("\n         - ") == 702
    assert " more" not in each
    piped = run("audit", "--backend", backend, "--check", "MK001").out
    assert piped.splitlines()[1:] == each.splitlines()[1:]
    assert cli("audit", "--fold", "-f", "sarif").code == 2


@pytest.fixture
def helped(tmp_path: Path) -> Path:
    """node03 has counted P_Key violations; node05 has an M_Key that all may read."""
    net = subnet("two-switch")
    net.port(HOSTS[2], 1).p_key_violations = 4
    net.port(HOSTS[4], 1).m_key = 0x9C4E21D7B05A63F8
    return save(net, tmp_path / "a.db")


@pytest.mark.parametrize(
    ("words", "hosts", "looked_at"),
    [
        (("--node", "node0[2-3]"), HOSTS[1:3], 2),
        (("--node", "node03"), HOSTS[2:3], 1),
        (("--hosts",), [*HOSTS[:4], HOSTS[5]], 6),
        (("--node", "node05"), [], 1),
        (("--nonzero",), HOSTS[2:3], 1),
        (("--partition", "0x7fff", "--hosts", "--level", "0"), [*HOSTS[:4], HOSTS[5]], 6),
    ],
)
def test_a_filter_chooses_whose_findings_count(
    helped: Path, words: tuple[str, ...], hosts: list[str], looked_at: int
) -> None:
    result = run("audit", "--from", helped, "--check", "MK001", *words, "-f", "json")
    assert result.json["looked_at"] == {"ports": looked_at, "of": 24}
    (rule,) = result.json["results"]
    assert [subject["node_desc"] for subject in rule["subjects"]] == hosts
    assert (rule["passed"], rule["result"]) == (0, "fail" if hosts else "pass")
    assert result.code == (1 if hosts else 0)


def test_what_changed_since_a_snapshot_is_a_part_too(helped: Path, tmp_path: Path) -> None:
    before = save(subnet("two-switch"), tmp_path / "before.db")
    document = run("audit", "--from", helped, "--changed-since", before, "--check", "MK001", "-f", "json").json
    assert document["looked_at"] == {"ports": 2, "of": 24}
    assert [subject["node_desc"] for subject in document["results"][0]["subjects"]] == HOSTS[2:3]


def test_a_part_that_passes_does_not_look_like_a_pass_of_the_whole(helped: Path) -> None:
    part = ("--from", helped, "--check", "MK001", "--node", "node05")
    said = "only 1 of 24 ports was examined"
    table = run("audit", *part)
    assert table.code == 0
    assert table.out.splitlines()[1:3] == [
        f"A PART OF THE FABRIC: {said}; other ports are not covered",
        "No rule fails at these ports",
    ]
    sarif = run("audit", *part, "-f", "sarif").json["runs"][0]
    assert sarif["automationDetails"]["id"] == "ibkeys/audit/cloud-secured/part/"
    assert sarif["properties"]["looked_at"] == {"ports": 1, "of": 24}
    junit = ElementTree.fromstring(run("audit", *part, "-f", "junit").out)
    assert junit.get("name") == f"ibkeys audit, {said}"
    html = run("audit", *part, "-f", "html").out
    assert "A part of the fabric: passed" in html
    assert said in html


def test_what_is_about_no_port_does_not_apply_to_a_part(helped: Path) -> None:
    document = run("audit", "--from", helped, "--group", "KF,HY", "--hosts", "-f", "json").json
    assert {subject["node_guid"] is None for result in document["results"] for subject in result["subjects"]} <= {False}
    assert {result["result"] for result in document["results"] if result["rule"].startswith("KF")} <= {"n/a", "unknown"}


def test_without_a_filter_it_is_about_the_whole(helped: Path) -> None:
    result = run("audit", "--from", helped, "--check", "MK001", "-f", "json")
    assert (result.json["looked_at"], result.json["results"][0]["passed"]) == (None, 1)
    sarif = run("audit", "--from", helped, "-f", "sarif").json["runs"][0]
    assert sarif["automationDetails"]["id"] == "ibkeys/audit/cloud-secured/"


def test_what_was_not_read_elsewhere_does_not_matter_to_a_part(tmp_path: Path) -> None:
    net = subnet("two-switch")
    net.port(HOSTS[1], 1).m_key, net.port(HOSTS[1], 1).protect_bits = 0x9C4E21D7B05A63F8, 2
    file = save(net, tmp_path / "a.db")
    assert run("audit", "--from", file, "--check", "MK001").code == 3
    part = run("audit", "--from", file, "--check", "MK001", "--node", "node03", "--fail-on", "never")
    assert (part.code, part.err) == (0, "")


@pytest.mark.parametrize("words", [("--hosts",), ("--switch",), ("--node", "node0*"), ("--hosts", "--level", "2")])
def test_who_did_not_answer_may_be_of_the_part(tmp_path: Path, words: tuple[str, ...]) -> None:
    net = subnet("two-switch")
    net.silence(HOSTS[4])
    asked = ("audit", "--from", save(net, tmp_path / "a.db"), "--check", "MK011,HY003,PK007", *words)
    result = run(*asked, "-f", "json")
    found = {each["rule"]: (each["result"], [it["port"] for it in each["subjects"]]) for each in result.json["results"]}
    assert found == {"MK011": ("fail", [2]), "HY003": ("fail", [2]), "PK007": ("unknown", [2])}
    coverage = result.json["coverage"]
    assert (result.code, [each["port"] for each in coverage["troubles"]], coverage["silent"]) == (3, [2], 1)
    assert "1 with no answer behind them" in run(*asked).out
