"""Rates of links against the codes of groups."""

from __future__ import annotations

import pytest

from ibkeys.mad.attributes import PortInfo, SpeedsAboveNdr
from ibkeys.mad.const import CapabilityMask
from ibkeys.mad.link_rates import link_rate
from ibkeys.partitions.words import RATE_GBPS, code_above, rate_of_code

EXTENDED = int(CapabilityMask.IS_EXTENDED_SPEEDS_SUPPORTED)


@pytest.mark.parametrize(
    ("width", "speed", "extended", "mask", "code"),
    [
        (1, 1, 0, 0, 2),  # 1x SDR
        (2, 1, 0, 0, 3),  # 4x SDR
        (2, 4, 0, 0, 7),  # 4x QDR
        (8, 4, 0, 0, 10),  # 12x QDR
        (2, 4, 1, EXTENDED, 12),  # 4x FDR
        (2, 4, 1, 0, 7),  # the same without the capability: QDR
        (2, 4, 2, EXTENDED, 16),  # 4x EDR
        (2, 4, 4, EXTENDED, 17),  # 4x HDR
        (2, 4, 8, EXTENDED, 21),  # 4x NDR
        (16, 4, 8, EXTENDED, 17),  # 2x NDR
        (8, 4, 2, EXTENDED, 18),  # 12x EDR
    ],
)
def test_a_link_has_the_rate_of_its_code(width: int, speed: int, extended: int, mask: int, code: int) -> None:
    info = PortInfo.new(
        link_width_active=width, link_speed_active=speed, link_speed_ext_active=extended, capability_mask=mask
    )
    assert link_rate(info) == rate_of_code(code)


def test_xdr_is_above_ndr() -> None:
    raw = bytearray(PortInfo.new(link_width_active=2, link_speed_active=4, capability_mask=EXTENDED).raw)
    SpeedsAboveNdr.link_speed_ext_active2.patch(raw, 1)
    assert link_rate(PortInfo(bytes(raw))) == rate_of_code(23) == 800


@pytest.mark.parametrize(("width", "speed"), [(3, 1), (0, 1), (2, 0), (2, 7)])
def test_a_width_or_speed_without_meaning_has_no_rate(width: int, speed: int) -> None:
    assert link_rate(PortInfo.new(link_width_active=width, link_speed_active=speed)) is None


def test_the_code_above_is_the_oldest_that_fits() -> None:
    assert (code_above(10), code_above(40), code_above(100), code_above(200), code_above(1200)) == (4, 8, 10, 18, None)
    for code in RATE_GBPS:
        above = code_above(rate_of_code(code) or 0)
        assert above is None or (rate_of_code(above) or 0) > (rate_of_code(code) or 0)
