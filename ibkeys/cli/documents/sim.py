"""The documents about simulated subnets that are being served: sim serve, sim ls."""

from __future__ import annotations

from typing import Final

from ibkeys.cli.documents.field import (
    NOTHING,
    NUMBER,
    TEXT,
    CsvRows,
    Document,
    Field,
    by_name,
    list_field,
    list_of,
    object_of,
    or_null,
)

_ASSUMED: Final = (
    Field("what", TEXT, "What the files do not say."),
    Field("count", or_null(NUMBER), "Of how many ports or nodes. Null: of all, because no file of this kind says it."),
    Field("unit", TEXT, "What is counted: port or node."),
    Field("assumed", TEXT, "What the simulated subnet has in its place."),
)
SIM_SERVE: Final = Document(
    "sim-serve",
    1,
    (
        Field("files", list_of(TEXT), "The files that the subnet was made of; empty for the demo fabric."),
        Field("nodes", NUMBER, "Nodes in it."),
        Field("end_ports", NUMBER, "End ports in it: those of HCAs and routers, and port 0 of switches."),
        Field(
            "node",
            object_of(Field("node_id", TEXT, "Its node id."), Field("node_desc", TEXT, "Its NodeDescription.")),
            "The node that programs attach to if SIM_HOST names no other.",
        ),
        Field("environment", by_name(TEXT), "The variables with which programs attach, by name."),
        Field("m_keys", or_null(NUMBER), "How many M_Keys were written (--export-keys). Null: without that option."),
        list_field("assumed", "What the files do not say.", *_ASSUMED),
    ),
    CsvRows("assumption", _ASSUMED),
    about="What `ibkeys sim serve -f json` writes when it is ready",
    page="sim",
)

_PROCESS: Final = (
    Field("host", TEXT, "The simulated host."),
    Field("pid", NUMBER, "Number of the process."),
    Field("command", TEXT, "Its command line."),
)
_SERVER: Final = (
    Field("socket", TEXT, "The socket name, for `--socket`.", "Socket"),
    Field("fabric", TEXT, "The files that it is made of; demo: the demo fabric.", "Fabric"),
    Field("pid", NUMBER, "Number of the process of the server.", "Server"),
)
_HOSTS: Final = Field("hosts", TEXT, "", "Processes", lambda row: row["hosts"] or NOTHING)
SIM_LS_COLUMNS: Final = (*_SERVER, _HOSTS)
SIM_LS: Final = Document(
    "sim-ls",
    1,
    (
        list_field(
            "servers",
            "The servers that let this user in.",
            *_SERVER,
            list_field("processes", "The processes on its hosts.", *_PROCESS),
        ),
    ),
    CsvRows("process", (*_SERVER[:2], *_PROCESS)),
    about="What `ibkeys sim ls -f json` writes",
    page="sim",
)
