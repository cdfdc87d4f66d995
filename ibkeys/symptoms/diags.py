"""Messages of infiniband-diags, and answers of the SA.

Wording: libibmad, libibumad and infiniband-diags of Debian 12; the meaning as it was observed on a simulated fabric.
"""

from __future__ import annotations

from typing import Final

from ibkeys.symptoms.causes import (
    AGENT_TAKEN,
    BOTH_LIMITED,
    ETHERNET,
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

SUBJECT: Final = "infiniband-diags and the SA"

_STATUS_OF_SET: Final = Cause(
    "attribute-refused",
    "The device does not know this attribute or modifier, such as a block past the end of the P_Key table.",
    ("port-show -D {route} --caps", "port-show {lid} --caps", "port-show --all --caps"),
    "how many P_Keys the port has",
)

ROWS: Final = (
    Symptom(
        name="mad-rpc",
        title="infiniband-diags: mad_rpc failed, Connection timed out",
        patterns=(
            r"_?do_madrpc (?:failed|:)",
            r"mad_rpc(?:_rmpp)? ?:? ?_?(?:do_madrpc )?failed",
            r"recv failed: Connection timed out",
            r"timeout after \d+ retries, \d+ ms",
            r"umad_recv[^\n]{0,40}\b(?:110|timed out)",
            r"No response for MAD SMP\w+",
        ),
        example="ibwarn: [1234] mad_rpc: _do_madrpc failed; dport (Lid 5)",
        meaning="A tool asked a port and got no answer to any attempt.",
        causes=(M_KEY_PROTECTED, NODE_GONE),
        unknown="A wrong M_Key, a dead node and an unsupported attribute look the same: nothing comes back.",
        source="libibmad rpc.c; ibdiagnet of NVIDIA",
        words="status 110 ETIMEDOUT smpquery perfquery ibdiagnet",
    ),
    Symptom(
        name="mad-status",
        title="infiniband-diags: MAD completed with error status",
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
        patterns=(
            r"Query SA failed: (?:Connection timed out|\S+ ?timed? ?out)",
            r"sa_(?:rpc_call|query)[^\n]{0,40}failed",
            r"saquery[^\n]{0,60}(?:timed out|failed)",
            r"Failed to bind to the SA",
            r"No response to inform info registration",
            r"srp_?daemon.{0,40}(?:No SA|no response|timed out|failed)",
        ),
        example="saquery: ERROR: Query SA failed: Connection timed out",
        meaning="The SA did not answer. OpenSM does not answer a request with a wrong SM_Key, and nothing arrives "
        "where the default partition is missing.",
        causes=(SA_UNREACHED, SA_KEY_WRONG, NO_DEFAULT_P_KEY),
        source="infiniband-diags saquery.c; srp_daemon.c of rdma-core; osm_sa_mad_ctrl.c; observed",
        words="smkey timeout",
    ),
    Symptom(
        name="sa-status",
        title="saquery: the SA refused",
        patterns=(
            r"Query result returned:? 0x0*[1-8]00",
            r"\bIB_SA_(?:MAD_STATUS_)?(?:REQ_INVALID|NO_RECORDS|DENIED|INSUF_COMPS)",
            r"SA (?:MAD )?status:? 0x0*[1-8]00",
        ),
        example="saquery: ERROR: Query result returned 0x0200, SA: invalid request",
        meaning="0x0200: refused, as P_Key tables and trap subscriptions are without the sa_key; 0x0300: no record "
        "that this port may see; 0x0700: denied.",
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
        patterns=(
            r"client_register for mgmt(?: class)? \d+ failed",
            r"Can.t register agent for class \d+",
            r"registering qp \d class 0x[0-9a-f]+ version \d[^\n]{0,40}failed",
            r"can.t (?:register|serve)(?: ping)? class",
        ),
        example="ibpanic: [12] main: client_register for mgmt class 1 failed: Operation not permitted",
        meaning="The kernel does not let this program send or receive MADs of this class at this port.",
        causes=(ETHERNET, VIRTUAL_FUNCTION, AGENT_TAKEN, NO_RIGHTS),
        source="libibmad register.c; kernel user_mad.c; treydock/infiniband_exporter#26",
    ),
    Symptom(
        name="umad-send",
        title="send failed: Invalid argument",
        patterns=(r"(?:umad_)?send failed;? ?:? ?Invalid argument", r"_do_madrpc:? send failed"),
        example="ibwarn: [9] _do_madrpc: send failed; Invalid argument",
        meaning="The local driver refused the request: a wrong M_Key for the own port looks like that on some drivers, "
        "a directed route that does not begin at this port too.",
        causes=(M_KEY_PROTECTED, VIRTUAL_FUNCTION),
        source="kernel mad.c; observed",
    ),
    Symptom(
        name="ibnetdiscover-missing",
        title="nodes are missing in ibnetdiscover",
        patterns=(
            r"discover failed",
            r"can.t reach (?:to/from ports|node|port at|target)",
            r"can.t find a route (?:to|from)",
            r"ibnd_discover_fabric[^\n]{0,30}fail",
            r"Query remote node \(.{1,400}?\) failed, skipping port",
        ),
        example="ibtracert: ibwarn: [3] can't find a route from src to dest",
        meaning="The tools leave out, without a word, everything behind a switch that does not answer.",
        causes=(M_KEY_PROTECTED, NODE_GONE, SWITCH_BLOCKS),
        source="libibnetdisc; observed",
    ),
    Symptom(
        name="ibping",
        title="ibping or a GMP: no answer",
        patterns=(
            r"ibping[^\n]{0,60}(?:failed|100% packet loss|timed out)",
            r"\b0 received, 100% packet loss\b.{0,40}ib",
        ),
        example="ibping: --- node03 (Lid 3) ibping statistics --- 10 transmitted, 0 received, 100% packet loss",
        meaning="Packets on QP1 carry a P_Key: the partner has none that matches, a switch drops them, or no ibping "
        "server runs there.",
        causes=(BOTH_LIMITED, SWITCH_BLOCKS, NODE_GONE),
        source="infiniband-diags ibping.c",
        rank=1,
    ),
    Symptom(
        name="ibdiagnet-p-key",
        title="ibdiagnet: P_Keys differ, or a partition is missing",
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
        patterns=(r"Connection timed out", r"\bETIMEDOUT\b", r"\bstatus:? -?110\b", r"\berrno:? 110\b"),
        example="Connection timed out",
        meaning="Nothing came back. Which port was asked, the text does not say.",
        causes=(M_KEY_PROTECTED, NODE_GONE, SA_UNREACHED),
        source="errno 110; libibumad",
        rank=2,
    ),
)
