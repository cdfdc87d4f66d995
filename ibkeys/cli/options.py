"""The options that commands share, each written once. A decorator hands its group to the command as one object."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar

import click

from ibkeys.cli import exits
from ibkeys.cli.help.common import DEFAULTS, FABRIC, GENERAL, KEYS, MESSAGES, TIMING, CommonOption
from ibkeys.cli.screen import colour
from ibkeys.cli.types import Number, Way
from ibkeys.keys.pkey import DEFAULT_INBOUND_CHECK, INBOUND_CHECKS

F = TypeVar("F", bound=Callable[..., Any])


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


@dataclass(frozen=True, slots=True)
class Through:
    """How a change gets to the fabric, and how long the subnet manager is waited for."""

    via: str | None
    sm_wait: int


@dataclass(frozen=True, slots=True)
class Kind:
    """Which of -L, -D, -G, -N were given: what ADDR is."""

    lid: bool
    direct: bool
    guid: bool
    name: bool


@dataclass(frozen=True)
class Folding:
    """Whether ports that say the same are one row of a table. Neither: on a terminal they are."""

    each: bool = False
    fold: bool = False


@dataclass(frozen=True)
class Filters:
    """Which ports of a sweep are listed."""

    node: tuple[str, ...] = ()
    hosts: bool = False
    switch: bool = False
    partition: tuple[str, ...] = ()
    p_key: tuple[str, ...] = ()
    level: tuple[int, ...] = ()
    nonzero: bool = False
    changed_since: str | None = None


@dataclass(frozen=True)
class Listing(Filters, Folding):
    """Which ports of a sweep are listed, and whether those that say the same are one row."""


@dataclass(frozen=True, slots=True)
class Changing:
    """What the user agrees to beforehand."""

    dry_run: bool
    yes: bool
    force: bool
    override: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AskSa:
    """How to ask subnet administration (the SA), and other agents behind QP1."""

    sm_port: int | None
    smkey: str | None
    pkey_idx: int | None


@dataclass(frozen=True, slots=True)
class SmHosts:
    """Which hosts with a subnet manager to look at besides this one, and how they are reached."""

    sm_host: tuple[str, ...]
    sudo: bool
    ssh_config: str | None
    sm_config: str | None


def group(name: str, kind: type[Any], *options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds *options* and passes their values as one object of class *kind* named *name*."""
    names = [field.name for field in fields(kind)]

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def wrapper(**values: Any) -> Any:
            own = kind(**{each: values.pop(each) for each in names if each in values})
            return command(**{name: own}, **values)

        wrapped: Any = wrapper
        for option in reversed(options):
            wrapped = option(wrapped)
        return wrapped  # type: ignore[no-any-return]

    return decorate


def option(*names: str, env: bool = True, **settings: Any) -> Callable[[F], F]:
    """Return click.option, read from ``IBKEYS_<LONG NAME>`` too unless *env* is false."""
    long = next(name for name in names if name.startswith("--"))
    variable = "IBKEYS_" + long.lstrip("-").replace("-", "_").upper() if env else None
    return click.option(*names, envvar=variable, **settings)


def shared(section: str, *names: str, **settings: Any) -> Callable[[F], F]:
    """Return an `option` that many commands share: their help names it, and lists it by *section* with --help-all."""
    return option(*names, cls=CommonOption, section=section, **settings)


def show_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    """Print the version and leave."""
    if wanted and not ctx.resilient_parsing:
        from ibkeys.version import __version__

        click.echo(f"ibkeys {__version__}")
        ctx.exit()


_version: Final = shared(
    GENERAL,
    "-V",
    "--version",
    env=False,
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=show_version,
    help="Print the version.",
)


def _choose_colour(ctx: click.Context, _param: click.Parameter, wish: colour.Wish) -> None:
    colour.choose(ctx, wish)


_color: Final = shared(
    MESSAGES,
    "--color",
    type=click.Choice(colour.WISHES),
    default="auto",
    expose_value=False,
    callback=_choose_colour,
    help="Colour of severities and changes.  [default: auto, on a terminal]",
)


def common(command: F) -> F:
    """Add the options of every command; the groups for a fabric and for the key store have them."""
    return _color(_version(command))


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
        help="Query once, without a key, places where a protected port "
        "may be: this adds a violation and may start its lease.",
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

sm_port: Final = option(
    "-s", "--sm_port", type=Number(1, 0xBFFF), metavar="LID", help="LID of the SA.  [default: the master SM's]"
)
pkey_idx: Final = option(
    "-Y",
    "--pkey-idx",
    type=Number(0, 0xFFFF),
    metavar="N",
    help="Index in the local P_Key table to use for queries.  [default: that of 0x7fff]",
)
probe_sa: Final = option(
    "--probe-sa",
    is_flag=True,
    help="Ask the SA what it discloses to untrusted requesters; sends one query with SM_Key 1.",
)

sa: Final = group(
    "sa",
    AskSa,
    sm_port,
    option("--smkey", metavar="KEY", help="SM_Key to send to the SA: '-' asks without echo, @FILE reads it."),
    pkey_idx,
)
"""For commands that ask the SA."""

store: Final = group("store", Store, _backend, _keystore, _passphrase, common)
"""For commands that need the key store and no fabric."""

kind: Final = group(
    "kind",
    Kind,
    option("-L", "--Lid", "lid", env=False, is_flag=True, help="ADDR is a LID (the default)."),
    option("-D", "--Direct", "direct", env=False, is_flag=True, help="ADDR is a directed route, as 0,1,4."),
    option("-G", "--Guid", "guid", env=False, is_flag=True, help="ADDR is a port or node GUID."),
    option("-N", "--Name", "name", env=False, is_flag=True, help="ADDR is a node's name."),
)


def address(words: str = "[ADDR] [PORTNUM]", required: bool = False) -> Callable[[F], F]:
    """Return the decorator for a command that names ports: ``kind`` and the words that follow, ``words``."""

    def decorate(command: F) -> F:
        return click.argument("words", nargs=-1, required=required, metavar=words)(kind(command))

    return decorate


every_port: Final = option("--all", "every_port", env=False, is_flag=True, help="Every port of the subnet.")

format: Final = option(
    "-f",
    "--format",
    "format",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    help="Format of the output.  [default: table]",
)

_partition: Final = option(
    "--partition", env=False, multiple=True, metavar="P_KEY", help="Only full or limited members; repeatable."
)
_filter_options: Final[tuple[Callable[..., Any], ...]] = (
    option("--node", env=False, multiple=True, metavar="GLOB", help="Only nodes of this name, as 'gpu*'; repeatable."),
    option("--hosts", env=False, is_flag=True, help="Only channel adapters."),
    option("--switch", env=False, is_flag=True, help="Only switches."),
    _partition,
    option("--p-key", env=False, multiple=True, metavar="P_KEY", help="Only ports with this P_Key; repeatable."),
    option("--level", env=False, multiple=True, type=Number(0, 3), metavar="0..3", help="Only this level; repeatable."),
    option("--nonzero", env=False, is_flag=True, help="Only ports that have counted a violation."),
    option("--changed-since", env=False, metavar="SNAPSHOT", help="Only ports that differ from this snapshot."),
)
_folding_options: Final[tuple[Callable[..., Any], ...]] = (
    option("--each", env=False, is_flag=True, help="One row for each port.  [default where no terminal is]"),
    option(
        "--fold", env=False, is_flag=True, help="One row for all ports with the same values.  [default on a terminal]"
    ),
)
folding: Final = group("folding", Folding, *_folding_options)
"""For commands with a row for each port."""
filters: Final = group("filters", Filters, *_filter_options)
"""For commands that look at a sweep, and may be asked to look at a part of it."""
filters_but_partition: Final = group("filters", Filters, *(each for each in _filter_options if each is not _partition))
"""For a command with a ``--partition`` of its own."""
listing: Final = group("listing", Listing, *_filter_options, *_folding_options)
"""For commands with a row for each port of a sweep."""
listing_as_is: Final = group("listing", Listing, *_filter_options[:-1], *_folding_options)
"""The same for commands that cannot choose by an earlier snapshot."""

inbound_check: Final = option(
    "--inbound-check",
    type=click.Choice(INBOUND_CHECKS),
    default=DEFAULT_INBOUND_CHECK,
    help="What switches are assumed to check on incoming packets.  [default: partition]",
)
"""Of commands that say who reaches whom: see `ibkeys.keys.pkey.InboundCheck`."""

changing: Final = group(
    "consent",
    Changing,
    option("--dry-run", env=False, is_flag=True, help="Show what would change, change nothing."),
    option("--yes", env=False, is_flag=True, help="Do not ask."),
    option("--force", env=False, is_flag=True, help="Override the interlock active-sm, and no other."),
    option("--override", env=False, multiple=True, metavar="NAME", help="Override an interlock; repeatable."),
)

sm_hosts: Final = group(
    "sm_hosts",
    SmHosts,
    option("--sm-host", multiple=True, metavar="HOST", help="Another host with an OpenSM, reached by ssh; repeatable."),
    option("--sudo", env=False, is_flag=True, help="Work on all other hosts through sudo -n."),
    option("--ssh-config", metavar="FILE", help="ssh_config to use instead of the user's own."),
    option("--sm-config", metavar="FILE", help="Hosts, files and units.  [default: /etc/ibkeys/sm.toml, if there]"),
)
"""For commands that look at subnet managers on other hosts."""

wait_for_sm: Final = option(
    "--wait",
    "sm_wait",
    type=Number(1, 86_400),
    default=60,
    metavar="S",
    help="Seconds without progress before OpenSM is signalled again, then before it is given up.  [default: 60]",
)
opensm: Final = group(
    "through",
    Through,
    option(
        "--via",
        env=False,
        type=Way(),
        default=None,
        metavar="direct|opensm|ufm:URL",
        help="direct: by Sets of ibkeys; opensm: by the policy file; ufm:URL: by UFM.  "
        "[default: direct, or as the run was started]",
    ),
    wait_for_sm,
)
"""For commands that may go through OpenSM or UFM."""

topology: Final = option(
    "--topology", metavar="SNAPSHOT", help="Snapshot whose links lead to nodes behind protected switches."
)
try_keys: Final = option(
    "--try-keys", env=False, multiple=True, metavar="FILE", help="File of keys to try, one per line; repeatable."
)
tries: Final = option(
    "--tries",
    type=Number(0, 1000),
    default=8,
    metavar="N",
    help="Maximum number of keys to try on one port.  [default: 8]",
)
wait: Final = option(
    "--wait", type=Number(1, 1_000_000), metavar="SECONDS", help="Give up on a silent port after this time."
)
