"""Which fabric is talked to, from where, with which keys, and what is shown of it; and which key store is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import click

from ibkeys.cli import exits
from ibkeys.cli.help.common import DEFAULTS, FABRIC, KEYS, MESSAGES, TIMING
from ibkeys.cli.options.declaring import group, option, shared
from ibkeys.cli.options.general import common
from ibkeys.cli.types import Number


@dataclass(frozen=True, slots=True)
class Where:
    """Which fabric to talk to, from which port, with which keys, and what to show of the talking."""

    ca: str | None
    port: int | None
    backend: str
    at: str | None
    timeout: int | None
    retries: int
    outstanding_smps: int | None
    limit: tuple[str, ...]
    m_key: str | None
    security_keys: str | None
    sa_keys: bool
    smkey: str | None
    keystore: str | None
    keystore_passphrase: str | None
    journal: str | None
    trust_topology: bool
    ask_unproven: bool
    show_keys: bool
    node_name_map: str | None
    config: str | None
    verbose: int
    debug: bool
    pcap: str | None
    snapshot: str | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """Which key store, for a command that needs no fabric."""

    backend: str
    keystore: str | None
    keystore_passphrase: str | None


_SHOW_KEYS: Final[dict[str, Any]] = {"is_flag": True, "help": "Print M_Keys instead of masking them."}
show_keys: Final = option("-K", "--show-keys", **_SHOW_KEYS)
"""For commands that talk to no fabric."""

_backend: Final = shared(
    FABRIC,
    "--backend",
    default="umad",
    metavar="BACKEND",
    help="umad, or sim:FILE[,state=PATH][,...].  [default: umad]",
)
_keystore: Final = shared(KEYS, "--keystore", metavar="FILE", help="Key store of this tool.  [default: the user's own]")
_passphrase: Final = shared(
    KEYS,
    "--keystore-passphrase",
    metavar="@FILE|-",
    help="Passphrase of an encrypted key store: '-' asks, @FILE reads it.",
)


def _explain(_ctx: click.Context, _param: click.Parameter, verbose: int) -> int:
    """Let errors be explained as -v says; eager, so that it holds for errors in other options too."""
    exits.explain(verbose > 0)
    return verbose


_fabric_options: Final[tuple[Callable[..., Any], ...]] = (
    shared(
        FABRIC, "-C", "--Ca", "ca", metavar="NAME", help="Local channel adapter.  [default: first with an active port]"
    ),
    shared(FABRIC, "-P", "--Port", "port", type=Number(1, 254), metavar="N", help="Local port number."),
    _backend,
    shared(FABRIC, "--at", metavar="NODE", help="Node that the tool runs on, in a simulated subnet."),
    shared(
        TIMING,
        "-t",
        "--timeout",
        type=Number(1, 3_600_000),
        metavar="MS",
        help="Timeout of each attempt in ms.  [default: 1000]",
    ),
    shared(
        TIMING,
        "--retries",
        type=Number(0, 1000),
        default=2,
        metavar="N",
        help="Attempts after the first.  [default: 2]",
    ),
    shared(
        TIMING,
        "-o",
        "--outstanding_smps",
        type=Number(1, 1024),
        metavar="N",
        help="Maximum number of SMPs in flight.  [default: adaptive, up to 64]",
    ),
    shared(
        TIMING,
        "--limit",
        "limit",
        multiple=True,
        metavar="NAME=N",
        help="Raise or lower a limit; see ibkeys(1); repeatable.",
    ),
    shared(KEYS, "-y", "--m_key", metavar="KEY", help="M_Key to send: '-' asks without echo, @FILE reads it."),
    shared(KEYS, "--security-keys", metavar="DIR", help="Directory with OpenSM's guid2mkey, neighbors and guid2lid."),
    shared(KEYS, "--sa-keys", is_flag=True, help="Ask the SA for all M_Keys and links; needs --smkey."),
    shared(KEYS, "--smkey", metavar="KEY", help="SM_Key to send to the SA: '-' asks without echo, @FILE reads it."),
    _keystore,
    _passphrase,
    shared(
        KEYS,
        "--journal",
        metavar="FILE",
        help="Journal that keeps what changes overwrite.  [default: beside the key store]",
    ),
    shared(
        KEYS, "--trust-topology", env=False, is_flag=True, help="Send known M_Keys over links that could not be proven."
    ),
    shared(
        KEYS,
        "--ask-unproven",
        env=False,
        is_flag=True,
        help="Query places where a protected port may be, once and without a key: this adds a violation and "
        "may start its lease.",
    ),
    shared(KEYS, "-K", "--show-keys", **_SHOW_KEYS),
    shared(
        DEFAULTS, "--node-name-map", metavar="FILE", help="Names for node GUIDs, in the format of infiniband-diags."
    ),
    shared(DEFAULTS, "-z", "--config", metavar="FILE", help="Defaults for CA, Port, timeout, m_key: an ibdiag.conf."),
    shared(
        MESSAGES,
        "-v",
        "--verbose",
        count=True,
        is_eager=True,
        callback=_explain,
        help="Explain errors and count SMPs, on standard error.",
    ),
    shared(MESSAGES, "-d", "--debug", is_flag=True, help="Print each MAD decoded on standard error, keys masked."),
    shared(MESSAGES, "--pcap", metavar="FILE", help="Write the MADs for Wireshark, keys zeroed unless -K."),
    common,
)

fabric: Final = group("where", Where, *_fabric_options)
"""For commands that talk to a fabric."""

reading: Final = group(
    "where",
    Where,
    shared(FABRIC, "--from", "snapshot", metavar="SNAPSHOT", help="Read from a snapshot file instead of a fabric."),
    *_fabric_options,
)
"""For commands that only read: a fabric, or a snapshot of one."""

store: Final = group("store", Store, _backend, _keystore, _passphrase, common)
"""For commands that need the key store and no fabric."""
