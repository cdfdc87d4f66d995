"""The dashboard: what Grafana's import asks for, and nothing of one installation."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.contrib.dashboard import panels, queries
from tests.contrib.shipped import DASHBOARD, METRIC

DATASOURCE: Final = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
WIDTH: Final = 24


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return document


def test_it_is_imported_into_any_grafana(dashboard: dict[str, Any]) -> None:
    (wanted,) = dashboard["__inputs"]
    assert (wanted["name"], wanted["type"], wanted["pluginId"]) == ("DS_PROMETHEUS", "datasource", "prometheus")
    assert dashboard["schemaVersion"] == 39
    assert dashboard["id"] is None
    assert (dashboard["uid"], dashboard["title"]) == ("ibkeys", "InfiniBand keys")
    needed = {(each["type"], each["id"]) for each in dashboard["__requires"]}
    kinds = {("panel", panel["type"]) for panel in panels(dashboard)}
    assert needed == kinds | {("grafana", "grafana"), ("datasource", "prometheus")}


def test_every_source_of_data_is_the_one_that_is_chosen_at_the_import(dashboard: dict[str, Any]) -> None:
    assert all(panel["datasource"] == DATASOURCE for panel in panels(dashboard))
    assert all(target["datasource"] == DATASOURCE for panel in panels(dashboard) for target in panel["targets"])
    assert all(each["datasource"] == DATASOURCE for each in dashboard["templating"]["list"])
    assert DASHBOARD.read_text().count('"uid": "') == DASHBOARD.read_text().count('"uid": "${DS_PROMETHEUS}"') + 1


def test_panels_have_numbers_of_their_own_a_title_and_a_query_each(dashboard: dict[str, Any]) -> None:
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    titles = [panel["title"] for panel in dashboard["panels"]]
    assert all(titles)
    assert len(set(titles)) == len(titles)
    for panel in panels(dashboard):
        references = [target["refId"] for target in panel["targets"]]
        assert references
        assert len(set(references)) == len(references)
        assert panel["fieldConfig"]["defaults"]["unit"]


def test_panels_lie_beside_and_below_each_other(dashboard: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= WIDTH
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_query_is_of_the_exporters_that_are_chosen(dashboard: dict[str, Any]) -> None:
    for title, expression in queries(dashboard):
        names = METRIC.findall(expression)
        assert names, title
        assert expression.count('instance=~"$instance"') == len(names), title
