"""Fabrics for the documents of SDN04: by name, as they were read, with who has which partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ibkeys.audit.files import Tenancy
from ibkeys.audit.formats.sdn04 import DocumentSite, keys_document, partitions_document
from ibkeys.audit.inputs import AuditInput
from ibkeys.classkeys.key_files import ClassKeys
from ibkeys.jsonfile import dumps
from ibkeys.keys.classkey import ClassKey
from ibkeys.mad.classes.gmp import KEY_CLASSES
from ibkeys.sim.agents.class_keys import place
from ibkeys.sim.subnet import Subnet
from tests.audit.looking import end_ports, good_key, protect, with_class_keys
from tests.fabricsim import subnet
from tests.fattree import fat_tree

SITE: Final = DocumentSite("gpu-cloud", "lab-7")
TENANTS: Final = [Tenancy(0x10, "alpha", "blue"), Tenancy(0x11, "beta"), Tenancy(0x12, "gamma")]


def all_set(net: Subnet) -> ClassKeys:
    """Give every end port an M_Key and class keys of its own, and two tenants a partition. Return the class keys."""
    protect(net, 0, 60, None)
    keys: ClassKeys = {}
    for number, port in enumerate(end_ports(net)):
        for of in KEY_CLASSES.values():
            key = good_key(1000 + number)
            place(port, of, key=key, protect_bit=1, lease_period=60)
            keys.setdefault(of.name, {})[port.guid] = ClassKey(key)
        if not port.node.is_switch:
            port.p_keys = [0xFFFF, 0x8010 + number % 2]
    return keys


def _all_set() -> AuditInput:
    net = subnet("two-switch")
    return with_class_keys(net, all_set(net))


def _all_unset() -> AuditInput:
    net = subnet("two-switch")
    for port in end_ports(net):
        for of in KEY_CLASSES.values():
            place(port, of)
    return with_class_keys(net)


def _one_hidden() -> AuditInput:
    """VS_Keys are set and not shown, and no key of them is known."""
    net = subnet("two-switch")
    keys = all_set(net)
    del keys["vs"]
    net.carrier.class_rules[0x0A].gets = "answers"
    return with_class_keys(net, keys)


def _one_silent() -> AuditInput:
    """One port does not answer for class 0x0C, as a wrong key and a missing agent look alike."""
    net = subnet("two-switch")
    keys = all_set(net)
    port = net.port("node05 mlx4_0", 1)
    assert port.class_agents is not None
    del port.class_agents[0x0C]
    return with_class_keys(net, keys)


def _two_differ() -> AuditInput:
    """Two of 100 end ports have no CC_Key, share an M_Key, and are in a partition of which no tenant is known."""
    net = Subnet.from_text(fat_tree(4, 23, 4))
    keys = all_set(net)
    assert len(list(end_ports(net))) == 100
    odd = [port for port in end_ports(net) if not port.node.is_switch][40:42]
    for port in odd:
        place(port, KEY_CLASSES["cc"])
        port.m_key = odd[0].m_key
        port.p_keys = [0xFFFF, 0x8666]
    return with_class_keys(net, keys)


CASES: Final[dict[str, Callable[[], AuditInput]]] = {
    "all-set": _all_set,
    "all-unset": _all_unset,
    "one-class-hidden": _one_hidden,
    "one-silent": _one_silent,
    "two-of-100-differ": _two_differ,
}


def documents(data: AuditInput) -> dict[str, str]:
    """Return the text of both documents by their format."""
    return {
        "sdn04-04": dumps(partitions_document(data, SITE, TENANTS)),
        "sdn04-05": dumps(keys_document(data, SITE)),
    }
