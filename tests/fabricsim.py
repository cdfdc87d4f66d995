"""Short words for tests on the simulated subnet: a subnet, a tool that sits on it, and its physical side."""

from __future__ import annotations

import ibkeys
from ibkeys.change.consent import Consent
from ibkeys.change.plan import Plan
from ibkeys.change.writer import Writer
from ibkeys.fabric.session import OpenFabric
from ibkeys.sim.subnet import Subnet
from tests.corpus import DATA


def subnet(name: str, seed: int = 0) -> Subnet:
    """Return the subnet of a net file in ``tests/data/fabrics``."""
    return Subnet.from_file(DATA / "fabrics" / f"{name}.net", seed=seed)


def tool(net: Subnet, at: str | None = None, **options: object) -> OpenFabric:
    """Open *net* as a user on node *at* would."""
    return ibkeys.open(subnet=net, at=at, **options)  # type: ignore[arg-type]


def writer(fabric: OpenFabric, *overrides: str, force: bool = False, dry_run: bool = False) -> Writer:
    """Return a writer with the given interlocks overridden."""
    return Writer(fabric, "test", Consent(force, frozenset(overrides)), dry_run)


def interlocks(plan: Plan) -> set[str]:
    """Return the names of the interlocks that a plan sets off."""
    return {objection.interlock for objection in plan.objections}
