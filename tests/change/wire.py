"""What a change sent, read from the wire, and what it refused."""

from __future__ import annotations

from typing import Any

import pytest

from ibkeys.errors import Refused
from ibkeys.mad.const import Method
from ibkeys.sim.subnet import Subnet


def sent(net: Subnet, fabric: Any) -> list[bytes]:
    """Record every MAD that leaves from now on."""
    record: list[bytes] = []
    send = fabric.umad.send

    def listening(batch: Any) -> Any:
        record.extend(outgoing.mad for outgoing in batch)
        return send(batch)

    fabric.umad.send = listening
    return record


def sets(record: list[bytes]) -> list[bytes]:
    return [mad for mad in record if mad[3] == Method.SET]


def refused(w: Any, plan: Any, interlock: str) -> None:
    with pytest.raises(Refused) as caught:
        w.apply(plan)
    assert caught.value.interlock == interlock
    assert interlock in str(caught.value)
