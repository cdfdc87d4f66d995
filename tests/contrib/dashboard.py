"""The queries of the dashboard."""

from __future__ import annotations

from typing import Any


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def queries(dashboard: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (panel, expression) of every target."""
    return [(panel["title"], target["expr"]) for panel in panels(dashboard) for target in panel["targets"]]
