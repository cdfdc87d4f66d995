"""Lines of OpenSM's log about ports, sweeps and other subnet managers.

Wording: the format strings of Debian's opensm 3.3.23, and the sources of 3.3 (linux-rdma/opensm). The consequences of a
line are those that were observed with OpenSM on a simulated fabric.
"""

from __future__ import annotations

from typing import Final

from ibkeys.symptoms.causes import (
    AGENT_TAKEN,
    M_KEY_PROTECTED,
    M_KEY_WRONG_SET,
    NO_RIGHTS,
    NO_UMAD,
    NODE_GONE,
    POLICY_FILE,
    SWITCH_TABLE_SMALL,
    TABLE_FULL,
    TWO_SMS,
)
from ibkeys.symptoms.row import Cause, Symptom

SUBJECT: Final = "OpenSM's log"
KEYS_IN_LOG: Final = "Change that key (ibkeys smkey-rotate), and let only root read the log."

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

ROWS: Final = (
    Symptom(
        name="opensm-3120",
        title="ERR 3120: no answer, possibly a wrong M_Key",
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
        patterns=(r"ERR 541[01]\b", r"\bSend completed with error \(IB_TIMEOUT\)"),
        example="ERR 5411: DR SMP Send completed with error (IB_TIMEOUT) -- dropping; Initial path = 0,1,7,2",
        meaning="OpenSM's library gave a request up: no answer came. ERR 3113 follows, with the attribute. The next "
        "line has the route, as 'Initial path'.",
        causes=(M_KEY_PROTECTED, NODE_GONE),
        unknown="A port that is dead and one that drops requests because of its M_Key look the same from outside.",
        source="osm_vendor_ibumad.c; observed",
        rank=1,
        words="timeout IB_TIMEOUT dropping",
    ),
    Symptom(
        name="opensm-bind",
        title="ERR 5415 to 542E, 5431, 2E10, 3118, 1A10: OpenSM cannot use its port",
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
        patterns=(r"ERR 05(?:02|03|05|06|08|09|11)\b", r"pkey_mgr_update_pkey_entry\(\) failed"),
        example="ERR 0506: pkey_mgr_update_pkey_entry() failed to update pkey table block 0 for node 0x2c903000a1020",
        meaning="OpenSM could not prepare or send a block of a P_Key table, or the enforcement bits of a switch port.",
        causes=(_MISSED_SET, TABLE_FULL),
        source="osm_pkey_mgr.c",
    ),
    Symptom(
        name="opensm-0510",
        title="ERR 0510, 'Partition configuration': the policy file is not used",
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
        name="opensm-2F18",
        title="ERR 2F18: another subnet manager with a different sm_key",
        patterns=(
            r"ERR 2F18\b",
            r"sm_key 0x[0-9a-f]+ that doesn.t match our local",
            r"remote SM .{0,80}non-matching sm_key",
            r"\bSM_?Key (?:mismatch|does not match|differs)",
        ),
        example="ERR 2F18: Got SM (node02) with sm_key 0x... that doesn't match our local sm_key. Ignoring SMInfo",
        meaning="Two subnet managers do not accept each other. After some 50 s both are masters, and each writes its "
        "own partitions and M_Keys.",
        causes=(TWO_SMS, _OLD_STANDBY),
        source="osm_sminfo_rcv.c; observed",
        leaks="ERR 2F18 has the other subnet manager's sm_key in clear. " + KEYS_IN_LOG,
        words="two masters standby",
    ),
    Symptom(
        name="opensm-2F1A",
        title="ERR 2F1A, 2F1B: SMInfo of another subnet manager with a wrong M_Key",
        patterns=(r"ERR 2F1[AB]\b", r"SMInfo\((?:GET|SET)\) sender .{0,80}authentication failure"),
        example="ERR 2F1A: SMInfo(GET) sender (node02) authentication failure.Ignoring SMInfo",
        meaning="Another subnet manager polled this one with an M_Key that is not that of this port. It gets no "
        "answer, and will think that the master is dead.",
        causes=(_OLD_STANDBY, TWO_SMS),
        source="osm_sminfo_rcv.c",
    ),
    Symptom(
        name="opensm-smi-query",
        title="ERR 0F05, 3204, 3314, 3317: SMInfo could not be asked for",
        patterns=(r"ERR (?:0F05|3204|3314|3317)\b",),
        example="ERR 3317: Failure requesting SMInfo (IB_TIMEOUT), remote SM at 0x2c903000a1021",
        meaning="OpenSM could not ask another subnet manager whether it runs.",
        causes=(TWO_SMS, NODE_GONE),
        source="osm_port_info_rcv.c, osm_sm_state_mgr.c, osm_state_mgr.c",
    ),
    Symptom(
        name="opensm-331A",
        title="ERR 331A: opensm.conf could not be read again",
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
        patterns=(r"SM port is down",),
        example="osm_state_mgr_process: SM port is down",
        meaning="OpenSM cannot read its own port, and manages nothing: the cable is out, or the port has an M_Key at "
        "level 2 that OpenSM does not know, as after a crash during a change of keys.",
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
