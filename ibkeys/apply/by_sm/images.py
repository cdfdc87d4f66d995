"""The journal's images of tables that OpenSM writes, before and after.

OpenSM writes them and not ibkeys, so an undo restores the policy files and not these images. They record the tables
that were there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ibkeys.change.images import P_KEY_BLOCK, image_of
from ibkeys.change.portinfo import without_key
from ibkeys.change.target import PortTarget
from ibkeys.change.wanted import Entries, differing_places
from ibkeys.keys.pkey import PARTITION_MASK
from ibkeys.mad.const import P_KEYS_PER_BLOCK
from ibkeys.plan.order import EnforcementStep, Phase
from ibkeys.store.journal import Image
from ibkeys.topology.enforcement import ENFORCEMENT_BITS, Enforcement
from ibkeys.topology.port_id import PortKey


def images_of(
    phase: Phase,
    targets: Mapping[PortKey, PortTarget],
    before: Mapping[PortKey, Entries],
    after: Mapping[PortKey, Entries],
    bits_before: Mapping[PortKey, Enforcement],
) -> Iterator[Image]:
    """Yield the images of one policy's changes: of each port the blocks of its table, and its enforcement bits.

    *bits_before*: the enforcement before the whole change. An earlier policy of it may have changed the bits already.
    """
    for step in phase.steps:
        target = targets[step.port.key]
        if isinstance(step, EnforcementStep):
            yield _of_enforcement(target, step, bits_before[step.port.key])
        else:
            for block in step.blocks:
                yield table_image(target, block, before[step.port.key], after[step.port.key])


def images_of_other_indexes(
    tables: Mapping[PortKey, Entries], before: Mapping[PortKey, Entries], targets: Mapping[PortKey, PortTarget]
) -> Iterator[Image]:
    """Yield images of the blocks that differ after a step from the *tables* that it should give, with their present
    values: OpenSM may give a P_Key another index. *before*: the tables before the step."""
    for key, after in tables.items():
        now = targets[key].table
        if now != after:
            blocks = {index // P_KEYS_PER_BLOCK for index in differing_places(now, after)}
            yield from (table_image(targets[key], block, before[key], now) for block in sorted(blocks))


def table_image(target: PortTarget, block: int, before: Entries, after: Entries) -> Image:
    """Return one block of a table before and after. Entries without a partition are as they were read."""
    read = target.values
    start = block * P_KEYS_PER_BLOCK
    old, new = [], []
    for index in range(start, start + P_KEYS_PER_BLOCK):
        empty = read[index] if index < len(read) and not read[index] & PARTITION_MASK else 0
        old.append(int(before[index]) if index in before else empty)
        new.append(int(after[index]) if index in after else 0 if index in before else empty)
    modifier = target.port.p_key_modifier(block)
    return image_of(target.port, "P_KeyTable", modifier, P_KEY_BLOCK.pack(*old), P_KEY_BLOCK.pack(*new))


def _of_enforcement(target: PortTarget, step: EnforcementStep, bits_before: Enforcement) -> Image:
    info = target.port.port_info
    assert info is not None
    info = info.replace(**dict(zip(ENFORCEMENT_BITS, map(int, bits_before.bits), strict=True)))
    wanted = zip(ENFORCEMENT_BITS, (step.inbound, step.outbound), strict=True)
    after = info.replace(**{name: int(value) for name, value in wanted if value is not None})
    return image_of(target.port, "PortInfo", target.port.num, without_key(info), without_key(after))
