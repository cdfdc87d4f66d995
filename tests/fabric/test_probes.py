"""The probe of SM004 leaves no subscription behind, also where the SA's answers are lost."""

from __future__ import annotations

import pytest

import ibkeys
from ibkeys.client.sa import SaClient
from ibkeys.errors import NoReply
from ibkeys.fabric.probes import WILDCARD, probe_sa
from ibkeys.mad.inform import InformInfo
from ibkeys.sim.subnet import Subnet
from tests.client.sasim import SA_KEY
from tests.fabricsim import subnet


def with_stock_sa() -> Subnet:
    net = subnet("two-switch")
    net.set_sm(net.nodes[0])
    net.sa_of(net.nodes[0]).sa_key = SA_KEY
    return net


def test_a_subscription_of_which_every_answer_was_lost_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    net = with_stock_sa()
    real, lost = SaClient.set_inform_info, []

    def lose_the_first(self: SaClient, info: InformInfo) -> InformInfo:
        done = real(self, info)
        if not lost:
            lost.append(info)
            raise NoReply("no answer")
        return done

    with ibkeys.open(net, local=ibkeys.Local(at="node04 mlx4_0"), timing=ibkeys.Timing(0.1, 0)) as fabric:
        assert probe_sa(fabric)[WILDCARD].answer == "answered"
        monkeypatch.setattr(SaClient, "set_inform_info", lose_the_first)
        assert probe_sa(fabric)[WILDCARD].answer == "silent"
    assert lost
    assert len(net.sa_of(net.nodes[0]).subscriptions) == 0
