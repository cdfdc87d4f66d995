"""The document about this host's keys as its kernel shows them: host-show."""

from __future__ import annotations

from typing import Final

from ibkeys.cli.documents.field import (
    FLAG,
    NUMBER,
    TEXT,
    CsvRows,
    Document,
    Field,
    list_field,
    list_of,
    object_field,
    object_of,
    or_null,
)
from ibkeys.cli.documents.shared import P_KEY, P_KEY_ENTRY, PORT, PORT_NUMBER

_DEVICE: Final = Field("device", TEXT, "The RDMA device, as mlx5_0.")
_LINK_LAYER: Final = Field("link_layer", or_null(TEXT), "InfiniBand or Ethernet. Null: not read.")
_STATE: Final = Field("state", or_null(TEXT), "PortState, as ACTIVE. Null: not read.")
_CAPACITY: Final = Field("capacity", or_null(NUMBER), "How many entries its P_Key table has. Null: not read.")
_COUNTED: Final = "Null: the driver does not count or show it."
_FUNCTION: Final = object_of(
    Field("pci", TEXT, "The PCI address of the function."),
    list_field(
        "pkeys",
        "What the function sees of the port's table.",
        Field("index", NUMBER, "The index that the function sees."),
        Field("physical_index", or_null(NUMBER), "The index in the port's table. Null: none."),
        Field("pkey", or_null(P_KEY), "The P_Key there. Null: none, or not read."),
    ),
)
_PORT: Final = object_of(
    _DEVICE,
    *PORT,
    _LINK_LAYER,
    _STATE,
    Field("sm_lid", or_null(NUMBER), "The LID of the master subnet manager. Null: not read."),
    Field("virtual_function", or_null(FLAG), "Whether the device is a virtual function. Null: not known."),
    Field("virtual_function_reason", TEXT, "From what that follows."),
    _CAPACITY,
    Field(
        "pkeys",
        or_null(
            list_of(
                object_of(
                    *P_KEY_ENTRY.fields,
                    Field("selinux_type", or_null(TEXT), "Its SELinux type. Null: it has no label, or none is known."),
                )
            )
        ),
        "The entries that are not empty. Null: the table was not read.",
    ),
    Field("unread", list_of(NUMBER), "The indexes that could not be read."),
    Field(
        "port_xmit_constraint_errors",
        or_null(NUMBER),
        f"PortXmitConstraintErrors, up to 255; means something on switch ports only. {_COUNTED}",
    ),
    Field(
        "port_rcv_constraint_errors",
        or_null(NUMBER),
        f"PortRcvConstraintErrors, up to 255; means something on switch ports only. {_COUNTED}",
    ),
    Field("p_key_violations", or_null(NUMBER), f"P_KeyViolations. {_COUNTED}"),
    Field("q_key_violations", or_null(NUMBER), f"Q_KeyViolations. {_COUNTED}"),
    Field("functions", list_of(_FUNCTION), "For mlx4 with SR-IOV: what each function sees of the table."),
)
_LABEL: Final = object_of(
    Field("type", TEXT, "The SELinux type."),
    Field("subnet_prefix", TEXT, "The prefix of the subnet in which it counts, 0x and 16 digits."),
    Field("first", P_KEY, "The first P_Key that has it, all 16 bits."),
    Field("last", P_KEY, "The last one."),
)
_INTERFACE: Final = object_of(
    Field("name", or_null(TEXT), "The name of the network interface."),
    Field("pkey", or_null(P_KEY), "Its P_Key, with the full bit that the driver sets. Null: not read."),
    Field(
        "source", or_null(TEXT), "From what it is known: pkey (the file) or broadcast (the address). Null: not known."
    ),
    Field("parent", or_null(TEXT), "Its parent. Null: it is none's child, or the parent is in another namespace."),
    Field("mode", or_null(TEXT), "datagram or connected. Null: not read."),
    Field("umcast", or_null(FLAG), "Whether multicast from user space is allowed. Null: not read."),
    Field("up", or_null(FLAG), "Whether it is set up. Null: not read."),
    Field("running", or_null(FLAG), "Whether it works. Null: not read."),
    Field("device", or_null(TEXT), "The RDMA device that it is on. Null: not known."),
    Field("port", PORT_NUMBER, "The port that it is on. Null: not known."),
    Field("index", or_null(NUMBER), "Where the port's table has its partition. Null: it has not, or was not read."),
    Field("problem", or_null(TEXT), "Why it cannot work, or may not. Null: nothing is known against it."),
)
_CHOICE: Final = object_of(
    _DEVICE,
    Field("port", PORT_NUMBER),
    Field("index", or_null(NUMBER), "The index that the program takes. Null: it finds none."),
    Field("pkey", or_null(P_KEY), "The P_Key there. Null: it finds none."),
    Field("value", or_null(TEXT), "What the variable has to be for that. Null: it finds none."),
    Field("reason", or_null(TEXT), "Why it finds none. Null: it does."),
)
_SETTING: Final = object_of(
    Field("program", TEXT, "The program or library."),
    Field("variable", TEXT, "The environment variable that tells it a P_Key."),
    Field("takes", TEXT, "What that variable has: index or value."),
    Field("value", or_null(TEXT), "The value that fits all ports of the job. Null: none does."),
    Field("reason", or_null(TEXT), "Why none does. Null: one does."),
    Field("ports", list_of(_CHOICE), "What the program takes on each port of the job."),
)

HOST_SHOW: Final = Document(
    "host-show",
    1,
    (
        Field("partition", or_null(P_KEY), "That of --partition. Null: without it."),
        Field("ports", list_of(_PORT), "The ports of this host."),
        Field("interfaces", list_of(_INTERFACE), "The IPoIB interfaces."),
        Field("settings", list_of(_SETTING), "What a job script sets."),
        object_field(
            "selinux",
            "What SELinux may refuse.",
            Field("mode", or_null(TEXT), "enforcing, permissive or off. Null: not readable."),
            Field("checks_pkeys", FLAG, "Whether its policy knows P_Keys."),
            Field("checks_smps", FLAG, "Whether its policy knows SMPs."),
            Field(
                "labels",
                or_null(list_of(_LABEL)),
                "The labels of P_Keys. Null: not known; only root can list them.",
            ),
        ),
        list_field(
            "errors",
            "What could not be read.",
            Field("file", TEXT, "The file, below /sys."),
            Field("error", TEXT, "Why it was not read."),
        ),
    ),
    CsvRows("entry", (_DEVICE, *PORT, _LINK_LAYER, _STATE, _CAPACITY, *P_KEY_ENTRY.fields)),
)
