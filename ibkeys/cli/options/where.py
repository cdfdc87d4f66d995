"""The options for the fabric, the local port, the keys to use, the messages, and the key store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import click

from ibkeys.cli import exits
from ibkeys.cli.help.common import DEFAULTS, FABRIC, KEYS, MESSAGES, TIMING
from ibkeys.cli.options.declaring import F, field_of, group, option, shared, shared_field
from ibkeys.cli.options.general import common
from ibkeys.cli.types import NumberType

_SHOW_KEYS: Final[dict[str, Any]] = {"is_flag": True, "help": "Print M_Keys instead of masking them."}
show_keys: Final = option("-K", "--show-keys", **_SHOW_KEYS)
"""The option of commands that open no fabric."""

_backend: Final = shared(
    FABRIC,
    "--backend",
    is_eager=True,  # a site file is not read for every backend
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


_site: Final = shared(
    DEFAULTS,
    "--site",
    is_eager=True,  # the file may hold values of other options
    metavar="FILE|none",
    help="Site file with values of options that are not given.  [default: /etc/ibkeys/ibkeys.toml, if there]",
)


def _explain(_ctx: click.Context, _param: click.Parameter, verbose: int) -> int:
    """Make -v decide whether errors are explained, and return its value.

    The option is eager, so that errors in other options are explained too.
    """
    exits.explain(verbose > 0)
    return verbose


@dataclass(frozen=True, slots=True)
class Where:
    """The options of a fabric: the local port, the time limits, the keys to use, and the messages to write."""

    ca: str | None = shared_field(
        FABRIC, "-C", "--Ca", "ca", metavar="NAME", help="Local channel adapter.  [default: first with an active port]"
    )
    port: int | None = shared_field(
        FABRIC, "-P", "--Port", "port", type=NumberType(1, 254), metavar="N", help="Local port number."
    )
    backend: str = field_of(_backend, "umad")
    at: str | None = shared_field(
        FABRIC, "--at", metavar="NODE", help="Node that the tool runs on, in a simulated subnet."
    )
    routes: bool = shared_field(
        FABRIC, "--routes", is_flag=True, help="Read the forwarding tables where a port between switches checks P_Keys."
    )
    timeout: int | None = shared_field(
        TIMING,
        "-t",
        "--timeout",
        type=NumberType(1, 3_600_000),
        metavar="MS",
        help="Timeout of each attempt in ms.  [default: 1000]",
    )
    retries: int = shared_field(
        TIMING,
        "--retries",
        type=NumberType(0, 1000),
        default=2,
        metavar="N",
        help="Attempts after the first.  [default: 2]",
    )
    outstanding_smps: int | None = shared_field(
        TIMING,
        "-o",
        "--outstanding_smps",
        type=NumberType(1, 1024),
        metavar="N",
        help="Maximum number of SMPs in flight.  [default: adaptive, up to 64]",
    )
    limit: tuple[str, ...] = shared_field(
        TIMING,
        "--limit",
        multiple=True,
        metavar="NAME=N",
        help="Raise or lower a limit; see ibkeys-options(7); repeatable.",
    )
    m_key: str | None = shared_field(
        KEYS, "-y", "--m_key", metavar="KEY", help="M_Key to send: '-' asks without echo, @FILE reads it."
    )
    security_keys: str | None = shared_field(
        KEYS, "--security-keys", metavar="DIR", help="Directory with OpenSM's guid2mkey, neighbors and guid2lid."
    )
    sa_keys: bool = shared_field(
        KEYS, "--sa-keys", is_flag=True, help="Ask the SA for all M_Keys and links; needs --smkey."
    )
    smkey: str | None = shared_field(
        KEYS, "--smkey", metavar="KEY", help="SM_Key to send to the SA: '-' asks without echo, @FILE reads it."
    )
    keystore: str | None = field_of(_keystore)
    keystore_passphrase: str | None = field_of(_passphrase)
    journal: str | None = shared_field(
        KEYS,
        "--journal",
        metavar="FILE",
        help="Journal that keeps what changes overwrite.  [default: beside the key store]",
    )
    trust_topology: bool = shared_field(
        KEYS, "--trust-topology", env=False, is_flag=True, help="Send known M_Keys over links that could not be proven."
    )
    ask_unproven: bool = shared_field(
        KEYS,
        "--ask-unproven",
        env=False,
        is_flag=True,
        help="Query places where a protected port may be, once and without a key: this adds a violation and "
        "may start its lease.",
    )
    show_keys: bool = shared_field(KEYS, "-K", "--show-keys", **_SHOW_KEYS)
    node_name_map: str | None = shared_field(
        DEFAULTS, "--node-name-map", metavar="FILE", help="Names for node GUIDs, in the format of infiniband-diags."
    )
    site: str | None = field_of(_site)
    config: str | None = shared_field(
        DEFAULTS, "-z", "--config", metavar="FILE|none", help="Defaults for CA, Port, timeout, m_key: an ibdiag.conf."
    )
    verbose: int = shared_field(
        MESSAGES,
        "-v",
        "--verbose",
        count=True,
        is_eager=True,
        callback=_explain,
        help="Explain errors and count SMPs, on standard error.",
    )
    debug: bool = shared_field(
        MESSAGES, "-d", "--debug", is_flag=True, help="Print each MAD decoded on standard error, keys masked."
    )
    pcap: str | None = shared_field(
        MESSAGES, "--pcap", metavar="FILE", help="Write the MADs for Wireshark, keys zeroed unless -K."
    )
    snapshot: str | None = None


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The options of the key store, for a command that opens no fabric."""

    backend: str = field_of(_backend, "umad")
    keystore: str | None = field_of(_keystore)
    keystore_passphrase: str | None = field_of(_passphrase)
    site: str | None = field_of(_site)


fabric: Final = group("where", Where, common)
"""The decorator for commands that open a fabric."""

_snapshot: Final = shared(
    FABRIC,
    "--from",
    "snapshot",
    is_eager=True,  # no site file is read for a snapshot
    metavar="SNAPSHOT",
    help="Read from a snapshot file instead of a fabric.",
)


def reading(command: F) -> F:
    """Add the options of commands that only read: a fabric, or a snapshot."""
    return _snapshot(fabric(command))


store: Final = group("store", StoreOptions, common)
"""The decorator for commands that use the key store and open no fabric."""
