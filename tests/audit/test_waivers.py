"""Waivers: what they cover, and what is said of those that have run out or have a mistake."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.audit.rules import p_keys_policy as pk_policy
from ibkeys.audit.waivers import Pattern, Waivers, read_waivers
from ibkeys.errors import FileFormatError, StoreError
from tests.audit.cases import ruled, two_switch, with_table
from tests.audit.looking import host, key_file, look, policy, result_of

TODAY = date(2026, 6, 1)
END = 'reason = "ticket 4711"\nexpires = 2027-01-31\n'


def waivers(folder: Path, text: str, today: date = TODAY) -> Waivers:
    path = folder / "waivers.toml"
    path.write_text(text)
    return read_waivers(path, today)


def one(folder: Path, text: str) -> Waivers:
    found = waivers(folder, f"[[waiver]]\n{text}\n{END}")
    assert (len(found.waivers), found.warnings) == (1, [])
    return found


@pytest.mark.parametrize(
    ("ports", "waived"),
    [
        ('["node02 mlx4_0"]', 1),
        ('["node02"]', 1),
        ('["node02/1"]', 1),
        ('["node02/2"]', 0),
        ('["node0"]', 0),
        ('["0x2c903000a1020"]', 1),
        ('["0x0002c903000a1021"]', 1),
        ('["0x0002c903000a1021/1"]', 1),
        ('["0x0002c903000a1021/2"]', 0),
        ('["node0[23]*", "node04 mlx4_0/1"]', 3),
        ('["NODE02 mlx4_0"]', 0),
        ('["*"]', 5),
    ],
)
def test_ports_are_named_by_guid_name_and_number(ports: str, waived: int, tmp_path: Path) -> None:
    result = result_of("PK001", look(two_switch()), waivers=one(tmp_path, f'rule = "PK001"\nports = {ports}'))
    results = [each.result for each in result.subjects]
    assert (results.count("waived"), results.count("fail")) == (waived, 5 - waived)
    assert result.result == ("waived" if waived == 5 else "fail")
    said = {each.waiver for each in result.subjects if each.result == "waived"}
    assert said <= {"ticket 4711 (until 2027-01-31)"}


def test_a_waiver_is_for_its_rules_only(tmp_path: Path) -> None:
    found = one(tmp_path, 'rule = ["mk001", "MK002"]\nports = ["*"]')
    assert result_of("MK001", look(two_switch()), waivers=found).result == "waived"
    assert result_of("PK001", look(two_switch()), waivers=found).result == "fail"


def test_what_is_waived_does_not_hide_what_is_unknown(tmp_path: Path) -> None:
    net = two_switch()
    net.silence("node06 mlx4_0")
    found = one(tmp_path, 'rule = "PK001"\nports = ["node*"]')
    assert result_of("PK001", look(net), waivers=found).result == "unknown"


@pytest.mark.parametrize("summarised", [False, True])
def test_pairs_are_waived_when_every_partner_is(
    summarised: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if summarised:
        monkeypatch.setattr(pk_policy, "LISTED_PAIRS", 0)
    net = ruled()
    for name in ("node02", "node03", "node04"):
        with_table([0x7FFF, 0x8010], f"{name} mlx4_0", net)
    data = look(net, policy=policy())
    some = one(tmp_path, 'rule = "PK005"\npairs = [["node02*", "node03*"], ["node04*", "node02*"]]')
    assert result_of("PK005", data, waivers=some).result == "fail"
    every = one(tmp_path, 'rule = "PK005"\npairs = [["node0*", "node0*"]]')
    result = result_of("PK005", data, waivers=every)
    assert (result.result, {each.result for each in result.subjects}) == ("waived", {"waived"})


def test_files_and_partitions_go_by_their_own_names(tmp_path: Path) -> None:
    data = look(two_switch(), host=host(files=[key_file(0o644)]))
    assert (
        result_of("KF001", data, waivers=one(tmp_path, 'rule = "KF001"\nports = ["/var/cache/*"]')).result == "waived"
    )
    data = look(with_table([0x7FFF, 0x8010]))
    assert result_of("PK011", data, waivers=one(tmp_path, 'rule = "PK011"\nports = ["0x0010"]')).result == "waived"
    assert result_of("PK011", data, waivers=one(tmp_path, 'rule = "PK011"\nports = ["0x0011"]')).result == "fail"


def test_the_last_day_counts_and_the_next_does_not(tmp_path: Path) -> None:
    text = f'[[waiver]]\nrule = "MK001"\nports = ["*"]\n{END}'
    assert len(waivers(tmp_path, text, date(2027, 1, 31)).waivers) == 1
    late = waivers(tmp_path, text, date(2027, 2, 1))
    assert late.waivers == []
    assert late.warnings == [
        f"{tmp_path / 'waivers.toml'}: waiver 1 for MK001 (ticket 4711) expired on 2027-01-31 and no longer applies"
    ]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ('ports = ["*"]\n' + END, "names no rule"),
        ('rule = "MK999"\nports = ["*"]\n' + END, "there is no rule 'MK999'"),
        ('rule = "MK001"\n' + END, "neither ports nor pairs"),
        ('rule = "MK001"\nports = ["*"]\nexpires = 2027-01-31', "no reason"),
        ('rule = "MK001"\nports = ["*"]\nreason = "x"', "has to be a date"),
        ('rule = "MK001"\nports = ["*"]\nreason = "x"\nexpires = "2027-01-31"', "has to be a date"),
        ('rule = "MK001"\nports = "*"\n' + END, "list of texts"),
        ('rule = "PK005"\npairs = [["a"]]\n' + END, "list of"),
        ('rule = "MK001"\nport = ["*"]\n' + END, "'port' is not one of"),
    ],
)
def test_a_mistake_is_said_and_waives_nothing(entry: str, problem: str, tmp_path: Path) -> None:
    found = waivers(tmp_path, f"[[waiver]]\n{entry}\n")
    assert found.waivers == []
    (warning,) = found.warnings
    assert problem in warning
    assert "waiver 1 waives nothing" in warning


def test_a_name_of_very_many_parts_is_nested_too_deeply_and_no_more_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError) as caught:
        waivers(tmp_path, f"[{'a.' * 20}a]\n")
    assert str(caught.value) == f"{tmp_path / 'waivers.toml'}: is nested too deeply"


def test_a_waiver_that_waives_nothing_is_said(tmp_path: Path) -> None:
    found = one(tmp_path, 'rule = "PK001"\nports = ["nobody"]')
    result_of("PK001", look(two_switch()), waivers=found)
    assert found.unused(["PK001"]) == ["the waiver 'ticket 4711 (until 2027-01-31)' for PK001 waived nothing"]
    assert found.unused(["MK001"]) == []


def test_files_that_are_no_waiver_files(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="is not TOML"):
        waivers(tmp_path, "[[waiver")
    with pytest.raises(StoreError):
        read_waivers(tmp_path / "missing.toml", TODAY)
    assert "waivers are" in waivers(tmp_path, "waiver = 1").warnings[0]
    assert "'rules' is not" in waivers(tmp_path, "[rules]").warnings[0]
    assert "not a table" in waivers(tmp_path, "waiver = [1]").warnings[0]


@given(st.text())
def test_any_text_is_a_pattern(text: str) -> None:
    assert Pattern.parse(text).text == text
