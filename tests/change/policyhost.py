"""A host with a policy file that an OpenSM reads."""

from __future__ import annotations

from tests.managers.hosts import MadeUpHost


def host(*arguments: str) -> MadeUpHost:
    made_up = MadeUpHost()
    made_up.file("/etc/opensm/opensm.conf")
    made_up.file("/etc/opensm/partitions.conf", "Default=0x7fff : ALL=full ;\n")
    made_up.opensm(7, *arguments)
    return made_up
