"""Messages of a host: kernel, IPoIB, SELinux and rdma_cm.

Wording: the Linux kernel (ipoib_multicast.c, ipoib_ib.c) and rdma-core (ibacm, librdmacm); the meaning as it was
observed on a simulated fabric.
"""

from __future__ import annotations

from typing import Final

from ibkeys.symptoms.causes import (
    DEFAULT_LIMITED_SM,
    GROUP_MISSING,
    HOST_LIMITED,
    HOST_NOT_A_MEMBER,
    INDEX_MOVED,
    NO_DEFAULT_P_KEY,
    NO_RIGHTS,
    NO_SHARED_P_KEY,
    NODE_GONE,
    SA_UNREACHED,
    SWITCH_BLOCKS,
)
from ibkeys.symptoms.row import Cause, Symptom

SUBJECT: Final = "Kernel and IPoIB"

_SELINUX: Final = Cause(
    "selinux",
    "The policy of SELinux does not allow this program this P_Key or to manage the subnet.",
    ("host-show --partition {pkey}", "host-show"),
    "SELinux restricts access to P_Keys or to SMPs",
    "semanage ibpkey -l and semanage ibendport -l list the labels; root is refused too.",
)
_IPOIB_DOWN: Final = Cause(
    "ipoib-not-joined",
    "The interface has its P_Key, but could not join the broadcast group of the partition.",
    ("compare --ipoib --policy opensm", "host-show"),
    "a group that is missing, or an interface that is not running",
    "ibkeys partition-add PARTITION --ipoib.",
)
_CHILD_KEY: Final = Cause(
    "child-p-key-absent",
    "The P_Key of the child interface is not in the table of its port; the interface runs as soon as it comes.",
    ("host-show --partition {pkey}", "host-show"),
    "an interface without an index: its P_Key is not in the table",
    "Add the port to the partition: ibkeys partition-add.",
)

ROWS: Final = (
    Symptom(
        name="ipoib-join-22",
        title="IPoIB: multicast join failed, status -22",
        patterns=(r"multicast join failed for\b.{0,60}?status:? -?22\b", r"multicast join failed,? status:? -?22\b"),
        example="ib0.8010: multicast join failed for ff12:401b:8010:0000:0000:0000:ffff:ffff, status -22",
        meaning="The SA refused the join (EINVAL). OpenSM's log has an ERR 1B.. line about it at the same time.",
        causes=(
            GROUP_MISSING,
            HOST_NOT_A_MEMBER,
            HOST_LIMITED,
        ),
        source="ipoib_multicast.c; osm_sa_mcmember_record.c; observed",
        words="EINVAL carrier",
    ),
    Symptom(
        name="ipoib-join-110",
        title="IPoIB: multicast join failed, status -110 or -11",
        patterns=(r"multicast join failed\b.{0,60}?status:? -?(?:110|11)\b",),
        example="ib0: multicast join failed for ff12:401b:ffff:0000:0000:0000:ffff:ffff, status -110",
        meaning="The SA did not answer the join (ETIMEDOUT): the request or the answer is lost.",
        causes=(SA_UNREACHED, NO_DEFAULT_P_KEY, DEFAULT_LIMITED_SM),
        source="ipoib_multicast.c",
        words="ETIMEDOUT",
    ),
    Symptom(
        name="ipoib-p-key-not-found",
        title="IPoIB: P_Key not found",
        patterns=(
            r"^(?!.*(?:UCX|gasnet|mpi)).{0,80}\bP_?Key 0x[0-9a-f]+ (?:is )?(?:not found|invalid)",
            r"\bib[a-z0-9_.]*: P_Key \S+ is (?:not found|invalid)",
        ),
        example="ib0.8010: P_Key 0x8010 is not found",
        meaning="The interface was opened and the P_Key is not in the table of its port. It stays without carrier.",
        causes=(_CHILD_KEY, NO_DEFAULT_P_KEY),
        source="ipoib_ib.c",
    ),
    Symptom(
        name="ipoib-no-carrier",
        title="an IPoIB interface with NO-CARRIER",
        patterns=(
            r"\b(?:ib|ibp|ibs|ibo)[a-z0-9_.@]*:? (?:[0-9]+: )?<?[^>\n]{0,60}NO-CARRIER",
            r"NO-CARRIER[^\n]{0,200}\n?[^\n]{0,40}(?:link/infiniband|mtu (?:2044|4092|65520))",
            r"(?:ib|ibp|ibs)[a-z0-9_.]*: link is not ready",
            r"\b(?:ib|ibp|ibs)[0-9a-z_.]*\b[^\n]{0,40}(?:up but not running|is not running|no carrier|LOWERLAYERDOWN)",
        ),
        example="5: ib0.8010@ib0: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 2044 qdisc mq state DOWN",
        meaning="The interface is up, and IPoIB did not start it: the P_Key is not in the table of its port, the "
        "broadcast group was not joined, or the link is down.",
        causes=(_CHILD_KEY, _IPOIB_DOWN, SA_UNREACHED),
        source="ipoib_ib.c, ipoib_multicast.c",
        words="carrier DOWN LOWERLAYERDOWN",
    ),
    Symptom(
        name="ipoib-create-child",
        title="IPoIB: a child interface cannot be made",
        patterns=(
            r"create_child[^\n]{0,60}(?:invalid argument|write error|not unique|File exists)",
            r"(?:write error|invalid argument)[^\n]{0,60}create_child",
            r"RTNETLINK answers: Name not unique on network",
            r"type ipoib pkey",
            r"RTNETLINK answers: Invalid argument.{0,40}\bib[0-9a-z]*\.[0-9a-f]{4}",
        ),
        example="bash: echo: write error: Invalid argument (ib0/create_child)",
        meaning="The kernel refused the child: the P_Key is 0x0000 or 0x8000, or another child has it already.",
        causes=(
            Cause(
                "child-exists",
                "A child with this P_Key is there already, perhaps under another name.",
                ("host-show",),
                "the IPoIB interfaces and their P_Keys",
            ),
        ),
        source="ipoib_vlan.c, ipoib_netlink.c",
        rank=1,
    ),
    Symptom(
        name="selinux-pkey",
        title="SELinux: access to a P_Key denied",
        patterns=(r"avc: denied \{ access \}.{0,300}(?:pkey=|infiniband_pkey)", r"tclass=infiniband_pkey"),
        example="avc: denied { access } for pid=991 comm=ib_write_bw pkey=0x8010 subnet_prefix=fe80:0:0:0:: "
        "tclass=infiniband_pkey",
        meaning="A program tried to use a P_Key, and the policy of SELinux does not allow its domain that.",
        causes=(_SELINUX, HOST_NOT_A_MEMBER),
        source="security/selinux/hooks.c; facts about the host",
    ),
    Symptom(
        name="selinux-subnet",
        title="SELinux: managing the subnet denied",
        patterns=(r"avc: denied \{ manage_subnet \}", r"tclass=infiniband_endport"),
        example="avc: denied { manage_subnet } for pid=12 comm=opensm device=mlx5_0 port_num=1 "
        "tclass=infiniband_endport",
        meaning="A program may not send or receive SMPs here, even as root. It is no M_Key that refuses.",
        causes=(_SELINUX, NO_RIGHTS),
        source="security/selinux/hooks.c",
    ),
    Symptom(
        name="rdma-cm-route-timeout",
        title="rdma_cm: no answer to the question for a path",
        patterns=(
            r"RDMA_CM_EVENT_ROUTE_ERROR(?=[^\n]{0,20}-110\b)",
            r"rdma_resolve_route(?=\b[^\n]{0,60}(?:-110\b|timed out))",
            r"\bROUTE ERROR(?= -110\b)",
        ),
        example="cma event RDMA_CM_EVENT_ROUTE_ERROR, error -110",
        meaning="rdma_cm asked the SA for a path, and the SA did not answer (ETIMEDOUT). A path that is refused has "
        "another error, mostly -22.",
        causes=(SA_UNREACHED, NO_DEFAULT_P_KEY, DEFAULT_LIMITED_SM),
        source="drivers/infiniband/core/cma.c, sa_query.c",
        words="ETIMEDOUT path record Lustre rping",
    ),
    Symptom(
        name="rdma-cm-route",
        title="rdma_cm: address or route error",
        patterns=(
            r"RDMA_CM_EVENT_(?:ROUTE|ADDR|UNREACHABLE)[A-Z_]*(?:ERROR)?",
            r"rdma_resolve_(?:route|addr)\b[^\n]{0,60}(?:fail|error|-?110|-?22|timed out)",
            r"o2ib\b.{0,40}UNREACHABLE",
            r"\b(?:no|failed to get|cannot find) path record",
            r"\bnvme\d*: rdma connection establishment failed \(-(?:104|110)\)",
            r"Can.t resolve addr for \S+@o2ib",
            r"\b(?:ROUTE|ADDR) ERROR -?\d+",
        ),
        example="RDMA_CM_EVENT_ROUTE_ERROR, error: -22",
        meaning="rdma_cm asked the SA for a path in the partition of the IPoIB interface, and got none.",
        causes=(NO_SHARED_P_KEY, HOST_LIMITED, SA_UNREACHED),
        unknown="The ports: only their IP addresses may be in the text. ibkeys why takes host names too.",
        source="drivers/infiniband/core/cma.c; drivers/nvme/host/rdma.c; o2iblnd_cb.c of Lustre",
        words="Lustre LNet o2iblnd NFS NVMe iSER path record",
    ),
    Symptom(
        name="lnet-timeout",
        title="Lustre: Timed out RDMA",
        patterns=(
            r"Timed out (?:RDMA|tx) (?:with|for)\b",
            r"LNetError.{0,200}\b(?:rc|status) ?:?=? ?-110\b",
            r"@o2ib\d* failed: rc = -110\b",
        ),
        example="LNetError: 2301:0:(o2iblnd_cb.c:3331:kiblnd_check_conns()) Timed out RDMA with 10.1.0.7@o2ib (5)",
        meaning="A connection of Lustre was made, and its packets are not acknowledged any more. Lustre takes the "
        "P_Key of the IPoIB interface that it is bound to, at the index of that moment.",
        causes=(NODE_GONE, SWITCH_BLOCKS, INDEX_MOVED),
        unknown="The ports: only their IP addresses are in the text. A server that is too busy looks the same.",
        source="o2iblnd_cb.c of Lustre",
        words="kiblnd o2ib",
        rank=1,
    ),
    Symptom(
        name="ibacm-ep-name",
        title="ibacm: unable to assign EP name for pkey",
        patterns=(r"unable to assign EP name for pkey",),
        example="acm_ep_up: ERROR - unable to assign EP name for pkey 0x8010",
        meaning="The port has this P_Key, and no IPoIB interface or line of ibacm_addr.cfg gives it an address. ibacm "
        "then answers nothing for that partition; the P_Key itself is fine.",
        causes=(
            Cause(
                "no-interface",
                "No IPoIB interface has this P_Key.",
                ("host-show --partition {pkey}", "host-show"),
                "the P_Key at an index that no interface takes",
                "Make the child interface, or ignore the message.",
            ),
        ),
        source="ibacm/src/acm.c of rdma-core; linux-rdma/rdma-core#482",
    ),
    Symptom(
        name="srp-join",
        title="librdmacm or the kernel: multicast or service join refused",
        patterns=(r"RDMA_CM_EVENT_MULTICAST_ERROR", r"rdma_join_multicast\b.{0,40}(?:fail|errno)"),
        example="RDMA_CM_EVENT_MULTICAST_ERROR, error -22",
        meaning="A program asked to join a multicast group in the partition of an IPoIB interface, and was refused.",
        causes=(HOST_NOT_A_MEMBER, GROUP_MISSING),
        source="drivers/infiniband/core/cma.c; tl_mlx5 of UCC",
        words="UCC hcoll mcast",
    ),
    Symptom(
        name="port-initializing",
        title="a port stays in Initialize",
        patterns=(
            r"\bstate:? *(?:2: ?)?Init(?:ializ(?:e|ing))?\b",
            r"\bSM ?_?lid:? *(?:is )?(?:0x)?0\b",
            r"\b(?:stays?|stuck|remains?) in (?:state )?init",
            r"\bLocal lid 0x0 detected",
            r"Couldn.t get local LID",
            r"verbsPort \S+ due to missing active port",
        ),
        example="State: Initializing, Physical state: LinkUp, SM lid: 0",
        meaning="The link is up, and no subnet manager has configured the port: it has no LID, and its P_Keys are "
        "those of before.",
        causes=(
            SA_UNREACHED,
            Cause(
                "m-key-unknown",
                "The port has an M_Key that the subnet manager does not know, so its Sets are refused.",
                ("mkey-show -G {guid}", "mkey-show {lid}", "mkey-show --all"),
                "hidden or unreadable",
                "ibkeys mkey-recover, or give the subnet manager the key.",
            ),
        ),
        source="IBA 7.2.7; observed",
        words="Initializing Init ibstat perftest GPFS mmfs",
    ),
    Symptom(
        name="ipoib-unreachable",
        title="IPoIB: Destination Host Unreachable",
        patterns=(
            r"\bib[0-9a-z]*\.[0-9a-f]{4}\b.{0,80}(?:unreachable|100% packet loss|timed out|no reply)",
            r"(?:unreachable|100% packet loss)\b.{0,80}\bib[0-9a-z]*(?:\.[0-9a-f]{4})?\b",
            r"\bipoib\b.{0,80}(?:unreachable|cannot ping|can.t ping|packet loss)",
        ),
        example="ping over ib0.8010: Destination Host Unreachable",
        meaning="The interface runs, and no answer to ARP comes: the two hosts do not share the partition as IPoIB "
        "needs it, or a switch drops the packets.",
        causes=(HOST_LIMITED, NO_SHARED_P_KEY, SWITCH_BLOCKS),
        source="IBA 10.9.3; ipoib_main.c",
        rank=1,
        words="ping ARP unreachable",
    ),
    Symptom(
        name="query-p-key",
        title="the driver cannot read the P_Key table",
        patterns=(r"(?:ib|ibv)_query_pkey\b.{0,40}fail", r"QUERY_HCA_VPORT_PKEY.{0,40}(?:fail|err)", r"ib_find_pkey"),
        example="infiniband mlx5_0: ib_query_pkey failed (-22)",
        meaning="The driver was asked for an index that is not in the table, or its firmware refused the query.",
        causes=(
            Cause(
                "table-unread",
                "The device does not tell its P_Keys, or the index is out of its table.",
                ("host-show",),
                "the table as the kernel has it; what could not be read is named",
            ),
        ),
        source="drivers/infiniband/core/device.c",
    ),
)
