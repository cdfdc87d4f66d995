"""Lines of OpenSM's log about requests to its SA: multicast groups, paths and records.

Wording: the format strings of Debian's opensm 3.3.23, and the sources of 3.3 (linux-rdma/opensm). The consequences of a
line are those that were observed with OpenSM on a simulated fabric.
"""

from __future__ import annotations

from typing import Final

from ibkeys.symptoms.causes import (
    BOTH_LIMITED,
    GROUP_MISSING,
    M_KEY_PROTECTED,
    NO_DEFAULT_P_KEY,
    NO_SHARED_P_KEY,
    NODE_GONE,
    NOT_A_MEMBER,
    SA_KEY_WRONG,
)
from ibkeys.symptoms.opensm import KEYS_IN_LOG
from ibkeys.symptoms.row import Cause, Symptom

_Q_KEY: Final = Cause(
    "q-key-differs",
    "Two programs use different Q_Keys: the group was made with another one (Q_Key= in partitions.conf), or a "
    "datagram program sends with the wrong one.",
    ("compare --ipoib --policy opensm", "port-show --all --counters --nonzero"),
    "the Q_Key of the group, or the port whose Q_Key counter grows",
)

ROWS: Final = (
    Symptom(
        name="opensm-1B14",
        title="ERR 1B14, 1B32: not in the partition of the multicast group",
        patterns=(
            r"ERR 1B(?:14|32)\b",
            r"\bnot in (?:the )?partition (?:of|for)\b.{0,20}(?:MC|multicast) ?group",
            r"P_Key base mismatch: query",
        ),
        example="ERR 1B14: Cannot join port 0x2c903000a1021 to MGID ff12:401b:8010::ffff:ffff - Port is not in "
        "partition",
        meaning="A port asked to join the multicast group of a partition that it is not in. IPoIB in that partition "
        "does not come up there.",
        causes=(NOT_A_MEMBER,),
        source="osm_sa_mcmember_record.c",
        words="multicast join ipoib",
    ),
    Symptom(
        name="opensm-1B31",
        title="ERR 1B31: a limited member asks for a group of limited members",
        patterns=(r"ERR 1B31\b", r"Both limited P_Keys: query"),
        example="ERR 1B31: Both limited P_Keys: query 0x10 group 0x10",
        meaning="The port and the group both have the limited P_Key, and two limited members do not match.",
        causes=(BOTH_LIMITED,),
        source="osm_sa_mcmember_record.c",
    ),
    Symptom(
        name="opensm-1B30",
        title="ERR 1B30: another Q_Key than that of the multicast group",
        patterns=(r"ERR 1B30\b", r"Q_?Key mismatch: query"),
        example="ERR 1B30: Q_Key mismatch: query 0xb1b group 0x1234",
        meaning="A port asked to join a multicast group with another Q_Key than the group has.",
        causes=(_Q_KEY,),
        source="osm_sa_mcmember_record.c",
    ),
    Symptom(
        name="opensm-1B11",
        title="ERR 1B10, 1B11, 1B1B: the multicast group does not exist",
        patterns=(
            r"ERR 1B(?:10|11|1B)\b",
            r"failed to join non-existing multicast group",
            r"Broadcast group \S+ not found, sending",
        ),
        example="ERR 1B11: Port 0x2c903000a1021 (node02) failed to join non-existing multicast group with MGID "
        "ff12:401b:8010::ffff:ffff",
        meaning="IPoIB waits for the broadcast group of its partition, and OpenSM has no such group. IPoIB interfaces "
        "do not create it.",
        causes=(
            GROUP_MISSING,
            Cause(
                "partition-missing",
                "No port is in this partition: it is not in the policy, or the interface has another P_Key than meant.",
                ("pkey-show --all --partition {pkey}", "matrix"),
                "no port with this partition",
                "Add the partition, or correct the P_Key of the interface.",
            ),
        ),
        source="osm_sa_mcmember_record.c; observed",
        words="multicast join ipoib broadcast group",
    ),
    Symptom(
        name="opensm-1B12",
        title="ERR 1B12, 1B1A, 1B1C, 1B13: the multicast group does not fit the port",
        patterns=(
            r"ERR 1B(?:12|13|1A|1C)\b",
            r"validate_(?:more_comp_fields|other_comp_fields|port_caps|modify)\b.{0,60}failed",
        ),
        example="ERR 1B12: validate_more_comp_fields, validate_port_caps, or JoinState = 0 failed from port "
        "0x2c903000a1021 (node02), sending IB_SA_MAD_STATUS_REQ_INVALID",
        meaning="A join was refused: P_Key, Q_Key, MTU or rate of the request, or what the port can do, does not fit "
        "the group. The host sees status -22.",
        causes=(NOT_A_MEMBER, BOTH_LIMITED, GROUP_MISSING),
        unknown="Which field it was. With log_flags 0x04 OpenSM says it in the line before.",
        source="osm_sa_mcmember_record.c",
        words="multicast join rate mtu",
    ),
    Symptom(
        name="opensm-1B26",
        title="ERR 1B26: Requested MGRP parameters are not realizable",
        patterns=(r"ERR 1B26\b", r"Requested MGRP parameters are not realizable"),
        example="ERR 1B26: Requested MGRP parameters are not realizable",
        meaning="A program asked for a new multicast group with an MTU or rate that this subnet does not have.",
        causes=(GROUP_MISSING,),
        unknown="Who asked: the text names no port.",
        source="osm_sa_mcmember_record.c; observed with osmtest",
        words="multicast join rate mtu",
    ),
    Symptom(
        name="opensm-1B",
        title="ERR 1B06, 1B08, 1B19, 1B22, 1B23, 1B25: other errors of multicast groups",
        patterns=(r"ERR 1B(?:06|08|19|22|23|25)\b",),
        example="ERR 1B22: Invalid requested MGID",
        meaning="A join, leave or new group was refused for a reason that is not a key: too many groups, or an invalid "
        "MGID.",
        source="osm_sa_mcmember_record.c",
    ),
    Symptom(
        name="opensm-1F1B",
        title="ERR 1F1A, 1F1B, 4518, 4519: two ports share no partition",
        patterns=(
            r"ERR (?:1F1[ABDE]|451[89CD])\b",
            r"do not (?:have any shared|share (?:the )?specified|share) P?Keys?",
        ),
        example="ERR 1F1B: Ports src 0x2c903000a1021 (node02 port 1) and dst 0x2c903000a1031 (node03 port 1) do not "
        "have any shared PKeys",
        meaning="A program asked for a path between two ports that may not talk to each other. It sees 'no path', "
        "status 0x0300, or a route error of rdma_cm.",
        causes=(NO_SHARED_P_KEY,),
        source="osm_sa_path_record.c, osm_sa_multipath_record.c",
        words="path record",
    ),
    Symptom(
        name="opensm-1F1C",
        title="ERR 1F1C, 451A, AC14: no such partition",
        patterns=(r"ERR (?:1F1C|451A|AC14)\b", r"No partition found for P?Key 0x"),
        example="ERR 1F1C: No partition found for PKey 0x0010 - using default SL 0",
        meaning="OpenSM knows no partition with this number, although ports have the P_Key.",
        causes=(
            Cause(
                "partition-not-in-policy",
                "The P_Key was written by hand, or its partition was removed from partitions.conf.",
                ("pkey-show --all --partition {pkey}", "compare --policy opensm"),
                "ports with the P_Key",
                "Add the partition to the policy: ibkeys partition-add.",
            ),
        ),
        source="osm_sa_path_record.c, osm_qos_policy.c",
    ),
    Symptom(
        name="opensm-1A04",
        title="ERR 1A04: a request to the SA with a wrong SM_Key",
        patterns=(r"ERR 1A04\b", r"Non-Zero (?:SA )?MAD SM_?Key"),
        example="ERR 1A04: Non-Zero MAD SM_Key: 0x... != SM_Key: 0x...; SA MAD ignored",
        meaning="A program asked the SA with an SM_Key that is not OpenSM's sa_key. OpenSM does not answer: the "
        "program sees a timeout, not an error.",
        causes=(SA_KEY_WRONG,),
        unknown="The line does not say which host asked.",
        source="osm_sa_mad_ctrl.c; observed",
        leaks="The line has OpenSM's sa_key in clear, with which anybody reads every M_Key. " + KEYS_IN_LOG,
        words="sa_key smkey saquery timeout",
    ),
    Symptom(
        name="opensm-430B",
        title="ERR 430B: a subscription to security traps without the sa_key",
        patterns=(r"ERR 430B\b", r"Request for security trap from non-trusted requester"),
        example="ERR 430B Request for security trap from non-trusted requester: Given SM_Key:0x0",
        meaning="A program wanted to be told of wrong keys (traps 256 to 259), and did not show OpenSM's sa_key.",
        causes=(SA_KEY_WRONG,),
        source="osm_sa_informinfo.c; observed",
        leaks="The line has the SM_Key that was tried. If it is not 0, it may be a former sa_key.",
        words="watch subscribe InformInfo",
    ),
    Symptom(
        name="opensm-4608",
        title="ERR 4608: P_Key tables asked of the SA without the sa_key",
        patterns=(r"ERR 4608\b", r"Ignoring PKeyRecord request from non-trusted"),
        example="ERR 4608: Ignoring PKeyRecord request from non-trusted requester with SM_Key 0x0",
        meaning="OpenSM tells P_Key tables only to those who send its sa_key. The tables can be read from the ports "
        "without it.",
        causes=(
            Cause(
                "untrusted-query",
                "saquery PKTR, or ibkeys compare without --smkey.",
                ("pkey-show --all",),
                "all tables, read from the ports",
                "Give the sa_key: --smkey @FILE.",
            ),
        ),
        source="osm_sa_pkey_record.c; observed",
    ),
    Symptom(
        name="opensm-2805",
        title="ERR 2805: SMInfo refused because of the partition",
        patterns=(r"ERR 2805\b",),
        example="ERR 2805: Cannot get SMInfo record due to pkey violation",
        meaning="The port that asked the SA shares no partition with the subnet manager's port.",
        causes=(NO_DEFAULT_P_KEY, NOT_A_MEMBER),
        source="osm_sa_sminfo_record.c",
    ),
    Symptom(
        name="opensm-2109",
        title="ERR 2104, 2109, 4308, 4309, 460B, 3805, 3812, 3813: a port that OpenSM does not know",
        patterns=(r"ERR (?:2104|2109|2603|2608|4308|4309|4604|460B|3804|3805|3809|3812|3813|2F12)\b",),
        example="ERR 4308: Subscribe Request from unknown LID: 9",
        meaning="A request or trap names a port that OpenSM has not found, or removed because it did not answer.",
        causes=(M_KEY_PROTECTED, NODE_GONE),
        source="osm_sa_*.c, osm_trap_rcv.c",
    ),
)
