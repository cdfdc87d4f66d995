"""All targets, by name."""

from __future__ import annotations

from tests.fuzz.target import Target
from tests.fuzz.targets import databases, hostile, imports, mads, policies, remote, simulator, texts

TARGETS: dict[str, Target] = {
    each.name: each
    for of in (mads, policies, texts, imports, databases, remote, simulator, hostile)
    for each in of.TARGETS
}
