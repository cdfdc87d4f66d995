"""A local port that can no longer be used is an error, and no doubt about the subnet manager."""

from __future__ import annotations

import errno
from collections.abc import Sequence

import pytest

from ibkeys.errors import DeviceGone
from ibkeys.fabric.subnet_manager import find_subnet_manager
from ibkeys.mad import offsets as at
from ibkeys.mad.const import AttributeID
from ibkeys.umad.port import Outgoing, SendFailure
from ibkeys.umad.wrapped_port import WrappedPort
from tests.fabricsim import subnet, tool


@pytest.mark.parametrize("attribute", [AttributeID.NODE_INFO, AttributeID.PORT_INFO, AttributeID.SM_INFO])
def test_a_device_that_goes_away_is_that_error(attribute: AttributeID) -> None:
    class Going(WrappedPort):
        def send(self, batch: Sequence[Outgoing]) -> list[SendFailure]:
            if any(int.from_bytes(each.mad[at.ATTRIBUTE_ID]) == attribute for each in batch):
                raise DeviceGone("the device went away", errno.ENODEV)
            return self.inner.send(batch)

    net = subnet("two-switch")
    net.set_sm(net.node("node01 mlx4_0"))
    with tool(net, wrap=Going) as fabric, pytest.raises(DeviceGone):
        find_subnet_manager(fabric)
