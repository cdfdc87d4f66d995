"""The causes that several symptoms have, each with the command that shows whether it is the right one."""

from __future__ import annotations

from typing import Final

from ibkeys.symptoms.row import Cause

_TABLE: Final = ("pkey-show -G {guid}", "pkey-show {lid}", "pkey-show --all --partition {pkey}", "pkey-show --all")
_PAIR: Final = ("why -G {guid} {guid2}", "why {lid1} {lid2}", "matrix")

NOT_A_MEMBER: Final = Cause(
    "not-a-member",
    "The port is not in the partition: its P_Key table has neither the full nor the limited P_Key.",
    _TABLE,
    "no entry with this partition number",
    "Add the port to the partition: ibkeys partition-add.",
)
NO_SHARED_P_KEY: Final = Cause(
    "no-shared-partition",
    "The two ports have no partition in common, or are both limited members of it: limited members cannot talk to each "
    "other.",
    _PAIR,
    "cannot talk, with the reason for each P_Key",
    "Make one of them a full member of the partition, or put both into another one: ibkeys partition-add.",
)
BOTH_LIMITED: Final = Cause(
    "both-limited",
    "Both ports are only limited members of the partition (P_Keys below 0x8000), and limited members cannot talk to "
    "each other.",
    _PAIR,
    "cannot talk: both are limited members",
    "Make the server a full member (ibkeys partition-add PARTITION --full); clients may stay limited.",
)
SWITCH_BLOCKS: Final = Cause(
    "switch-blocks",
    "A switch port enforces partitions, and its own P_Key table lacks the P_Key: it drops the packets without a word.",
    ("why -G {guid} {guid2}", "why {lid1} {lid2}", "audit --check SE002,SE003,SE004"),
    "the switch port that stops the packets",
    "Let the subnet manager write the switch's table again, or set it: ibkeys compare shows which table is wrong.",
)
DROPS_COUNTED: Final = Cause(
    "drops-counted",
    "Packets with a wrong P_Key arrive, or a switch drops them: the counters of the ports say where.",
    ("port-show -G {guid} --counters", "port-show {lid} --counters", "port-show --all --counters --nonzero"),
    "a violation counter, or constraint errors of a switch port, above 0",
    "ibkeys watch shows who sends them, as it happens.",
)
DEFAULT_LIMITED_SM: Final = Cause(
    "sm-port-not-full",
    "The port of the subnet manager is only a limited member of the default partition, so that limited members do not "
    "reach the SA.",
    ("pkey-show --all --partition 0x7fff",),
    "0x7fff, not 0xffff, at the port of the subnet manager",
    "SELF=full as the last item of Default in partitions.conf.",
)
M_KEY_PROTECTED: Final = Cause(
    "m-key-protected",
    "The port has an M_Key at level 2 or 3 and the request has not this key: the port drops it without an answer.",
    (
        "mkey-show -G {guid}",
        "mkey-show -D {route}",
        "mkey-show {lid}",
        "mkey-show --all",
    ),
    "no reply without the key, although discover shows the link as Active; with the key it answers",
    "Give the key: ibkeys -y @FILE or --security-keys /var/cache/opensm, infiniband-diags -y. If it is lost: ibkeys "
    "mkey-recover.",
)
M_KEY_WRONG_SET: Final = Cause(
    "m-key-wrong",
    "A Set came with a wrong M_Key, or at levels 2 and 3 a Get: from an OpenSM with another m_key, a tool "
    "without the key, or an intruder.",
    ("mkey-show -G {guid}", "mkey-show {lid}", "mkey-show --all --nonzero"),
    "a violation counter above 0, and which level the port has",
    "ibkeys watch shows each attempt as it happens, sm-show whether a second subnet manager runs.",
)
NODE_GONE: Final = Cause(
    "node-gone",
    "The node is off, hangs, or a link on the way is down.",
    ("discover",),
    "the node is missing: its switch port has no link, or nothing answers behind it",
    "Look at the link and the node. If the link is Active and nothing answers, it may be an M_Key as well.",
)
SA_UNREACHED: Final = Cause(
    "sa-unreached",
    "No subnet manager answers: none runs, it restarts, or this host has no usable default P_Key towards it.",
    ("doctor", "sm-show"),
    "no subnet manager, or a default P_Key that does not reach it",
    "Start the subnet manager, or give this port 0x7fff or 0xffff.",
)
NO_DEFAULT_P_KEY: Final = Cause(
    "no-default-p-key",
    "The port has no P_Key of the default partition (0xffff or 0x7fff), so its requests to the SA are dropped.",
    ("pkey-show -G {guid}", "pkey-show {lid}", "pkey-show"),
    "neither 0xffff nor 0x7fff in the table",
    "Every port needs a default P_Key: ALL=limited in Default of partitions.conf.",
)
TABLE_FULL: Final = Cause(
    "table-full",
    "The P_Key table of the port is full: the port is in more partitions than it has entries.",
    ("pkey-show -G {guid}", "audit --check PK009"),
    "all entries in use",
    "Take the port out of partitions that it does not need: ibkeys partition-remove.",
)
SWITCH_TABLE_SMALL: Final = Cause(
    "switch-table-small",
    "The switch has fewer P_Key entries for its port than the host behind it needs.",
    ("audit --check SE004", "port-show --all --switch --caps"),
    "a port of the switch whose table is too small",
    "Fewer partitions for this host, or another switch; until then OpenSM leaves this port without enforcement.",
)
TWO_SMS: Final = Cause(
    "two-sms",
    "Two subnet managers have different keys (sm_key, or the M_Key), so that they do not accept each other.",
    ("sm-show",),
    "two masters, or a standby with other files",
    "The same sm_key, m_key and partitions.conf on all their hosts; ibkeys smkey-rotate sets new ones everywhere.",
)
SA_KEY_WRONG: Final = Cause(
    "sa-key-wrong",
    "A program asked the SA with another SM_Key than OpenSM's sa_key: a tool with an old --smkey, or an sa_key that "
    "was changed.",
    ("sm-show",),
    "whether sa_key is zero, the default or set in the OpenSMs that are found",
    "Give the tool the current sa_key; requests with SM_Key 0 are answered as untrusted.",
)
POLICY_FILE: Final = Cause(
    "policy-file",
    "partitions.conf has a mistake, is empty or is missing: OpenSM then makes every port a full member of the default "
    "partition.",
    ("audit --check PK001", "sm-show"),
    "ports that are full members of the default partition",
    "ibkeys policy-check FILE names the line; write a new file beside it and rename it.",
)
INDEX_0: Final = Cause(
    "index-0",
    "The program takes the P_Key at index 0 of its table, and there is another one at index 0 of this port than at its "
    "partner's.",
    ("host-show --partition {pkey}", "host-show"),
    "which index each program takes, and the P_Key there",
    "Set the program's variable to the index or value that host-show -f env prints, or put the P_Key at index 0 (indx0 "
    "in partitions.conf).",
)
HOST_NOT_A_MEMBER: Final = Cause(
    "host-not-a-member",
    "This host's port does not have the P_Key: the subnet manager did not give it, or took it away.",
    ("host-show --partition {pkey}", "host-show"),
    "the partition is not in the P_Key table",
    "Add the port to the partition: ibkeys partition-add; P_Keys arrive without a restart.",
)
HOST_LIMITED: Final = Cause(
    "host-limited",
    "This host has the P_Key as limited member only, and its partner too: limited members cannot talk to each other.",
    ("why -G {guid} {guid2}", "why {lid1} {lid2}", "host-show --partition {pkey}", "host-show"),
    "a limited P_Key (below 0x8000)",
    "Make the server a full member: ibkeys partition-add PARTITION --full.",
)
INDEX_MOVED: Final = Cause(
    "index-moved",
    "The P_Key moved to another index while programs ran: their queue pairs keep the index, and send with another "
    "P_Key.",
    ("audit --check PK008,PK010", "host-show"),
    "an unexpected P_Key at index 0; with --baseline, indexes that moved",
    "Restart the program; keep_pkey_indexes TRUE in opensm.conf.",
)
GROUP_MISSING: Final = Cause(
    "group-missing",
    "The partition has no IPoIB multicast group: its line in partitions.conf lacks ipoib, or rate and mtu do not fit "
    "the port.",
    ("compare --ipoib --policy opensm",),
    "the group is missing, or differs",
    "ibkeys partition-add PARTITION --ipoib; for a slower port a lower --rate.",
)
NO_UMAD: Final = Cause(
    "no-umad",
    "The kernel module ib_umad is not loaded, or this host or container has no InfiniBand device.",
    ("doctor",),
    "which of module, device, link and rights is missing",
    "modprobe ib_umad; in a container pass /dev/infiniband.",
)
NO_RIGHTS: Final = Cause(
    "no-rights",
    "Only root may open /dev/infiniband/umad*, or SELinux refuses it.",
    ("doctor", "host-show"),
    "a device without the rights; whether SELinux restricts access",
    "Run it as root; without root, ibkeys host-show reads what the kernel shows.",
)
VIRTUAL_FUNCTION: Final = Cause(
    "virtual-function",
    "The port is a virtual function: it has no QP0, so that it sends no SMPs.",
    ("host-show", "doctor"),
    "a virtual function",
    "Run it on a host with a physical function. Queries of the SA work.",
)
ETHERNET: Final = Cause(
    "link-is-ethernet",
    "The port's link is Ethernet (RoCE): it has no subnet manager, takes no SMPs, and has the P_Key 0xffff only.",
    ("host-show",),
    "the link layer of each port",
    "Take an InfiniBand port, with the program's option for it, or set the port's link type with mlxconfig.",
)
AGENT_TAKEN: Final = Cause(
    "agent-taken",
    "Another program on this host has registered this class, such as an OpenSM.",
    ("doctor",),
    "whether the local port opens",
    "Stop the other program, or use another port.",
)
