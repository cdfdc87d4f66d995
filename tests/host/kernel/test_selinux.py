"""The labels of P_Keys, as semanage lists them to root."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.host.kernel.selinux import LIST, PKeyLabel, SelinuxPolicy, labels_in, read_policy
from ibkeys.host.kernel.sysfs import Sysfs
from ibkeys.keys.pkey import PKey
from tests.host.kernel.trees import Tree

# The form of seobject.py: "%-30s %-18s ", then the P_Keys and ranges with ", " between them.
LISTED = (
    "default_ibpkey_t               fe80::             0xffff, 0x7fff\n"
    "tenant_pkey_t                  fe80::             0x8010-0x801f\n"
    "other_pkey_t                   fec0::             0x8010\n"
)
PREFIX, OTHER = 0xFE80 << 48, 0xFEC0 << 48


def test_a_label_is_of_a_prefix_and_of_all_16_bits() -> None:
    policy = SelinuxPolicy("enforcing", True, True, labels_in(LISTED))
    assert policy.type_of(PREFIX, PKey(0x7FFF)) == "default_ibpkey_t"
    assert policy.type_of(PREFIX, PKey(0x801F)) == "tenant_pkey_t"
    assert policy.type_of(OTHER, PKey(0x8010)) == "other_pkey_t"
    assert policy.type_of(PREFIX, PKey(0x0010)) is None
    assert policy.type_of(None, PKey(0x8010)) is None


@pytest.mark.parametrize("text", [None, "nonsense", "a_t here 0x1", "a_t fe80:: 16", "a_t fe80:: 0x1-", "a_t fe80::"])
def test_what_is_not_understood_is_not_known(text: str | None) -> None:
    assert labels_in(text) is None


def test_no_label_at_all_is_known() -> None:
    assert labels_in("") == ()
    assert labels_in("a_t fe80:: 0x1") == (PKeyLabel("a_t", PREFIX, 1, 1),)


@given(st.text())
def test_any_text_has_labels_or_is_not_known(text: str) -> None:
    assert labels_in(text) is None or all(label.first <= 0xFFFF for label in labels_in(text) or ())


def test_they_are_listed_only_where_the_policy_checks_p_keys(tmp_path: Path) -> None:
    asked: list[Sequence[str]] = []

    def run(command: Sequence[str]) -> str:
        asked.append(command)
        return LISTED

    tree = Tree(tmp_path / "smps")
    tree.selinux("1", ("infiniband_endport",))
    assert read_policy(Sysfs(tree.root), run).labels is None
    assert asked == []
    tree = Tree(tmp_path / "both")
    tree.selinux("0")
    assert read_policy(Sysfs(tree.root), run).labels == labels_in(LISTED)
    assert asked == [LIST]
    assert read_policy(Sysfs(tree.root)).labels is None
