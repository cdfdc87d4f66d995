"""Lines of an OpenSM log."""

from __future__ import annotations

# What OpenSM 3.3.23 wrote on the served simulator: a P_Key stopped at a switch, a wrong Q_Key, a wrong M_Key.
AT_SWITCH = [
    "Nov 22 15:48:53 564983 [F430C6C0] 0x01 -> log_trap_info: Received Generic Notice type:2 num:259 (Bad P_Key "
    "(switch external port)) Producer:2 (Switch) from LID:7 TID:0x0000000000000001",
    'Nov 22 15:48:53 565093 [F430C6C0] 0x02 -> log_notice: Reporting Security Notice "Bad P_Key (switch external '
    'port)" from switch LID 7, GUID 0x0002c90200401000 port 2 : data_valid 0x0000, LID1 2, LID2 3, PKey 0x8123, SL 0, '
    "QP1 0x1, QP2 0x1, GID1 fe80::2:c903:a:1021, GID2 fe80::2:c903:a:1031",
]


Q_KEY = [
    "Nov 22 15:48:57 377877 [6CB116C0] 0x01 -> log_trap_info: Received Generic Notice type:2 num:258 (Bad Q_Key) "
    "Producer:1 (Channel Adapter) from LID:3 TID:0x0000000000000005",
    "Nov 22 15:48:57 377897 [6CB116C0] 0x01 -> log_trap_info: Bad Q_Key:0x11 on SL:0 from LID1:2 QP1:0x1 to LID2:3 "
    "QP2:0x1",
    'Nov 22 15:48:57 377979 [6CB116C0] 0x02 -> log_notice: Reporting Security Notice "Bad Q_Key" from LID 3, GUID '
    "0x0002c903000a1031 : LID1 2, LID2 3, Q_Key 0x11, SL 0, QP1 0x1, QP2 0x1, GID1 fe80::2:c903:a:1021, GID2 "
    "fe80::2:c903:a:1031",
]


M_KEY = [
    "Nov 22 15:48:57 699186 [6C3106C0] 0x01 -> log_trap_info: Received Generic Notice type:2 num:256 (Bad M_Key) "
    "Producer:1 (Channel Adapter) from LID:2 TID:0x0000000000000006",
    'Nov 22 15:48:57 699302 [6C3106C0] 0x02 -> log_notice: Reporting Security Notice "Bad M_Key" from LID 2, GUID '
    "0x0002c903000a1021, Method 0x2, Attribute 0x15, AttrMod 0x1, M_Key 0x0000deadbeefcafe",
]
