"""The security traps 256 to 259, as OpenSM's log and programs write them.

Wording: the format strings of Debian's opensm 3.3.23, and the sources of 3.3 (linux-rdma/opensm). The consequences of a
trap: IBA 14.2.5.1, and observations with OpenSM on a simulated fabric.
"""

from __future__ import annotations

from typing import Final

from ibkeys.symptoms.causes import (
    DROPS_COUNTED,
    M_KEY_WRONG_SET,
    NO_SHARED_P_KEY,
    NOT_A_MEMBER,
    SWITCH_BLOCKS,
    TWO_SMS,
)
from ibkeys.symptoms.row import Cause, Symptom

_Q_KEY_PACKET: Final = Cause(
    "q-key-differs",
    "A datagram program sent with another Q_Key than the receiver's queue pair has: an old address of a restarted "
    "program, or a wrong setting.",
    ("port-show {lid2} --counters", "port-show {lid} --counters", "port-show --all --counters --nonzero"),
    "QKeyViolations above 0 at the receiver",
)

ROWS: Final = (
    Symptom(
        name="trap-256",
        title="trap 256, Bad M_Key: a port refused a wrong M_Key",
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
        unknown="Who sent it: OpenSM's log never says. Leave ibkeys watch running until the next one comes: it names "
        "the LID of the sender.",
        source="osm_trap_rcv.c, osm_inform.c; IBA 14.2.5.1",
        leaks="The notice 'Bad M_Key' has the key that was tried. If that was a mistyped or former key, change it.",
        words="M_Key violation security notice attacker offender who tries",
    ),
    Symptom(
        name="trap-257",
        title="trap 257, Bad P_Key: a port received a packet of a partition that it is not in",
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
