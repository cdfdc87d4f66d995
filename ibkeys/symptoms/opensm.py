"""Lines of OpenSM's log.

Wording: the format strings of Debian's opensm 3.3.23, and the sources of 3.3 (linux-rdma/opensm). What follows from a
line: as it was observed with OpenSM on a simulated fabric.
"""

from __future__ import annotations

from typing import Final

from ibkeys.symptoms.causes import (
    AGENT_TAKEN,
    BOTH_LIMITED,
    DROPS_COUNTED,
    GROUP_MISSING,
    M_KEY_PROTECTED,
    M_KEY_WRONG_SET,
    NO_DEFAULT_P_KEY,
    NO_RIGHTS,
    NO_SHARED_P_KEY,
    NO_UMAD,
    NODE_GONE,
    NOT_A_MEMBER,
    POLICY_FILE,
    SA_KEY_WRONG,
    SWITCH_BLOCKS,
    SWITCH_TABLE_SMALL,
    TABLE_FULL,
    TWO_SMS,
)
from ibkeys.symptoms.row import Cause, Symptom

SUBJECT: Final = "OpenSM's log"

_Q_KEY: Final = Cause(
    "q-key-differs",
    "Two programs use different Q_Keys: the group was made with another one (Q_Key= in partitions.conf), or a "
    "datagram program sends with the wrong one.",
    ("compare --ipoib --policy opensm", "port-show --all --counters --nonzero"),
    "the Q_Key of the group, or the port whose Q_Key counter grows",
)
_Q_KEY_PACKET: Final = Cause(
    "q-key-differs",
    "A datagram program sent with another Q_Key than the receiver's queue pair has: an old address of a restarted "
    "program, or a wrong setting.",
    ("port-show {lid2} --counters", "port-show {lid} --counters", "port-show --all --counters --nonzero"),
    "QKeyViolations above 0 at the receiver",
)
_OLD_STANDBY: Final = Cause(
    "standby-old-key",
    "The other OpenSM does not know the M_Key that the master set since it started.",
    ("sm-show", "mkey-show --all"),
    "a standby without the key, or two masters",
    "Give it the same m_key and guid2mkey, and restart it: ibkeys-opensm(7).",
)
_DEVICE_REFUSES: Final = Cause(
    "device-refuses",
    "The device answered that it does not support the attribute or the value, as old firmware or an emulated one does.",
    ("port-show -G {guid} --caps", "port-show {lid} --caps", "port-show --all --caps"),
    "the P_Key capacity and the enforcement capability of the port",
)
_MISSED_SET: Final = Cause(
    "set-lost",
    "A Set did not arrive: its port kept the old value, while OpenSM goes on.",
    ("compare --policy opensm", "audit --check SE002,PK003"),
    "ports that differ from the policy",
    "OpenSM repeats its sweep; ibkeys resume or apply --rewrite makes it write every table.",
)
_KEY_FILE: Final = Cause(
    "key-file",
    "guid2mkey or neighbors is damaged, or cannot be written: at the next start OpenSM may not know the M_Keys.",
    ("audit --check KF001,KF002,MK010", "sm-show"),
    "a key file that is unreadable, out of date or open to others",
    "ibkeys sm-repair --dry-run shows how they are rebuilt.",
)

_KEYS_IN_LOG: Final = "Change that key (ibkeys smkey-rotate), and let only root read the log."

ROWS: Final = (
    Symptom(
        name="opensm-3120",
        title="ERR 3120: no answer, possibly a wrong M_Key",
        subject=SUBJECT,
        patterns=(r"ERR 3120\b", r"possible mis-?set m_?key"),
        example="ERR 3120: Timeout while getting attribute 0x11 (NodeInfo); Possible mis-set mkey?",
        meaning="OpenSM asked a port and got no answer. It guesses at an M_Key; a dead node looks the same.",
        causes=(M_KEY_PROTECTED, NODE_GONE),
        unknown="The line does not name the port. ERR 3113 just before it does, by LID or directed route.",
        source="osm_sm_mad_ctrl.c",
        words="mis-set mkey timeout",
    ),
    Symptom(
        name="opensm-3113",
        title="ERR 3113: a request of OpenSM ended in error",
        subject=SUBJECT,
        patterns=(r"ERR 3113\b", r"MAD completed in error \(IB_TIMEOUT\): SubnGet"),
        example="ERR 3113: MAD completed in error (IB_TIMEOUT): SubnGet(NodeInfo), attr_mod 0x0, TID 0x1234",
        meaning="A request of the subnet manager had no answer within all its attempts.",
        causes=(NODE_GONE, M_KEY_PROTECTED),
        unknown="A port that is dead and one that drops requests because of its M_Key look the same from outside.",
        source="osm_sm_mad_ctrl.c",
        rank=1,
        words="timeout IB_TIMEOUT dropped",
    ),
    Symptom(
        name="opensm-5411",
        title="ERR 5410, 5411: a request of OpenSM had no answer",
        subject=SUBJECT,
        patterns=(r"ERR 541[01]\b", r"\bSend completed with error \(IB_TIMEOUT\)"),
        example="ERR 5411: DR SMP Send completed with error (IB_TIMEOUT) -- dropping; Initial path = 0,1,7,2",
        meaning="OpenSM's library gave a request up: no answer came. ERR 3113 follows, with the attribute. The next "
        "line "
        "has the route, as 'Initial path'.",
        causes=(M_KEY_PROTECTED, NODE_GONE),
        unknown="A port that is dead and one that drops requests because of its M_Key look the same from outside.",
        source="osm_vendor_ibumad.c; observed",
        rank=1,
        words="timeout IB_TIMEOUT dropping",
    ),
    Symptom(
        name="opensm-bind",
        title="ERR 5415 to 542E, 5431, 2E10, 3118, 1A10: OpenSM cannot use its port",
        subject=SUBJECT,
        patterns=(r"ERR (?:541[56]|542[0-9A-E]|543[12]|2E10|3118|1A10|4C03)\b",),
        example="ERR 5426: Unable to register class 129 version 1",
        meaning="OpenSM could not open its port, or register there for subnet management: it does not run.",
        causes=(NO_UMAD, AGENT_TAKEN, NO_RIGHTS),
        source="osm_vendor_ibumad.c, osm_sm.c",
        words="register bind umad issm",
    ),
    Symptom(
        name="opensm-3111",
        title="ERR 3111: a port answered with an error status",
        subject=SUBJECT,
        patterns=(r"ERR 3111\b", r"Received MAD with error status = 0x"),
        example="ERR 3111: Received MAD with error status = 0x1C",
        meaning="A port refused a request. If it was a Set of a P_Key table, OpenSM goes on and may log SUBNET UP, "
        "although that port does not have its P_Keys.",
        causes=(_DEVICE_REFUSES, _MISSED_SET),
        unknown="The lines that follow it in the log name the attribute and the port.",
        source="osm_sm_mad_ctrl.c",
    ),
    Symptom(
        name="opensm-3119",
        title="ERR 3119: a Set of OpenSM failed",
        subject=SUBJECT,
        patterns=(r"ERR 3119\b", r"Set method failed for attribute 0x"),
        example="ERR 3119: Set method failed for attribute 0x16 (P_KeyTable)",
        meaning="A port did not confirm a Set of the subnet manager. OpenSM logs 'Errors during initialization' and "
        "repeats its sweep.",
        causes=(M_KEY_WRONG_SET, _MISSED_SET, NODE_GONE),
        unknown="The line does not name the port.",
        source="osm_sm_mad_ctrl.c",
    ),
    Symptom(
        name="opensm-errors-during-initialization",
        title="Errors during initialization",
        subject=SUBJECT,
        patterns=(r"Errors during initialization", r"SUBNET UP with errors"),
        example="state_mgr_notify_lid_change: ... Errors during initialization",
        meaning="The sweep of OpenSM ended with errors, and it sweeps again. opensm-subnet.lst and guid2mkey are not "
        "written meanwhile.",
        causes=(M_KEY_WRONG_SET, NODE_GONE, _MISSED_SET),
        unknown="Which port it was: ERR 3113, 3119 or 3120 above it say more.",
        source="osm_state_mgr.c",
        rank=1,
    ),
    Symptom(
        name="opensm-unknown-m-key",
        title="a port hides its M_Key from OpenSM",
        subject=SUBJECT,
        patterns=(r"has unknown M_?Key, protection level",),
        example="Port 0x2c903000a1021 has unknown M_Key, protection level 1",
        meaning="The port answers, but its M_Key is not the one that OpenSM has for it, so that every Set fails and "
        "counts a violation.",
        causes=(
            Cause(
                "m-key-unknown",
                "The port has an M_Key that this OpenSM does not have: of an earlier SM, or of a stale guid2mkey.",
                ("mkey-show -G {guid}", "mkey-show --all"),
                "hidden or unreadable",
                "Put the key into guid2mkey while OpenSM is stopped (ibkeys sm-repair), or recover the port: ibkeys "
                "mkey-recover.",
            ),
            TWO_SMS,
        ),
        source="osm_port_info_rcv.c",
    ),
    Symptom(
        name="opensm-0512",
        title="ERR 0512: the P_Key table of a port is full",
        subject=SUBJECT,
        patterns=(r"ERR 0512\b", r"Failed to set PKey 0x[0-9a-f]+ because Pkey table is full"),
        example="ERR 0512: Failed to set PKey 0x8010 because Pkey table is full for node 0x2c903000a1020 port 1",
        meaning="OpenSM leaves this P_Key out and goes on: the port is not in that partition, and only this line says "
        "so.",
        causes=(TABLE_FULL,),
        source="osm_pkey_mgr.c; observed",
    ),
    Symptom(
        name="opensm-0507",
        title="ERR 0507: the switch has too few P_Key entries",
        subject=SUBJECT,
        patterns=(r"ERR 0507\b", r"Not enough pkey entries \("),
        example="ERR 0507: Not enough pkey entries (32 <= 64) on switch 0x2c90200401000 port 2. Clearing Enforcement "
        "bit",
        meaning="OpenSM switched enforcement off at this switch port: the host behind it may send with any P_Key.",
        causes=(SWITCH_TABLE_SMALL,),
        source="osm_pkey_mgr.c; observed",
    ),
    Symptom(
        name="opensm-05",
        title="ERR 0503, 0505, 0506, 0508, 0509, 0511: a P_Key table could not be written",
        subject=SUBJECT,
        patterns=(r"ERR 05(?:02|03|05|06|08|09|11)\b", r"pkey_mgr_update_pkey_entry\(\) failed"),
        example="ERR 0506: pkey_mgr_update_pkey_entry() failed to update pkey table block 0 for node 0x2c903000a1020",
        meaning="OpenSM could not prepare or send a block of a P_Key table, or the enforcement bits of a switch port.",
        causes=(_MISSED_SET, TABLE_FULL),
        source="osm_pkey_mgr.c",
    ),
    Symptom(
        name="opensm-0510",
        title="ERR 0510, 'Partition configuration': the policy file is not used",
        subject=SUBJECT,
        patterns=(
            r"ERR 0510\b",
            r"Partition configuration (?:in error|was not fully processed|\S+ is not accessible)",
            r"PARSE (?:ERROR|WARN)\S*:? line \d+: (?:bad|no partition|unrecogni[sz]ed|flag|suspicious)",
            r"PARSE ERROR partition conf file",
            r"(?:failed|cannot|could not|unable) (?:to )?(?:parse|read|open)\b.{0,40}partitions?\.conf",
        ),
        example="PARSE ERROR: line 3: bad PortGUID; Partition configuration in error; retrying with default config",
        meaning="OpenSM does not use the file as it is. After an error, and where the file is missing or empty, it "
        "makes every port a full member of the default partition: there is no isolation.",
        causes=(POLICY_FILE,),
        source="osm_prtn_config.c, osm_prtn.c; observed",
        words="partitions.conf parse error",
    ),
    Symptom(
        name="opensm-1B14",
        title="ERR 1B14, 1B32: not in the partition of the multicast group",
        subject=SUBJECT,
        patterns=(
            r"ERR 1B(?:14|32)\b",
            r"\bnot in (?:the )?partition (?:of|for)\b.{0,20}(?:MC|multicast) ?group",
            r"P_Key base mismatch: query",
        ),
        example="ERR 1B14: Cannot join port 0x2c903000a1021 to MGID ff12:401b:8010::ffff:ffff - Port is not in "
        "partition",
        meaning="A port asked to join the multicast group of a partition that it is not in. IPoIB in that partition "
        "does "
        "not come up there.",
        causes=(NOT_A_MEMBER,),
        source="osm_sa_mcmember_record.c",
        words="multicast join ipoib",
    ),
    Symptom(
        name="opensm-1B31",
        title="ERR 1B31: a limited member asks for a group of limited members",
        subject=SUBJECT,
        patterns=(r"ERR 1B31\b", r"Both limited P_Keys: query"),
        example="ERR 1B31: Both limited P_Keys: query 0x10 group 0x10",
        meaning="The port and the group both have the limited P_Key, and two limited members do not match.",
        causes=(BOTH_LIMITED,),
        source="osm_sa_mcmember_record.c",
    ),
    Symptom(
        name="opensm-1B30",
        title="ERR 1B30: another Q_Key than that of the multicast group",
        subject=SUBJECT,
        patterns=(r"ERR 1B30\b", r"Q_?Key mismatch: query"),
        example="ERR 1B30: Q_Key mismatch: query 0xb1b group 0x1234",
        meaning="A port asked to join a multicast group with another Q_Key than the group has.",
        causes=(_Q_KEY,),
        source="osm_sa_mcmember_record.c",
    ),
    Symptom(
        name="opensm-1B11",
        title="ERR 1B10, 1B11, 1B1B: the multicast group does not exist",
        subject=SUBJECT,
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
        title="ERR 1B12, 1B1A, 1B1C, 1B26, 1B13: the multicast group does not fit the port",
        subject=SUBJECT,
        patterns=(
            r"ERR 1B(?:12|13|1A|1C|26)\b",
            r"validate_(?:more_comp_fields|other_comp_fields|port_caps|modify)\b.{0,60}failed",
            r"Requested MGRP parameters are not realizable",
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
        name="opensm-1B",
        title="ERR 1B06, 1B08, 1B19, 1B22, 1B23, 1B25: other errors of multicast groups",
        subject=SUBJECT,
        patterns=(r"ERR 1B(?:06|08|19|22|23|25)\b",),
        example="ERR 1B22: Invalid requested MGID",
        meaning="A join, leave or new group was refused for a reason that is not a key: too many groups, or an invalid "
        "MGID.",
        source="osm_sa_mcmember_record.c",
    ),
    Symptom(
        name="opensm-1F1B",
        title="ERR 1F1A, 1F1B, 4518, 4519: two ports share no partition",
        subject=SUBJECT,
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
        subject=SUBJECT,
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
        subject=SUBJECT,
        patterns=(r"ERR 1A04\b", r"Non-Zero (?:SA )?MAD SM_?Key"),
        example="ERR 1A04: Non-Zero MAD SM_Key: 0x... != SM_Key: 0x...; SA MAD ignored",
        meaning="A program asked the SA with an SM_Key that is not OpenSM's sa_key. OpenSM does not answer: the "
        "program "
        "sees a timeout, not an error.",
        causes=(SA_KEY_WRONG,),
        unknown="The line does not say which host asked.",
        source="osm_sa_mad_ctrl.c; observed",
        leaks="The line has OpenSM's sa_key in clear, with which anybody reads every M_Key. " + _KEYS_IN_LOG,
        words="sa_key smkey saquery timeout",
    ),
    Symptom(
        name="opensm-2F18",
        title="ERR 2F18: another subnet manager with a different sm_key",
        subject=SUBJECT,
        patterns=(
            r"ERR 2F18\b",
            r"sm_key 0x[0-9a-f]+ that doesn.t match our local",
            r"remote SM .{0,80}non-matching sm_key",
            r"\bSM_?Key (?:mismatch|does not match|differs)",
        ),
        example="ERR 2F18: Got SM (node02) with sm_key 0x... that doesn't match our local sm_key. Ignoring SMInfo",
        meaning="Two subnet managers do not accept each other. After some 50 s both are masters, and each writes its "
        "own "
        "partitions and M_Keys.",
        causes=(TWO_SMS, _OLD_STANDBY),
        source="osm_sminfo_rcv.c; observed",
        leaks="ERR 2F18 has the other subnet manager's sm_key in clear. " + _KEYS_IN_LOG,
        words="two masters standby",
    ),
    Symptom(
        name="opensm-2F1A",
        title="ERR 2F1A, 2F1B: SMInfo of another subnet manager with a wrong M_Key",
        subject=SUBJECT,
        patterns=(r"ERR 2F1[AB]\b", r"SMInfo\((?:GET|SET)\) sender .{0,80}authentication failure"),
        example="ERR 2F1A: SMInfo(GET) sender (node02) authentication failure.Ignoring SMInfo",
        meaning="Another subnet manager polled this one with an M_Key that is not that of this port. It gets no "
        "answer, "
        "and will think that the master is dead.",
        causes=(_OLD_STANDBY, TWO_SMS),
        source="osm_sminfo_rcv.c",
    ),
    Symptom(
        name="opensm-smi-query",
        title="ERR 0F05, 3204, 3314, 3317: SMInfo could not be asked for",
        subject=SUBJECT,
        patterns=(r"ERR (?:0F05|3204|3314|3317)\b",),
        example="ERR 3317: Failure requesting SMInfo (IB_TIMEOUT), remote SM at 0x2c903000a1021",
        meaning="OpenSM could not ask another subnet manager whether it runs.",
        causes=(TWO_SMS, NODE_GONE),
        source="osm_port_info_rcv.c, osm_sm_state_mgr.c, osm_state_mgr.c",
    ),
    Symptom(
        name="opensm-430B",
        title="ERR 430B: a subscription to security traps without the sa_key",
        subject=SUBJECT,
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
        subject=SUBJECT,
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
        subject=SUBJECT,
        patterns=(r"ERR 2805\b",),
        example="ERR 2805: Cannot get SMInfo record due to pkey violation",
        meaning="The port that asked the SA shares no partition with the subnet manager's port.",
        causes=(NO_DEFAULT_P_KEY, NOT_A_MEMBER),
        source="osm_sa_sminfo_record.c",
    ),
    Symptom(
        name="opensm-2109",
        title="ERR 2104, 2109, 4308, 4309, 460B, 3805, 3812, 3813: a port that OpenSM does not know",
        subject=SUBJECT,
        patterns=(r"ERR (?:2104|2109|2603|2608|4308|4309|4604|460B|3804|3805|3809|3812|3813|2F12)\b",),
        example="ERR 4308: Subscribe Request from unknown LID: 9",
        meaning="A request or trap names a port that OpenSM has not found, or removed because it did not answer.",
        causes=(M_KEY_PROTECTED, NODE_GONE),
        source="osm_sa_*.c, osm_trap_rcv.c",
    ),
    Symptom(
        name="opensm-331A",
        title="ERR 331A: opensm.conf could not be read again",
        subject=SUBJECT,
        patterns=(r"ERR 331A\b",),
        example="ERR 331A: osm_subn_rescan_conf_file failed",
        meaning="OpenSM goes on with the options that it had: keys and policy that were changed in the file do not "
        "count.",
        causes=(
            Cause(
                "options-unreadable",
                "The options file has other rights, an SELinux label or a read error.",
                ("sm-show",),
                "the options file that the OpenSM reads, and its rights",
            ),
        ),
        source="osm_state_mgr.c",
    ),
    Symptom(
        name="opensm-key-files",
        title="ERR 61xx, 75xx: a key file of OpenSM",
        subject=SUBJECT,
        patterns=(r"ERR (?:61(?:0[0-9BCDE]|1[0-3])|75(?:0[4-9]|1[0-9]|2[01]))\b", r"Error restoring Guid-to-M?Key"),
        example="ERR 7511: Error restoring Guid-to-Mkey persistent database",
        meaning="guid2mkey, guid2lid or neighbors could not be read or written. With M_Keys at level 2 OpenSM needs "
        "them at its start.",
        causes=(_KEY_FILE,),
        source="osm_db_files.c, osm_db_pack.c",
        words="guid2mkey neighbors",
    ),
    Symptom(
        name="opensm-sm-port-down",
        title="SM port is down",
        subject=SUBJECT,
        patterns=(r"SM port is down",),
        example="osm_state_mgr_process: SM port is down",
        meaning="OpenSM cannot read its own port, and manages nothing: the cable is out, or the port has an M_Key at "
        "level "
        "2 that OpenSM does not know, as after a crash during a change of keys.",
        causes=(
            Cause(
                "sm-link-down",
                "The link of the subnet manager's port is down.",
                ("doctor", "host-show"),
                "a port that is not ACTIVE",
            ),
            Cause(
                "sm-port-key-lost",
                "The port has an M_Key at level 2 or 3 that OpenSM's files do not have.",
                ("mkey-show", "sm-repair --dry-run"),
                "no reply from the own port, or hidden",
                "ibkeys sm-repair writes guid2mkey anew from the key store.",
            ),
        ),
        source="osm_state_mgr.c; observed",
    ),
    Symptom(
        name="opensm-cached-option",
        title="Loading Cached Option: OpenSM prints its options, keys too",
        subject=SUBJECT,
        patterns=(r"(?:Loading|Invalid) Cached Option(?: Value)?:",),
        example="Loading Cached Option:m_key = 0x...",
        meaning="OpenSM has read its options file and lists each value that is not the default.",
        causes=(
            Cause(
                "keys-printed",
                "OpenSM's standard output or syslog holds its keys, and more people than root may read it.",
                ("sm-show", "audit --check KF001"),
                "where this OpenSM prints its keys",
                "Keys that were printed count as known: ibkeys mkey-rotate, smkey-rotate.",
            ),
        ),
        source="osm_subnet.c; observed",
        rank=1,
        leaks="Lines for m_key, sm_key and sa_key have the key in clear. Change these keys (ibkeys mkey-rotate, "
        "smkey-rotate), and let only root read the log.",
    ),
    Symptom(
        name="trap-256",
        title="trap 256, Bad M_Key: a port refused a wrong M_Key",
        subject=SUBJECT,
        patterns=(
            r"\bnum(?:ber)?:? ?256\b",
            r"trap(?: number)? ?:?#? ?256\b",
            r"\bBad M_?Key\b",
            r"\bM_?Key_?Violations?\b.{0,40}?[1-9]",
            r"\b(?:wrong|mismatched) M_?Key\b",
        ),
        example='Reporting Security Notice "Bad M_Key" from LID 4, GUID 0x2c903000a1041, Method 0x2, Attribute 0x15',
        meaning="The port was asked with another M_Key than it has. Nothing was changed there; its violation counter "
        "rose, and its lease may run.",
        causes=(M_KEY_WRONG_SET, TWO_SMS),
        unknown="Who sent it: OpenSM's log never says. The trap itself and ibkeys watch name the LID.",
        source="osm_trap_rcv.c, osm_inform.c; IBA 14.2.5.1",
        leaks="The notice 'Bad M_Key' has the key that was tried. If that was a mistyped or former key, change it.",
        words="M_Key violation security notice",
    ),
    Symptom(
        name="trap-257",
        title="trap 257, Bad P_Key: a port received a packet of a partition that it is not in",
        subject=SUBJECT,
        patterns=(
            r"\bnum(?:ber)?:? ?257\b",
            r"trap(?: number)? ?:?#? ?257\b",
            r"\bBad P_?Key\b(?! *\(?switch)",
            r"\bP_?Key_?Violations?\b.{0,40}?[1-9]",
            r"\bbad_pkey_cntr\b",
        ),
        example="Bad P_Key:0x8010 on SL:0 from LID1:2 QP1:0x1 to LID2:3 QP2:0x1",
        meaning="The first LID sent a packet to the second, which does not have the P_Key. The packet was dropped.",
        causes=(NO_SHARED_P_KEY, NOT_A_MEMBER, DROPS_COUNTED),
        source="osm_trap_rcv.c, osm_inform.c; IBA 14.2.5.1",
        words="P_Key violation security notice",
    ),
    Symptom(
        name="trap-258",
        title="trap 258, Bad Q_Key: a datagram with a wrong Q_Key",
        subject=SUBJECT,
        patterns=(
            r"\bnum(?:ber)?:? ?258\b",
            r"trap(?: number)? ?:?#? ?258\b",
            r"\bBad Q_?Key\b",
            r"\bqkey_viol_cntr\b",
            r"\bQ_?Key_?Violations?\b.{0,40}?[1-9]",
        ),
        example="Bad Q_Key:0x00000b1b on SL:0 from LID1:2 QP1:0x49 to LID2:3 QP2:0x4a",
        meaning="The packet passed the partition check, and the receiving queue pair has another Q_Key. It was "
        "dropped.",
        causes=(_Q_KEY_PACKET,),
        unknown="Which program owns the queue pair: rdma res show qp on that host.",
        source="osm_trap_rcv.c, osm_inform.c; IBA 14.2.5.1",
        words="Q_Key violation",
    ),
    Symptom(
        name="trap-259",
        title="trap 259, Bad P_Key at a switch port: an enforcing switch dropped a packet",
        subject=SUBJECT,
        patterns=(
            r"\bnum(?:ber)?:? ?259\b",
            r"trap(?: number)? ?:?#? ?259\b",
            r"Bad P_?Key \(?switch external port",
            r"\bport_?(?:xmit|rcv)_?constraint_?errors\b",
        ),
        example='Reporting Security Notice "Bad P_Key (switch external port)" from switch LID 7, port 2 : LID1 2, '
        "LID2 3",
        meaning="A switch port with enforcement has not the P_Key of a packet in its table, and dropped it.",
        causes=(SWITCH_BLOCKS, NO_SHARED_P_KEY),
        source="osm_trap_rcv.c, osm_inform.c; IBA 14.2.5.1",
        words="enforcement constraint errors",
    ),
)

FILES: Final = {
    "05": "osm_pkey_mgr.c",
    "0F": "osm_port_info_rcv.c",
    "1A": "osm_sa_mad_ctrl.c",
    "1B": "osm_sa_mcmember_record.c",
    "1F": "osm_sa_path_record.c",
    "21": "osm_sa_portinfo_record.c",
    "28": "osm_sa_sminfo_record.c",
    "2F": "osm_sminfo_rcv.c",
    "31": "osm_sm_mad_ctrl.c",
    "32": "osm_sm_state_mgr.c",
    "33": "osm_state_mgr.c",
    "38": "osm_trap_rcv.c",
    "43": "osm_sa_informinfo.c",
    "45": "osm_sa_multipath_record.c",
    "46": "osm_sa_pkey_record.c",
    "54": "osm_vendor_ibumad.c or osm_perfmgr.c",
    "48": "osm_pkey_rcv.c",
    "61": "osm_db_files.c",
    "75": "osm_db_pack.c",
}
"""The first two digits of an ERR number → the source file of OpenSM 3.3 that logs it."""
