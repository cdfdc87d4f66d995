"""A table of SELinux labels for the partitions of a policy, and the commands that set them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import FileFormatError
from ibkeys.partitions.reader import parse_policy
from ibkeys.partitions.selinux import parse_labels
from tests.cli.conftest import run

POLICY = "Default=0x7fff : ALL=limited, SELF=full ;\nlustre=0x21 : ALL=full ;\ntenant=0x8010 : ALL=full ;\n"
TABLE = "# partition, type, range\nlustre  lustre_pkey_t\n0x8010 tenant_pkey_t s0:c1,c2  # by P_Key\n"


def commands(table: str) -> list[str]:
    return list(parse_labels(table, parse_policy(POLICY)).commands())


def test_both_forms_of_a_p_key_get_the_label() -> None:
    """The kernel looks all 16 bits up."""
    assert commands(TABLE) == [
        "semanage ibpkey -a -t lustre_pkey_t -x fe80:: 0x0021",
        "semanage ibpkey -a -t lustre_pkey_t -x fe80:: 0x8021",
        "semanage ibpkey -a -t tenant_pkey_t -r s0:c1,c2 -x fe80:: 0x0010",
        "semanage ibpkey -a -t tenant_pkey_t -r s0:c1,c2 -x fe80:: 0x8010",
    ]
    assert [each.name for each in parse_labels(TABLE, parse_policy(POLICY)).unlabelled] == ["Default"]


def test_the_prefix_of_the_subnet_is_a_line() -> None:
    assert commands("lustre a_t\nsubnet_prefix FEC0:0::\n")[0] == "semanage ibpkey -a -t a_t -x fec0:: 0x0021"


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ("\nluster a_t\n", "x:2: the policy has no partition 'luster'; did you mean lustre?"),
        ("0x0022 a_t", "x:1: the policy has no partition '0x0022'"),
        ("lustre", "x:1: a line has a partition, its SELinux type and, if need be, a range"),
        ("lustre a_t s0 more", "x:1: a line has a partition"),
        ("lustre $(reboot)", "x:1: '$(reboot)' is not an SELinux type"),
        ("lustre a_t ;reboot", "x:1: ';reboot' is not an SELinux range such as s0:c1"),
        ("lustre a_t\n0x21 b_t", "x:2: partition '0x21' has a label already"),
        ("subnet_prefix fe80::1", "x:1: 'fe80::1' is not the prefix of a subnet: its lower 64 bits are not 0"),
        ("subnet_prefix here", "x:1: "),
        ("subnet_prefix", "x:1: subnet_prefix takes one prefix"),
    ],
)
def test_a_mistake_is_named_with_its_line(table: str, fault: str) -> None:
    with pytest.raises(FileFormatError) as refused:
        parse_labels(table, parse_policy(POLICY), "x")
    assert str(refused.value).startswith(fault)


@given(st.text(), st.text(), st.text())
def test_a_shell_reads_each_word_as_it_is(partition: str, selinux_type: str, mls_range: str) -> None:
    for name in (partition, "lustre"):
        try:
            found = commands(f"{name} {selinux_type} {mls_range}")
        except FileFormatError:
            continue
        for line in found:
            assert shlex.split(line) == line.split()
            assert not set(line) & set("$`;|&<>(){}*?!~\\'\"")


def test_policy_check_prints_the_commands(tmp_path: Path) -> None:
    policy, table = tmp_path / "partitions.conf", tmp_path / "labels"
    policy.write_text(POLICY)
    table.write_text(TABLE)
    result = run("policy-check", policy, "--selinux-labels", table)
    assert result.out.splitlines() == commands(TABLE)
    assert f"without a label in {table}: Default" in result.err
    assert run("policy-check", policy, "--selinux-labels", table, "-f", "json").code == 2
    assert run("policy-check", policy, "--selinux-labels", tmp_path / "none").code == 2
    policy.write_text("A=0x10 ALL=full ;\n")
    refused = run("policy-check", policy, "--selinux-labels", table)
    assert (refused.code, refused.out) == (2, "")
