"""A tap: observers that fail are closed and left out."""

from __future__ import annotations

import pytest

from ibkeys.client.address import DirectedAddress
from ibkeys.client.smp import SmpClient, Task
from ibkeys.errors import StoreError
from ibkeys.mad.attributes import NodeInfo
from ibkeys.mad.const import Method
from ibkeys.umad.port import Incoming, Outgoing
from ibkeys.umad.simulated import port_on
from ibkeys.umad.tap import Tap
from tests.fabricsim import subnet


class FullDisk:
    """An observer that can write nothing, and is not closed without an error either."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.calls: list[str] = []

    def sent(self, mad: Outgoing, errno: int) -> None:
        self.calls.append("sent")
        raise self.error

    def received(self, mad: Incoming) -> None:
        self.calls.append("received")

    def close(self) -> None:
        self.calls.append("close")
        raise self.error


@pytest.mark.parametrize("error", [OSError(28, "no space"), StoreError("no space"), ValueError("closed file")])
def test_an_observer_that_failed_is_closed_once(error: Exception) -> None:
    observer, said = FullDisk(error), list[str]()
    with Tap(port_on(subnet("two-switch")), [observer], said.append) as tap:
        client = SmpClient(tap)

        def task() -> Task:
            yield client.request(Method.GET, NodeInfo, 0, DirectedAddress())

        client.run([task()])
    assert observer.calls == ["sent", "close"]
    assert said == [f"fulldisk ended: {error}"]
