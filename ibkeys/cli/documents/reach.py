"""The documents about reach between ports: matrix, why."""

from __future__ import annotations

from typing import Final, get_args

from ibkeys.cli.documents.field import (
    FLAG,
    NUMBER,
    TEXT,
    CsvRows,
    Document,
    Field,
    JsonType,
    list_field,
    list_of,
    object_field,
    object_of,
    one_of,
    or_null,
    parts_of,
)
from ibkeys.cli.documents.shared import (
    ERRORS,
    GUID,
    LOOKED_AT,
    MEMBERSHIP,
    NODE_DESC,
    NODE_TYPE,
    NOT_ACTIVE,
    P_KEY,
    PARTITION,
    PORT,
    PORT_IDENTITY,
    PORT_NUMBER,
    TIME,
    UNREACHED,
)
from ibkeys.topology.forwarding import RouteEnd

INBOUND_CHECK: Final = Field(
    "inbound_check", TEXT, "What switches are taken to check of packets that come in: partition or membership."
)
_A: Final = Field("a", PORT_IDENTITY, "The first port.")
_B: Final = Field("b", PORT_IDENTITY, "The second port.")
_KEYS: Final = (
    Field("a_pkey", P_KEY, "The P_Key of the first port."),
    Field("b_pkey", P_KEY, "The P_Key of the second port that matches it."),
)
_STOP: Final = (
    *PORT,
    Field("direction", TEXT, "inbound: packets that enter the switch; outbound: those that leave it."),
    Field("pkey", P_KEY, "The P_Key of the packets."),
)
_UNREAD: Final = Field("unread", list_of(PORT_IDENTITY), "The ports whose P_Key table or enforcement was not read.")
_NOT_ACTIVE: Final = Field("not_active", list_of(NOT_ACTIVE), "The ends of end ports' links that are not Active.")


# --- matrix -----------------------------------------------------------------------------------------------------------


def _pairs(name: str, about: str) -> Field:
    """Return a field about pairs of ports: their number, or with --pairs each of them."""
    pair = object_of(_A, _B, list_field("by", "The P_Keys by which they do.", *_KEYS))
    return Field(name, JsonType(("array", "integer"), items=pair), f"{about} Their number; with --pairs each of them.")


def _name_columns(side: Field) -> list[Field]:
    """Return the columns of CSV that name one port of a pair."""
    return [each for each in parts_of(side) if each.name.endswith(("port_guid", "node_desc"))]


_NAME: Final = Field("name", or_null(TEXT), "Its name in the policy. Null: it has none, or without --policy.")

MATRIX: Final = Document(
    "matrix",
    2,
    (
        LOOKED_AT,
        list_field(
            "partitions",
            "The partitions; not with --pairs.",
            PARTITION,
            _NAME,
            Field("full", list_of(PORT_IDENTITY), "Its full members; a port with both P_Keys is in both lists."),
            Field("limited", list_of(PORT_IDENTITY), "Its limited members."),
            list_field("stopped", "The switch ports that block its packets.", *_STOP),
            optional=True,
        ),
        _pairs("pairs", "Pairs of ports that can talk."),
        _pairs(
            "one_way",
            "Pairs of which packets get through from the first to the second, and no answer in the same partition.",
        ),
        _pairs("unknown", "Pairs for which the route decides."),
        INBOUND_CHECK,
        Field(
            "ports_depending_on_inbound_check",
            NUMBER,
            "How many end ports could send more or less with the other assumption; not with --pairs.",
            optional=True,
        ),
        list_field("may_be_stopped_by", "The ports on links between switches that block a P_Key.", *_STOP),
        _UNREAD,
        Field("virtualized", list_of(PORT_IDENTITY), "The ports with virtual ports, whose P_Keys cannot be read."),
        _NOT_ACTIVE,
        ERRORS,
        UNREACHED,
    ),
    CsvRows("member", (*PORT, PARTITION, _NAME, Field("membership", MEMBERSHIP))),
    CsvRows(
        "P_Key of a pair, with --pairs",
        (
            *_name_columns(_A),
            *_name_columns(_B),
            *_KEYS,
            Field("way", one_of("both", "a_to_b", "unknown"), "The direction."),
        ),
    ),
)

# --- why --------------------------------------------------------------------------------------------------------------

_CAN_TALK: Final = (
    Field("can_talk", or_null(FLAG), "Whether the two can talk. Null: the route decides, or a value was not read."),
    Field("a_to_b", or_null(FLAG), "Whether packets from A get to B. Null: not known."),
    Field("b_to_a", or_null(FLAG), "Whether packets from B get to A. Null: not known."),
)
_MATCH: Final = (
    *_KEYS,
    Field(
        "stopped",
        or_null(FLAG),
        "Whether switch ports keep the two from talking with these two P_Keys. Null: not known.",
    ),
    Field("a_to_b", or_null(FLAG), "Whether packets from A get to B with these two P_Keys. Null: not known."),
    Field("b_to_a", or_null(FLAG), "Whether packets from B get to A with these two P_Keys. Null: not known."),
)
_OF_PACKETS: Final = Field("way", one_of("a_to_b", "b_to_a"), "Of packets in this direction.")
_ON_SOME_ROUTES: Final = Field(
    "on_some_routes", FLAG, "Whether it is between switches and on some routes only. False: on every route."
)
_STOP_ON_THE_WAY: Final = object_of(*_STOP, _OF_PACKETS)
_NUM_PORTS: Final = Field("num_ports", NUMBER, "How many ports its node has.")
_CHECK: Final = object_of(
    *_STOP,
    _OF_PACKETS,
    Field("index", or_null(NUMBER), "The entry of its P_Key table that lets them pass. Null: it drops them."),
    Field("entry", or_null(P_KEY), "The P_Key of that entry."),
    _ON_SOME_ROUTES,
    Field("peer", or_null(object_of(*PORT, _NUM_PORTS)), "The port at the other end of its link. Null: not known."),
)
_END: Final = object_of(
    *PORT, _NUM_PORTS, Field("pkeys", or_null(list_of(P_KEY)), "Its P_Keys, by their indexes. Null: not read.")
)
_PATH: Final = object_of(
    _OF_PACKETS,
    Field("lid", NUMBER, "The LID that the packet is sent to; the base LID of the port comes first."),
    Field("pkey", P_KEY, "The P_Key of the packet."),
    Field("outcome", one_of("delivered", "stopped", "lost", "unknown"), "What becomes of it."),
    Field(
        "lost_by",
        one_of(*get_args(RouteEnd)[1:], None),
        "Why the route does not lead to the LID, or why it is not known further. Null: a check decides, or it arrives.",
    ),
    Field(
        "counter",
        one_of("PortRcvConstraintErrors", "PortXmitConstraintErrors", "P_KeyViolations", None),
        "The counter by which the port that stops it counts it.",
    ),
    Field("unread", or_null(PORT_IDENTITY), "The port whose check was not read, if that is why it is unknown."),
    list_field(
        "hops",
        "The nodes on its route, up to the one where it ends.",
        Field("node_guid", GUID),
        Field("node_desc", NODE_DESC),
        Field("node_type", NODE_TYPE),
        Field("in_port", or_null(NUMBER), "The port by which it comes in. Null: it is sent here."),
        Field("out_port", or_null(NUMBER), "The port by which it leaves. Null: it ends here."),
        list_field(
            "checks",
            "The ports of this node that check its P_Key.",
            Field("port", PORT_NUMBER),
            Field("direction", one_of("inbound", "outbound", "received"), "When it is checked."),
            Field("index", or_null(NUMBER), "The entry that lets it pass. Null: none does."),
            Field("entry", or_null(P_KEY), "The P_Key of that entry."),
        ),
    ),
)
_PATHS: Final = list_of(_PATH)
_PACKET_ROWS: Final = CsvRows(
    "packet", (Field("lid", NUMBER), Field("pkey", P_KEY), Field("outcome", TEXT), Field("lost_by", TEXT))
)

WHY_PACKET: Final = Document(
    "why-packet",
    1,
    (
        _A._replace(kind=_END),
        _B._replace(kind=_END),
        Field("packets", _PATHS, "A packet from A to each LID of B."),
        INBOUND_CHECK,
    ),
    _PACKET_ROWS,
    page="why",
)

WHY_TRAP: Final = Document(
    "why-trap",
    1,
    (
        Field("trap", or_null(NUMBER), "The number of the trap. Null: only LIDs and P_Key were given."),
        Field("pkey", or_null(P_KEY), "The P_Key of the packet. Null: it was refused for its Q_Key."),
        Field("q_key", or_null(TEXT), "The Q_Key of the packet, 0x and 8 digits. Null: it was refused for its P_Key."),
        Field("from", or_null(PORT_IDENTITY), "The port that sent it. Null: no port has its LID now."),
        Field("to", or_null(PORT_IDENTITY), "The port that it was for. Null: no port has its LID now."),
        Field("refused_at", or_null(PORT_IDENTITY), "The port that refused it, by the trap. Null: not known."),
        Field("packets", _PATHS, "What becomes of such a packet now; empty for a Q_Key."),
        Field("passing_entries", list_of(P_KEY), "The P_Keys of which one in the port's table would let it pass."),
        Field(
            "since",
            or_null(
                object_of(
                    Field("after", TIME, "The snapshot before the change."),
                    Field("by", TIME, "The snapshot after the change."),
                )
            ),
            "With --history: when P_Keys of the partition last changed at the port that stops it. Null: not found.",
        ),
        list_field(
            "commands",
            "Commands that together let it pass, or say more.",
            Field("command", TEXT, "A whole command."),
            Field("about", TEXT, "What it does or shows."),
        ),
        Field(
            "no_remedy", or_null(TEXT), "Why no change of P_Keys lets it pass. Null: the commands do, if it is stopped."
        ),
        INBOUND_CHECK,
    ),
    _PACKET_ROWS,
    page="why",
)

WHY: Final = Document(
    "why",
    1,
    (
        _A._replace(kind=_END),
        _B._replace(kind=_END),
        *_CAN_TALK,
        Field(
            "by",
            list_of(object_of(*_MATCH, Field("checks", list_of(_CHECK), "The switch ports that check these packets."))),
            "The P_Keys of the two that match.",
        ),
        Field("stopped_by", list_of(_STOP_ON_THE_WAY), "The switch ports that drop packets."),
        Field("may_be_stopped_by", list_of(_STOP_ON_THE_WAY), "Those between switches that drop them on some routes."),
        _UNREAD,
        Field(
            "virtualized",
            list_of(PORT_IDENTITY),
            "Those of the two that have virtual ports: their P_Keys cannot be read, so `can_talk` is never false for "
            "them, except by a link that is not Active.",
        ),
        _NOT_ACTIVE._replace(about="The ends of links of the two ports that are not Active."),
        INBOUND_CHECK,
        Field("depends_on_inbound_check", FLAG, "Whether the other assumption gives a different result."),
        object_field("otherwise", "The result with the other assumption.", *_CAN_TALK),
        Field(
            "packets",
            _PATHS,
            "Packets by the forwarding tables that were read: with each P_Key that matches, in both directions, to "
            "each LID of the receiver.",
        ),
        object_field("if_adaptive", "The result if switches may deviate from their forwarding tables.", *_CAN_TALK),
        object_field(
            "traffic",
            "What holds for packets of other kinds.",
            Field("smps", FLAG, "Whether SMPs (QP0) pass the links of the two."),
            Field("gmps", or_null(FLAG), "Whether GMPs (QP1) pass, as `can_talk`."),
            Field("raw_a_to_b", or_null(FLAG), "Whether raw packets from A get to B. Null: not known."),
            Field("raw_b_to_a", or_null(FLAG), "Whether raw packets from B get to A. Null: not known."),
            list_field(
                "raw_dropped_by",
                "The switch ports that drop raw packets.",
                *PORT,
                Field("field", TEXT, "The field of PortInfo: FilterRawInbound or FilterRawOutbound."),
                _OF_PACKETS,
                _ON_SOME_ROUTES,
            ),
            Field("reliable_datagram", or_null(FLAG), "Whether reliable datagrams pass, as `can_talk`."),
        ),
    ),
    CsvRows("pair of P_Keys that match", _MATCH),
)
