"""Messages of a host: kernel, IPoIB, SELinux, rdma_cm, and the tools of infiniband-diags.

Wording: the Linux kernel (ipoib_multicast.c, ipoib_ib.c), libibmad, libibumad and infiniband-diags of Debian 12, and
rdma-core (ibacm, librdmacm); the meaning as it was observed on a simulated fabric.
"""

from __future__ import annotations

from typing import Final

from ibkeys.symptoms.causes import (
    AGENT_TAKEN,
    BOTH_LIMITED,
    DEFAULT_LIMITED_SM,
    GROUP_MISSING,
    HOST_LIMITED,
    HOST_NOT_A_MEMBER,
    M_KEY_PROTECTED,
    NO_DEFAULT_P_KEY,
    NO_RIGHTS,
    NO_SHARED_P_KEY,
    NO_UMAD,
    NODE_GONE,
    NOT_A_MEMBER,
    SA_KEY_WRONG,
    SA_UNREACHED,
    SWITCH_BLOCKS,
    VIRTUAL_FUNCTION,
)
from ibkeys.symptoms.row import Cause, Symptom

KERNEL: Final = "Kernel and IPoIB"
DIAGS: Final = "infiniband-diags and the SA"

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
_STATUS_OF_SET: Final = Cause(
    "attribute-refused",
    "The device does not know this attribute or modifier, such as a block past the end of the P_Key table.",
    ("port-show -D {route} --caps", "port-show {lid} --caps", "port-show --all --caps"),
    "how many P_Keys the port has",
)

ROWS: Final = (
    Symptom(
        name="ipoib-join-22",
        title="IPoIB: multicast join failed, status -22",
        subject=KERNEL,
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
        subject=KERNEL,
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
        subject=KERNEL,
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
        subject=KERNEL,
        patterns=(
            r"\b(?:ib|ibp|ibs|ibo)[a-z0-9_.@]*:? (?:[0-9]+: )?<?[^>\n]{0,60}NO-CARRIER",
            r"NO-CARRIER[^\n]{0,200}\n?[^\n]{0,40}(?:link/infiniband|mtu (?:2044|4092|65520))",
            r"(?:ib|ibp|ibs)[a-z0-9_.]*: link is not ready",
            r"\b(?:ib|ibp|ibs)[0-9a-z_.]*\b[^\n]{0,40}(?:up but not running|is not running|no carrier|LOWERLAYERDOWN)",
        ),
        example="5: ib0.8010@ib0: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 2044 qdisc mq state DOWN",
        meaning="The interface is up, and IPoIB did not start it: the P_Key is not in the table of its port, the "
        "broadcast "
        "group was not joined, or the link is down.",
        causes=(_CHILD_KEY, _IPOIB_DOWN, SA_UNREACHED),
        source="ipoib_ib.c, ipoib_multicast.c",
        words="carrier DOWN LOWERLAYERDOWN",
    ),
    Symptom(
        name="ipoib-create-child",
        title="IPoIB: a child interface cannot be made",
        subject=KERNEL,
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
        subject=KERNEL,
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
        subject=KERNEL,
        patterns=(r"avc: denied \{ manage_subnet \}", r"tclass=infiniband_endport"),
        example="avc: denied { manage_subnet } for pid=12 comm=opensm device=mlx5_0 port_num=1 "
        "tclass=infiniband_endport",
        meaning="A program may not send or receive SMPs here, even as root. It is no M_Key that refuses.",
        causes=(_SELINUX, NO_RIGHTS),
        source="security/selinux/hooks.c",
    ),
    Symptom(
        name="rdma-cm-route",
        title="rdma_cm: address or route error",
        subject=KERNEL,
        patterns=(
            r"RDMA_CM_EVENT_(?:ROUTE|ADDR|UNREACHABLE)[A-Z_]*(?:ERROR)?",
            r"rdma_resolve_(?:route|addr)\b[^\n]{0,60}(?:fail|error|-?110|-?22|timed out)",
            r"o2ib\b.{0,40}UNREACHABLE",
            r"\b(?:no|failed to get|cannot find) path record",
            r"srp_?daemon.{0,40}(?:No SA|no response|timed out|failed)",
            r"\b(?:ROUTE|ADDR) ERROR -?\d+",
        ),
        example="RDMA_CM_EVENT_ROUTE_ERROR, error: -22",
        meaning="rdma_cm asked the SA for a path in the partition of the IPoIB interface, and got none.",
        causes=(NO_SHARED_P_KEY, HOST_LIMITED, SA_UNREACHED),
        unknown="The ports: only their IP addresses may be in the text. ibkeys why takes host names too.",
        source="drivers/infiniband/core/cma.c; o2iblnd_cb.c of Lustre",
        words="Lustre LNet o2iblnd NFS iSER path record",
    ),
    Symptom(
        name="ibacm-ep-name",
        title="ibacm: unable to assign EP name for pkey",
        subject=KERNEL,
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
        subject=KERNEL,
        patterns=(r"RDMA_CM_EVENT_MULTICAST_ERROR",),
        example="RDMA_CM_EVENT_MULTICAST_ERROR, error -22",
        meaning="A program asked to join a multicast group in the partition of an IPoIB interface, and was refused.",
        causes=(HOST_NOT_A_MEMBER, GROUP_MISSING),
        source="drivers/infiniband/core/cma.c",
    ),
    Symptom(
        name="mad-rpc",
        title="infiniband-diags: mad_rpc failed, Connection timed out",
        subject=DIAGS,
        patterns=(
            r"_?do_madrpc (?:failed|:)",
            r"mad_rpc(?:_rmpp)? ?:? ?_?(?:do_madrpc )?failed",
            r"recv failed: Connection timed out",
            r"timeout after \d+ retries, \d+ ms",
            r"umad_recv[^\n]{0,40}\b(?:110|timed out)",
        ),
        example="ibwarn: [1234] mad_rpc: _do_madrpc failed; dport (Lid 5)",
        meaning="A tool asked a port and got no answer to any attempt.",
        causes=(M_KEY_PROTECTED, NODE_GONE),
        unknown="A wrong M_Key, a dead node and an unsupported attribute look the same: nothing comes back.",
        source="libibmad rpc.c",
        words="status 110 ETIMEDOUT smpquery perfquery",
    ),
    Symptom(
        name="mad-status",
        title="infiniband-diags: MAD completed with error status",
        subject=DIAGS,
        patterns=(r"MAD completed with error status 0x[0-9a-f]+",),
        example="ibwarn: [77] mad_rpc: MAD completed with error status 0x1c; dport (Lid 5)",
        meaning="The port answered and refused the request. A wrong M_Key is never answered, so this is not one.",
        causes=(_STATUS_OF_SET,),
        source="libibmad rpc.c",
        words="0x1c 0xc status",
    ),
    Symptom(
        name="query-failed",
        title="infiniband-diags: a query failed",
        subject=DIAGS,
        patterns=(
            r"iberror: failed: ?\S{0,20} ?(?:node|port|switch|guid|pkey table|smp)[^\n]{0,30}",
            r"\b(?:node info|port info|pkey table|switch info) query failed",
            r"smp query (?:node|port)info(?: extended)? failed",
            r"smp set portinfo failed",
            r"\bsminfo[^\n]{0,30}query failed|iberror: failed: query\b",
        ),
        example="smpquery: iberror: failed: operation pkeys: pkey table query failed",
        meaning="smpquery, ibportstate, perfquery or sminfo got no answer from the port, or one that refused.",
        causes=(M_KEY_PROTECTED, NODE_GONE),
        source="infiniband-diags",
        rank=1,
        words="query failed",
    ),
    Symptom(
        name="cannot-resolve",
        title="infiniband-diags: can't resolve the port",
        subject=DIAGS,
        patterns=(
            r"can.t resolve (?:destination|source|self|sm) port",
            r"cannot resolve (?:destination|sm) port",
            r"sa call (?:path|node)_query failed",
            r"ib_resolve_\w+[^\n]{0,30}failed",
        ),
        example="smpquery: iberror: failed: can't resolve destination port 0x2c903000a1021",
        meaning="The tool asked the SA for the LID of a GUID, and got no answer or no path.",
        causes=(SA_UNREACHED, NO_DEFAULT_P_KEY, NODE_GONE),
        source="libibmad resolve.c",
    ),
    Symptom(
        name="saquery-timeout",
        title="saquery: no answer of the SA",
        subject=DIAGS,
        patterns=(
            r"Query SA failed: (?:Connection timed out|\S+ ?timed? ?out)",
            r"sa_(?:rpc_call|query)[^\n]{0,40}failed",
            r"saquery[^\n]{0,60}(?:timed out|failed)",
            r"Failed to bind to the SA",
        ),
        example="saquery: ERROR: Query SA failed: Connection timed out",
        meaning="The SA did not answer. OpenSM does not answer a request with a wrong SM_Key, and nothing arrives "
        "where "
        "the default partition is missing.",
        causes=(SA_UNREACHED, SA_KEY_WRONG, NO_DEFAULT_P_KEY),
        source="infiniband-diags saquery.c; osm_sa_mad_ctrl.c; observed",
        words="smkey timeout",
    ),
    Symptom(
        name="sa-status",
        title="saquery: the SA refused",
        subject=DIAGS,
        patterns=(
            r"Query result returned:? 0x0*[1-8]00",
            r"\bIB_SA_(?:MAD_STATUS_)?(?:REQ_INVALID|NO_RECORDS|DENIED|INSUF_COMPS)",
            r"SA (?:MAD )?status:? 0x0*[1-8]00",
        ),
        example="saquery: ERROR: Query result returned 0x0200, SA: invalid request",
        meaning="0x0200: refused, as P_Key tables and trap subscriptions are without the sa_key; 0x0300: no record "
        "that "
        "this port may see; 0x0700: denied.",
        causes=(
            Cause(
                "untrusted-query",
                "The SA tells P_Key tables, M_Keys and members of groups only to who sends its sa_key.",
                ("pkey-show --all", "sm-show"),
                "the tables, which the ports tell everybody below level 2",
                "Give the sa_key: --smkey @FILE.",
            ),
            NO_SHARED_P_KEY,
        ),
        source="infiniband-diags; osm_sa_pkey_record.c; observed",
    ),
    Symptom(
        name="umad-open",
        title="the umad device cannot be opened",
        subject=DIAGS,
        patterns=(
            r"can.t open UMAD port",
            r"(?:can.t|cannot|Failed to) open '?\S*'? port '?\d",
            r"can.t init UMAD library",
            r"/dev/infiniband/(?:umad|issm)\S*:? ?(?:Permission denied|No such file)",
            r"can.t read ABI version from",
            r"is ib_umad module loaded",
            r"open /dev/infiniband/umad\S* failed",
            r"umad_open_port[^\n]{0,30}(?:fail|-\d)",
        ),
        example="ibpanic: [12] main: can't open UMAD port ((null):0): No such file or directory",
        meaning="The tool found no InfiniBand port that it may use.",
        causes=(NO_UMAD, NO_RIGHTS),
        source="libibumad umad.c",
        words="ib_umad permission denied",
    ),
    Symptom(
        name="umad-register",
        title="client_register failed: the class cannot be used",
        subject=DIAGS,
        patterns=(
            r"client_register for mgmt(?: class)? \d+ failed",
            r"Can.t register agent for class \d+",
            r"registering qp \d class 0x[0-9a-f]+ version \d[^\n]{0,40}failed",
            r"can.t (?:register|serve)(?: ping)? class",
        ),
        example="ibpanic: [12] main: client_register for mgmt class 1 failed: Operation not permitted",
        meaning="The kernel does not let this program send or receive MADs of this class at this port.",
        causes=(VIRTUAL_FUNCTION, AGENT_TAKEN, NO_RIGHTS),
        source="libibmad register.c; kernel user_mad.c",
    ),
    Symptom(
        name="umad-send",
        title="send failed: Invalid argument",
        subject=DIAGS,
        patterns=(r"(?:umad_)?send failed;? ?:? ?Invalid argument", r"_do_madrpc:? send failed"),
        example="ibwarn: [9] _do_madrpc: send failed; Invalid argument",
        meaning="The local driver refused the request: a wrong M_Key for the own port looks like that on some "
        "drivers, a "
        "directed route that does not begin at this port too.",
        causes=(M_KEY_PROTECTED, VIRTUAL_FUNCTION),
        source="kernel mad.c; observed",
    ),
    Symptom(
        name="ibnetdiscover-missing",
        title="nodes are missing in ibnetdiscover",
        subject=DIAGS,
        patterns=(
            r"discover failed",
            r"can.t reach (?:to/from ports|node|port at|target)",
            r"can.t find a route (?:to|from)",
            r"ibnd_discover_fabric[^\n]{0,30}fail",
        ),
        example="ibtracert: ibwarn: [3] can't find a route from src to dest",
        meaning="The tools leave out, without a word, everything behind a switch that does not answer.",
        causes=(M_KEY_PROTECTED, NODE_GONE, SWITCH_BLOCKS),
        source="libibnetdisc; observed",
    ),
    Symptom(
        name="ibping",
        title="ibping or a GMP: no answer",
        subject=DIAGS,
        patterns=(
            r"ibping[^\n]{0,60}(?:failed|100% packet loss|timed out)",
            r"\b0 received, 100% packet loss\b.{0,40}ib",
        ),
        example="ibping: --- node03 (Lid 3) ibping statistics --- 10 transmitted, 0 received, 100% packet loss",
        meaning="Packets on QP1 carry a P_Key: the partner has none that matches, a switch drops them, or no ibping "
        "server "
        "runs there.",
        causes=(BOTH_LIMITED, SWITCH_BLOCKS, NODE_GONE),
        source="infiniband-diags ibping.c",
        rank=1,
    ),
    Symptom(
        name="port-initializing",
        title="a port stays in Initialize",
        subject=KERNEL,
        patterns=(
            r"\bstate:? *(?:2: ?)?Init(?:ializ(?:e|ing))?\b",
            r"\bSM ?_?lid:? *(?:is )?(?:0x)?0\b",
            r"\b(?:stays?|stuck|remains?) in (?:state )?init",
        ),
        example="State: Initializing, Physical state: LinkUp, SM lid: 0",
        meaning="The link is up, and no subnet manager has configured the port: it has no LID, and its P_Keys are "
        "those "
        "of before.",
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
        words="Initializing Init ibstat",
    ),
    Symptom(
        name="ipoib-unreachable",
        title="IPoIB: Destination Host Unreachable",
        subject=KERNEL,
        patterns=(
            r"\bib[0-9a-z]*\.[0-9a-f]{4}\b.{0,80}(?:unreachable|100% packet loss|timed out|no reply)",
            r"(?:unreachable|100% packet loss)\b.{0,80}\bib[0-9a-z]*(?:\.[0-9a-f]{4})?\b",
            r"\bipoib\b.{0,80}(?:unreachable|cannot ping|can.t ping|packet loss)",
        ),
        example="ping over ib0.8010: Destination Host Unreachable",
        meaning="The interface runs, and no answer to ARP comes: the two hosts do not share the partition as IPoIB "
        "needs "
        "it, or a switch drops the packets.",
        causes=(HOST_LIMITED, NO_SHARED_P_KEY, SWITCH_BLOCKS),
        source="IBA 10.9.3; ipoib_main.c",
        rank=1,
        words="ping ARP unreachable",
    ),
    Symptom(
        name="query-p-key",
        title="the driver cannot read the P_Key table",
        subject=KERNEL,
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
    Symptom(
        name="ibdiagnet-p-key",
        title="ibdiagnet: P_Keys differ, or a partition is missing",
        subject=DIAGS,
        patterns=(
            r"-[EW]-.{0,80}\b(?:p_?keys?|partition)\b",
            r"\bp_?keys? (?:mismatch|differ).{0,40}switch",
            r"missing partition",
        ),
        example="-E- Port node02/P1 lid=0x2: PKey 0x8010 is missing in switch port",
        meaning="The tables of a port and of its switch port, or of two ends, do not fit.",
        causes=(SWITCH_BLOCKS, NOT_A_MEMBER),
        source="ibdiagnet of NVIDIA; not seen by us",
        rank=1,
    ),
    Symptom(
        name="duplicate-guid",
        title="a GUID is there twice",
        subject=DIAGS,
        patterns=(r"\bdupli(?:cate|cated)\b.{0,40}\bguids?\b", r"\bguids?\b.{0,40}\bdupli(?:cate|cated)\b"),
        example="Duplicate port GUID 0x2c903000a1021",
        meaning="Two ports have the same GUID. A policy names ports by GUID, so both get the same P_Keys, or one gets "
        "none.",
        causes=(
            Cause("guid-twice", "Two ports of the fabric have this GUID.", ("audit --check HY002",), "the two places"),
        ),
        source="IBA 4.1; osm_node_info_rcv.c",
    ),
    Symptom(
        name="timed-out",
        title="Connection timed out (110)",
        subject=DIAGS,
        patterns=(r"Connection timed out", r"\bETIMEDOUT\b", r"\bstatus:? -?110\b", r"\berrno:? 110\b"),
        example="Connection timed out",
        meaning="Nothing came back. Which port was asked, the text does not say.",
        causes=(M_KEY_PROTECTED, NODE_GONE, SA_UNREACHED),
        source="errno 110; libibumad",
        rank=2,
    ),
)
