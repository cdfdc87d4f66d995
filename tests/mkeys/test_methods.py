"""The table of the methods of M_Keys: one row for each name that a change may have."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from ibkeys.automation.methods import METHODS
from ibkeys.change.method import MethodName
from ibkeys.errors import StoreError
from ibkeys.mkeys.methods import KEY_METHODS, method_of_run
from ibkeys.mkeys.rollout.earlier_run import last_run
from tests.fabricsim import tool, writer
from tests.mkeys.rollout import Site, deploy


def test_each_method_that_may_be_chosen_has_a_row_and_a_class_for_scripts() -> None:
    assert set(KEY_METHODS) == set(get_args(MethodName))
    assert {name: METHODS[name]().name for name in KEY_METHODS} == {name: name for name in KEY_METHODS}
    assert [name for name, method in KEY_METHODS.items() if method.sends_sets] == ["direct"]


def test_a_run_by_a_method_of_a_newer_version_is_refused(site: Site) -> None:
    site.run(deploy())
    with tool(site.net, **site.stores) as fabric, writer(fabric) as w:
        run, _ = last_run(w)
    assert method_of_run(run).sends_sets
    with pytest.raises(StoreError, match="through 'other', which this ibkeys does not know"):
        method_of_run(replace(run, via={"name": "other"}))
