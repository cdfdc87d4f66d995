"""For every rule three fabrics: one that trips it, one that does not, one of which it cannot tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ibkeys.audit.inputs import AuditInput, StoredPort, StoreView
from ibkeys.keys.mkey import MKey
from ibkeys.mad.classes.gmp import KEY_CLASSES, ClassName
from ibkeys.mad.const import AttributeID
from ibkeys.sim.agents.class_keys import place
from ibkeys.sim.subnet import Subnet
from tests.audit.looking import (
    KEY,
    apply_clean_policy,
    end_ports,
    enforce,
    good_key,
    host,
    key_file,
    look,
    policy,
    protect,
    taken,
    umad,
    with_class_keys,
)
from tests.fabricsim import move_cable, set_p_key_capacity, subnet, virtualize

Build = Callable[[], AuditInput]
LAST = "node06 mlx4_0"
SWITCH = "MF0;switch-a:IS5023/U1"
GUID2MKEY = Path("/var/cache/opensm/guid2mkey")


@dataclass(frozen=True)
class Case:
    """``trips``: the rule fails; ``passes``: it passes; ``unknown``: it is neither."""

    trips: Build
    passes: Build
    unknown: Build


def two_switch() -> Subnet:
    return subnet("two-switch")


def silent(net: Subnet, name: str = LAST) -> Subnet:
    """Let a node, the last one, answer nothing."""
    net.silence(name)
    return net


def recable(net: Subnet, name: str = "node02 mlx4_0") -> None:
    """Plug a host into a free port of its fabric."""
    move_cable(net.port(name, 1), net.port(SWITCH, 6), net)


def protected(bits: int, lease: int = 60, key: int | None = KEY) -> Subnet:
    net = two_switch()
    protect(net, bits, lease, key)
    return net


def classed(name: ClassName, **state: int) -> Subnet:
    """Return two switches whose hosts and switches have one class with a key; of the others they say that they have
    none."""
    net = two_switch()
    for rules in net.carrier.class_rules.values():
        rules.absent = "status"
    for port in end_ports(net):
        place(port, KEY_CLASSES[name], **state)
    return net


def ruled(*, enforced: bool = False) -> Subnet:
    """Two switches with the tables of the clean policy."""
    net = two_switch()
    apply_clean_policy(net)
    if enforced:
        enforce(net)
    return net


def with_table(keys: list[int], name: str = "node02 mlx4_0", net: Subnet | None = None) -> Subnet:
    net = net or ruled()
    net.port(name, 1).p_keys = keys
    return net


def after(change: Callable[[Subnet], object], net: Subnet | None = None) -> AuditInput:
    """Look at a fabric that changed since its baseline."""
    net = net or ruled(enforced=True)
    baseline = taken(net)
    change(net)
    return look(net, baseline=baseline)


def count_up(name: str) -> Callable[[Subnet], object]:
    return lambda net: setattr(net.port("node02 mlx4_0", 1), name, 3)


def stored(net: Subnet, key: int, bits: int = 2) -> StoreView:
    return StoreView({port.guid: StoredPort(bits, [("current", MKey(key))]) for port in end_ports(net)})


def losing(attribute: AttributeID, net: Subnet, name: str = "node02 mlx4_0") -> AuditInput:
    """Look at a fabric where one attribute of a node is never answered."""
    net.faults.lose_next("request", node=net.node(name), attribute=attribute, count=1000)
    return look(net)


def lost_table(net: Subnet) -> AuditInput:
    return losing(AttributeID.P_KEY_TABLE, net)


def chain(length: int = 66) -> Subnet:
    """So many switches in a row that no directed route reaches the last."""
    lines = ['Ca\t1 "H-1"\t\t# "near HCA-1"', '[1]\t"S-1"[1]', ""]
    for at in range(1, length + 1):
        lines += [f'Switch\t2 "S-{at}"\t\t# "switch {at}"']
        lines += [f'[1]\t"S-{at - 1}"[2]' if at > 1 else '[1]\t"H-1"[1]']
        lines += [f'[2]\t"S-{at + 1}"[1]'] if at < length else []
        lines += [""]
    return Subnet.from_text("\n".join(lines))


def planes(*tables: list[int]) -> Subnet:
    """A CA whose first two ports are planes of one port."""
    net = subnet("dual-home")
    for number, table in enumerate(tables, 1):
        port = net.port("db02 mlx5_0", number)
        port.guid = net.port("db02 mlx5_0", 1).guid
        port.p_keys = table
    return net


def two_masters() -> AuditInput:
    net = ruled()
    net.set_sm("node02 mlx4_0")
    return look(net, sm_guids=guids_of(net))


def guids_of(net: Subnet) -> frozenset[int]:
    return frozenset(port.guid for port in end_ports(net))


def enforcing(mistake: Callable[[Subnet], object] = lambda net: None) -> Subnet:
    net = ruled(enforced=True)
    mistake(net)
    return net


def drops(net: Subnet) -> None:
    net.port(SWITCH, 2).count("port_rcv_constraint_errors", 5)


def asked(*, sa_key: int = 1, enhanced: bool = False, refuses: bool = False, master: bool = True) -> AuditInput:
    net = ruled()
    sa = net.sa_of("node01 mlx4_0")
    sa.sa_key, sa.enhanced_trust, sa.subscriptions.refuses_wildcards = sa_key, enhanced, refuses
    if not master:
        net.set_sm("node01 mlx4_0", None)
    return look(net, probe=True)


def with_policy(net: Subnet, *lines: str) -> AuditInput:
    return look(net, policy=policy(*lines))


def small_leaf(net: Subnet) -> None:
    set_p_key_capacity(net.node(SWITCH), enforcement_cap=1)


def pair(net: Subnet) -> Subnet:
    """Two hosts with a partition that no policy gives them."""
    for name in ("node02 mlx4_0", "node03 mlx4_0"):
        with_table([0x7FFF, 0x8010], name, net)
    return net


CASES: dict[str, Case] = {
    "MK001": Case(lambda: look(two_switch()), lambda: look(protected(0)), lambda: look(protected(1))),
    "MK002": Case(lambda: look(protected(0)), lambda: look(protected(2), KEY), lambda: look(silent(protected(2)), KEY)),
    "MK003": Case(lambda: look(protected(1)), lambda: look(protected(2), KEY), lambda: look(silent(protected(2)), KEY)),
    "MK004": Case(lambda: look(protected(0)), lambda: look(protected(0, key=None)), lambda: look(protected(1))),
    "MK005": Case(
        lambda: look(protected(2, lease=0), KEY),
        lambda: look(protected(2), KEY),
        lambda: look(silent(protected(2)), KEY),
    ),
    "MK006": Case(
        lambda: after(count_up("m_key_violations")),
        lambda: look(two_switch()),
        lambda: look(with_count("m_key_violations")),
    ),
    "MK007": Case(
        lambda: look(protected(0, key=0xDEADBEEFDEADBEEF)),
        lambda: look(protected(0, key=None)),
        lambda: look(protected(1)),
    ),
    "MK008": Case(lambda: look(half_rolled_out()), lambda: look(protected(1)), lambda: look(silent(protected(1)))),
    "MK009": Case(
        lambda: look(protected(0), store=stored(two_switch(), KEY)),
        lambda: look(protected(2), KEY, store=stored(two_switch(), KEY)),
        lambda: look(protected(0)),
    ),
    "MK010": Case(
        lambda: look(protected(0), store=stored(two_switch(), good_key(99))),
        lambda: look(protected(0), store=stored(two_switch(), KEY)),
        lambda: look(protected(1), store=stored(two_switch(), KEY)),
    ),
    "MK011": Case(lambda: look(silent(two_switch())), lambda: look(two_switch()), lambda: look(chain())),
    "KF001": Case(
        lambda: look(two_switch(), host=host(files=[key_file(0o644)])),
        lambda: look(two_switch(), host=host(files=[key_file(0o600)])),
        lambda: look(two_switch(), host=host(files=[key_file(0o644, holds_key=None)])),
    ),
    "KF002": Case(
        lambda: look(two_switch(), host=host(guid2mkey={GUID2MKEY: frozenset({1})})),
        lambda: look(two_switch(), host=host(guid2mkey={GUID2MKEY: guids_of(two_switch())})),
        lambda: look(two_switch(), host=host(guid2mkey={GUID2MKEY: None})),
    ),
    "CK001": Case(
        lambda: with_class_keys(classed("cc")),
        lambda: with_class_keys(classed("cc", key=KEY, protect_bit=1, lease_period=60)),
        lambda: look(two_switch()),
    ),
    "CK002": Case(
        lambda: with_class_keys(classed("b", key=KEY, lease_period=60)),
        lambda: with_class_keys(classed("b", key=KEY, protect_bit=1, lease_period=60)),
        lambda: with_class_keys(classed("vs", key=KEY, protect_bit=1), ask_unkeyed=False),
    ),
    "CK003": Case(
        lambda: with_class_keys(classed("n2n", key=KEY)),
        lambda: with_class_keys(classed("n2n", key=KEY, lease_period=60)),
        lambda: with_class_keys(classed("n2n", key=KEY, protect_bit=1)),
    ),
    "CK004": Case(
        lambda: with_class_keys(classed("cc", key=KEY, violations=1)),
        lambda: with_class_keys(classed("cc", key=KEY)),
        lambda: with_class_keys(silent(classed("cc", key=KEY))),
    ),
    "PK001": Case(lambda: look(two_switch()), lambda: look(ruled()), lambda: lost_table(ruled())),
    "PK002": Case(
        lambda: with_policy(with_table([0x7FFF, 0x8010])), lambda: with_policy(ruled()), lambda: look(ruled())
    ),
    "PK003": Case(
        lambda: with_policy(ruled(), "A=0x10 : 0x2c903000a1021=full ;"),
        lambda: with_policy(ruled()),
        lambda: look(ruled()),
    ),
    "PK004": Case(lambda: with_policy(with_table([0xFFFF])), lambda: with_policy(ruled()), lambda: look(ruled())),
    "PK005": Case(lambda: with_policy(pair(ruled())), lambda: with_policy(ruled()), lambda: look(pair(ruled()))),
    "PK006": Case(
        lambda: look(with_table([0x7FFF, 0x8010, 0x0010])), lambda: look(ruled()), lambda: lost_table(ruled())
    ),
    "PK007": Case(lambda: look(with_table([0x7FFF, 0x8000])), lambda: look(ruled()), lambda: lost_table(ruled())),
    "PK008": Case(
        lambda: look(with_table([0, 0x7FFF])), lambda: look(ruled()), lambda: look(with_table([0x8010, 0x7FFF]))
    ),
    "PK009": Case(
        lambda: look(with_table([0x7FFF, *range(0x8001, 0x8001 + 60)])),
        lambda: look(ruled()),
        lambda: lost_table(ruled()),
    ),
    "PK010": Case(
        lambda: after(lambda net: with_table([0x7FFF, 0, 0x8010], net=net), with_table([0x7FFF, 0x8010], net=ruled())),
        lambda: after(lambda net: with_table([0x7FFF, 0x8010, 0x8011], net=net), with_table([0x7FFF, 0x8010])),
        lambda: look(ruled()),
    ),
    "PK011": Case(
        lambda: look(with_table([0x7FFF, 0x8010])),
        lambda: look(pair(ruled())),
        lambda: lost_table(with_table([0x7FFF, 0x8010], "node03 mlx4_0")),
    ),
    "PK012": Case(
        lambda: with_policy(pair(ruled())),
        lambda: look(pair(ruled()), registry={0x10: "tenant a"}),
        lambda: look(pair(ruled())),
    ),
    "PK013": Case(
        lambda: look(planes([0x7FFF, 0x8010], [0x7FFF])),
        lambda: look(planes([0x7FFF, 0x8010], [0x7FFF, 0, 0x8010])),
        lambda: losing(AttributeID.P_KEY_TABLE, planes([0x7FFF], [0x7FFF]), "db02 mlx5_0"),
    ),
    "PK014": Case(
        lambda: look(ruled(), registry={0x7FFF: "tenant a"}),
        lambda: look(ruled(), registry={0x7FFF: "-"}),
        lambda: look(ruled()),
    ),
    "SE001": Case(
        lambda: look(ruled()),
        lambda: look(enforcing()),
        lambda: losing(AttributeID.SWITCH_INFO, enforcing(), SWITCH),
    ),
    "SE002": Case(
        lambda: look(enforcing(lambda net: with_table([0x7FFF, 0x8010], net=net))),
        lambda: look(enforcing()),
        lambda: lost_table(enforcing()),
    ),
    "SE003": Case(
        lambda: look(enforcing(lambda net: setattr(net.port(SWITCH, 7), "inbound_enforcement", 1))),
        lambda: look(enforcing()),
        lambda: look(silent(enforcing())),
    ),
    "SE004": Case(
        lambda: look(enforcing(lambda net: (small_leaf(net), with_table([0x7FFF, 0x8010], net=net)))),
        lambda: look(enforcing(small_leaf)),
        lambda: lost_table(enforcing()),
    ),
    "QK001": Case(
        lambda: after(count_up("p_key_violations")),
        lambda: after(lambda net: None),
        lambda: look(with_count("q_key_violations")),
    ),
    "QK002": Case(lambda: after(drops), lambda: look(enforcing()), lambda: look(enforcing(drops))),
    "QK003": Case(
        lambda: look(two_switch(), host=host(privileged_qkey=True)),
        lambda: look(two_switch(), host=host(privileged_qkey=False)),
        lambda: look(two_switch(), host=host()),
    ),
    "SM001": Case(
        two_masters,
        lambda: look(ruled(), sm_guids=guids_of(two_switch())),
        lambda: look(ruled()),
    ),
    "SM002": Case(asked, lambda: asked(sa_key=0x1234567), lambda: look(ruled())),
    "SM003": Case(asked, lambda: asked(enhanced=True), lambda: asked(master=False)),
    "SM004": Case(asked, lambda: asked(refuses=True), lambda: asked(master=False)),
    "HY001": Case(
        lambda: look(two_switch(), host=host(devices=[umad(0o666)])),
        lambda: look(two_switch(), host=host(devices=[umad(0o660)])),
        lambda: look(two_switch(), host=host()),
    ),
    "HY002": Case(
        lambda: look(twice_the_same_guid(), inventory=guids_of(two_switch())),
        lambda: look(two_switch(), inventory=guids_of(two_switch())),
        lambda: look(silent(two_switch()), inventory=guids_of(two_switch())),
    ),
    "HY003": Case(lambda: look(silent(two_switch())), lambda: look(two_switch()), lambda: look(chain())),
    "HY004": Case(
        lambda: after(recable, with_table([0x7FFF, 0x8010])),
        lambda: after(lambda net: recable(net, "node05 mlx4_0"), with_table([0x7FFF, 0x8010])),
        lambda: after(lambda net: (recable(net), silent(net, "node02 mlx4_0")), with_table([0x7FFF, 0x8010])),
    ),
    "HY005": Case(
        lambda: look(virtual(True)),
        lambda: look(virtual(False)),
        lambda: look(silent(two_switch())),
    ),
}


def virtual(enabled: bool) -> Subnet:
    net = two_switch()
    virtualize(net, "node02 mlx4_0", enabled)
    return net


def with_count(name: str) -> Subnet:
    net = ruled()
    count_up(name)(net)
    return net


def half_rolled_out() -> Subnet:
    net = protected(1)
    net.port("node03 mlx4_0", 1).lease_period = 0
    return net


def twice_the_same_guid() -> Subnet:
    net = two_switch()
    net.port("node03 mlx4_0", 1).guid = net.port("node02 mlx4_0", 1).guid
    return net
