"""The text of ``--backend sim:...``: the file, and the options for the subnet that is built from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar, get_args

from ibkeys.errors import UsageError
from ibkeys.keys.pkey import DEFAULT_INBOUND_CHECK, INBOUND_CHECKS, InboundCheck
from ibkeys.keys.smkey import SMKey
from ibkeys.sim.netfile.build import InitialState, PortGuids
from ibkeys.sim.subnet import Subnet
from ibkeys.store.paths import StorePaths, store_paths

SCHEME: Final = "sim"
_Word = TypeVar("_Word", bound=str)
_PORT_GUIDS: Final[tuple[PortGuids, ...]] = get_args(PortGuids)
_LINKS: Final[tuple[InitialState, ...]] = get_args(InitialState)
_TRUSTS: Final = ("plain", "enhanced")
_WILDCARDS: Final = ("accepted", "refused")
DEMO: Final = Path(__file__).parent.parent / "sim" / "data" / "demo.net"

_PERCENTAGES: Final = ("drop", "duplicate", "delay")
_OPTIONS: Final = (
    *("state", "port-guids", "seed", "links", "sm", "sa-key", "sa-trust", "sa-wildcards"),
    *_PERCENTAGES,
    "inbound-check",
)


class SubnetReader(Protocol):
    """A function that builds a subnet from a file; the arguments are those of `Subnet.from_file`."""

    def __call__(self, path: str | Path, port_guids: PortGuids, seed: int, links: InitialState | None, /) -> Subnet:
        """Return the subnet. Raises FileFormatError, StoreError."""


@dataclass(frozen=True, slots=True)
class SimSpec:
    """The parsed text of ``--backend sim:...``.

    ``path``: "" for the packaged demo fabric. ``drop``, ``duplicate`` and ``delay``: shares of the packets, 0 to 1.
    """

    path: str = ""
    state: Path | None = None
    port_guids: PortGuids = "file"
    seed: int = 0
    links: InitialState | None = None
    sm: str = ""
    sa_key: SMKey | None = None
    enhanced_trust: bool = False
    refuses_wildcards: bool = False
    drop: float = 0.0
    duplicate: float = 0.0
    delay: float = 0.0
    inbound_check: InboundCheck = DEFAULT_INBOUND_CHECK

    def load(self, read: SubnetReader = Subnet.from_file) -> Subnet:
        """Build the subnet, without its saved state.

        *read*: builds the subnet from the file, by default from a net file. Raises the errors of *read*, and
        AddressError if ``sm`` is no node.
        """
        subnet = read(self.path or DEMO, self.port_guids, self.seed, self.links)
        subnet.inbound_check = self.inbound_check
        if self.sm:
            subnet.set_sm(self.sm)
            sa = subnet.sa_of(self.sm)
            sa.enhanced_trust = self.enhanced_trust
            sa.subscriptions.refuses_wildcards = self.refuses_wildcards
            if self.sa_key is not None:
                sa.sa_key = self.sa_key.reveal()
        faults = subnet.faults
        faults.drop, faults.duplicate, faults.delay = self.drop, self.duplicate, self.delay
        return subnet


def stores_of(backend: str, keystore: str | None = None, journal: str | None = None) -> StorePaths:
    """Return the paths of the key store and the journal for a run on *backend*, without opening any.

    *keystore* and *journal*: the paths that the user chose; None or "": the default. Raises the errors of `parse_spec`.
    """
    simulated = backend != "umad"
    state = parse_spec(backend).state if simulated else None
    return store_paths(keystore, journal, simulated=simulated, state=state)


def parse_spec(text: str) -> SimSpec:
    """Parse ``sim:FILE[,option=value]...``; the options are state=PATH, port-guids=file|ibsim, seed=N,
    links=active|initialize, sm=NODE, sa-key=KEY, sa-trust=plain|enhanced,
    sa-wildcards=accepted|refused, drop=PCT, duplicate=PCT, delay=PCT, inbound-check=partition|membership.

    ``sim:`` alone is the packaged demo fabric. File names with commas cannot be written here.
    Raises UsageError; EncodeError for an sa-key that is not a number.
    """
    path, values = _split(text)
    if "sm" not in values and values.keys() & {"sa-key", "sa-trust", "sa-wildcards"}:
        raise UsageError("sa-key=, sa-trust= and sa-wildcards= are for the SA of the subnet manager that sm= names")
    return SimSpec(
        path=path,
        state=Path(values["state"]) if "state" in values else None,
        port_guids=_choice(values, "port-guids", _PORT_GUIDS),
        seed=_seed(values.get("seed", "0")),
        links=_choice(values, "links", _LINKS) if "links" in values else None,
        sm=values.get("sm", ""),
        sa_key=SMKey.parse(values["sa-key"]) if "sa-key" in values else None,
        enhanced_trust=_choice(values, "sa-trust", _TRUSTS) == "enhanced",
        refuses_wildcards=_choice(values, "sa-wildcards", _WILDCARDS) == "refused",
        inbound_check=_choice(values, "inbound-check", INBOUND_CHECKS, DEFAULT_INBOUND_CHECK),
        **{name: _percentage(name, values[name]) for name in _PERCENTAGES if name in values},
    )


def _split(text: str) -> tuple[str, dict[str, str]]:
    """Return the file and the options. Raises UsageError for another backend, and for an option that is unknown, empty
    or given twice."""
    scheme, _, rest = text.partition(":")
    if scheme != SCHEME:
        raise UsageError(f"backend {text!r} is not known: use umad, or sim:FILE for a simulated subnet")
    path, *options = rest.split(",")
    values: dict[str, str] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if name not in _OPTIONS or not equals:
            known = ", ".join(f"{name}=" for name in _OPTIONS)
            hint = " (file names with commas cannot be used)" if not equals else ""
            raise UsageError(f"unknown option {option!r} of the simulated backend{hint}; choose from {known}")
        if name in values or not value:
            raise UsageError(f"option {name}= of the simulated backend is {'given twice' if value else 'empty'}")
        values[name] = value
    return path, values


def _choice(values: Mapping[str, str], name: str, choices: Sequence[_Word], default: _Word | None = None) -> _Word:
    """Return the value of an option that takes one of the words *choices*; by default *default*, or else the first
    word."""
    text = values.get(name, default or choices[0])
    for word in choices:
        if word == text:
            return word
    raise UsageError(f"{name}={text}: it must be {' or '.join(choices)}")


def _seed(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 20:
        raise UsageError(f"seed={text[:40]} is not a decimal number")
    return int(text)


def _percentage(name: str, text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise UsageError(f"{name}={text} is not a percentage from 0 to 100")
    return value / 100
