"""What is said of an SM that would take over and whose options file is not known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ibkeys.harden.enforcement import objections_to_unreached_sms
from ibkeys.managers.report import HostReport, SmReport
from ibkeys.managers.site import FoundSms
from ibkeys.managers.subnet_managers import Manager

MASTER, STANDBY = (
    Manager(cast(Any, f"port {guid}"), guid, state, 0, 0) for guid, state in ((1, "master"), (2, "standby"))
)


@pytest.mark.parametrize(
    ("shown", "cause"),
    [
        (3, "it is not on any host that was examined"),
        (None, "it may be OpenSM 7 on sm2, which does not show its port: set guid in its options and restart it"),
    ],
)
def test_the_cause_is_that_of_this_sm(shown: int | None, cause: str) -> None:
    """A host that was reached, with an OpenSM that does not show its port, was examined."""
    host = HostReport("sm2", (cast(Any, SimpleNamespace(name="OpenSM 7 on sm2", port_guid=shown)),))
    seen = FoundSms(SmReport((MASTER, STANDBY), (host,)), [(STANDBY, None), (MASTER, None)])
    (objection,) = objections_to_unreached_sms(seen)
    assert objection.interlock == "standby-differs"
    assert f"the SM at port 2: {cause}; when it takes over" in objection.message
