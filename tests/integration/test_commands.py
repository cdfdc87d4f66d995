"""Every command on ibsim and on the simulated subnet of the same net file: same output, but for what ibsim lacks."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from docs.made.documents import declared
from tests import corpus
from tests.integration.ibsim import SIM_HOSTS, Ibsim, ibkeys

# What ibsim does not model, and nothing else. Vendor and device ids belong here too, but no command prints them.
NOT_MODELLED = {
    "mkey-show": {"m_key_state", "m_key", "m_key_protect_bits", "m_key_lease_period", "m_key_violations"},
    "port-show": {
        *("inbound_enforcement_cap", "outbound_enforcement_cap"),
        *("partition_enforcement_inbound", "partition_enforcement_outbound"),
    },
}
# Their titles in tables.
NOT_MODELLED_TITLES = (
    "M_Key",
    "ProtectBits",
    "LeasePeriod",
    "Violations",
    "InboundEnforcementCap",
    "OutboundEnforcementCap",
)

SAMPLE = ("dual-home", "two-switch")
SHOWING = ("pkey-show", "mkey-show", "port-show")


def fabrics() -> dict[str, Path]:
    """Return the net files of all corpora by name."""
    return {file.stem: file for file in reversed(corpus.files("fabrics/*.net"))}


@dataclass(frozen=True)
class Place:
    """A net file, and whether OpenSM has configured the fabric."""

    file: Path
    with_sm: bool

    @property
    def name(self) -> str:
        return self.file.stem

    @property
    def is_first(self) -> bool:
        """Whether this is the one where `make test` runs everything."""
        return self.name == SAMPLE[0] and self.with_sm

    def __str__(self) -> str:
        return f"{self.name}-{'sm' if self.with_sm else 'no-sm'}"


@dataclass
class Pair:
    """One fabric twice: on ibsim, and simulated. ``names`` has the words that stand for ports in command lines."""

    fabric: Ibsim
    backend: str
    names: dict[str, str]

    def run(self, line: str) -> tuple[subprocess.CompletedProcess[str], subprocess.CompletedProcess[str]]:
        """Run a command line on both; ``{ca}`` and the like are `names`."""
        words = [word.format_map(self.names) for word in line.split()]
        with ThreadPoolExecutor(2) as pool:
            real = pool.submit(self.fabric.ibkeys, *words)
            simulated = pool.submit(ibkeys, *words, "--backend", self.backend, "--at", self.fabric.sim_host or "")
            return real.result(), simulated.result()

    def same(self, line: str) -> tuple[int, str]:
        """Run a command line on both, compare, and return exit code and standard output."""
        real, simulated = self.run(line)
        assert (real.returncode, real.stderr) == (simulated.returncode, simulated.stderr)
        command = line.split()[0]
        assert comparable(command, real.stdout) == comparable(command, simulated.stdout)
        return real.returncode, real.stdout


def comparable(command: str, text: str) -> Any:
    """Return output without what ibsim does not model, in whatever format it is."""
    left_out = NOT_MODELLED.get(command, set())
    if text.startswith("{"):
        document = json.loads(text)
        assert document["schema"] == next(each.schema for each in declared() if each.name == command)
        for port in document.get("ports", ()):
            assert left_out <= port.keys() or "changes" in port
            for key in left_out:
                port.pop(key, None)
        return document
    if text.startswith("node_guid,"):
        return [{key: row[key] for key in row if key not in left_out} for row in csv.DictReader(io.StringIO(text))]
    if not left_out:
        return text
    return [line for line in text.splitlines() if not line.strip().startswith(NOT_MODELLED_TITLES)]


def words_of(document: dict[str, Any]) -> dict[str, str]:
    """Return words for ports of a fabric, from what discover prints: a CA and a switch by all kinds of address."""
    nodes = {node["node_guid"]: node for node in document["nodes"]}
    own = document["nodes"][0]
    routes = {own["node_guid"]: "0"}
    waiting = deque([own])
    while waiting:
        node = waiting.popleft()
        if node is not own and node["node_type"] != "switch":
            continue
        for port in node["ports"]:
            peer = port["peer"]
            if (
                peer
                and peer["node_guid"] not in routes
                and (node["node_type"] == "switch" or port["port"] == own["port"])
            ):
                routes[peer["node_guid"]] = f"{routes[node['node_guid']]},{port['port']}"
                waiting.append(nodes[peer["node_guid"]])
    switch = next(
        node for node in document["nodes"] if node["node_type"] == "switch" and routes[node["node_guid"]] != "0"
    )
    ca = [node for node in document["nodes"] if node["node_type"] == "ca" and node is not own][-1]
    descriptions = [node["node_desc"] for node in document["nodes"]]
    named = next(node["node_desc"] for node in document["nodes"] if descriptions.count(node["node_desc"]) == 1)
    linked = next(port["port"] for port in switch["ports"] if port["port"] and port["peer"])
    dead = next((port["port"] for port in switch["ports"] if port["port"] and port["phys_state"] != 5), None)
    return {
        "own_lid": str(own["lid"]),
        "ca_lid": str(ca["lid"]),
        "ca_guid": ca["port_guid"],
        "ca_node": ca["node_guid"],
        "ca_route": routes[ca["node_guid"]],
        "ca_ports": str(ca["num_ports"]),
        "switch_lid": str(switch["lid"]),
        "switch_guid": switch["node_guid"],
        "switch_route": routes[switch["node_guid"]],
        "switch_ports": str(switch["num_ports"]),
        "linked": str(linked),
        "dead": str(dead or 200),
        "idle": str(dead or switch["num_ports"]),
        "name": named,
        "past": str(switch["num_ports"] + 1),
        "far": ",".join(["0", *["1"] * 64]),
        "farther": ",".join(["0", *["1"] * 300]),
    }


def without_router_lids(text: str) -> str:
    """Return a net file without the LIDs of its routers: ibsim reads those of CAs and switches only."""
    lines, in_router = [], False
    for line in text.splitlines(keepends=True):
        in_router = line.startswith("Rt") or (in_router and line.startswith("["))
        lines.append(re.sub(r"# lid \d+", "# lid 0", line) if in_router else line)
    return "".join(lines)


@contextmanager
def open_pair(place: Place, state: Path | None = None) -> Iterator[Pair]:
    """Start a fabric on ibsim, and let OpenSM configure it and leave where *place* says so."""
    with ExitStack() as stack:
        file = place.file
        if not place.with_sm:
            file = Path(stack.enter_context(TemporaryDirectory())) / file.name
            file.write_text(without_router_lids(place.file.read_text()))
        fabric = stack.enter_context(Ibsim(file))
        if place.with_sm:
            fabric.opensm()
        backend = f"sim:{file},port-guids=ibsim" + ("" if place.with_sm else ",links=initialize")
        if state is not None:
            backend += f",state={state}"
        done = fabric.ibkeys("discover", "-f", "json")
        assert done.returncode == 0, done.stderr
        yield Pair(fabric, backend, words_of(json.loads(done.stdout)))


@pytest.fixture(scope="module")
def pair_at() -> Iterator[Callable[[Place], Pair]]:
    """Return fabrics that nobody writes to; the last one asked for stays open."""
    with ExitStack() as stack:
        kept: dict[Place, Pair] = {}

        def get(place: Place) -> Pair:
            if place not in kept:
                stack.close()
                kept.clear()
                kept[place] = stack.enter_context(open_pair(place))
            return kept[place]

        yield get


PLACES = [Place(file, with_sm) for _, file in sorted(fabrics().items()) for with_sm in (True, False)]


def everywhere(lines: Iterable[str], brief: Collection[str] = (), first: Collection[str] | None = None) -> list[Any]:
    """Return (place, line): the lines *first* on the first fabric, by default all, and *brief* on the sample; the rest
    is soak.

    Where no SM was, only the sample gets more than *brief*.
    """
    return [
        pytest.param(
            place,
            line,
            id=f"{place}-{line}",
            marks=()
            if (place.is_first and (first is None or line in first)) or (place.name in SAMPLE and line in brief)
            else pytest.mark.soak,
        )
        for place in PLACES
        for line in lines
        if place.with_sm or place.name in SAMPLE or line in brief
    ]


def test_every_real_fabric_is_here() -> None:
    """A corpus has the real clusters, so that the soak cannot pass for lack of files."""
    if os.environ.get("IBKEYS_CORPUS"):
        real = {"psmn-x5-2020", "rocket-2014", "dgx-pod-2025", "lab-loopback-2016", "isr9024-2007"}
        assert real <= fabrics().keys()
    assert {"dual-home", "two-switch"} <= fabrics().keys()
    assert {file.name for file in fabrics().values()} <= SIM_HOSTS.keys()


ADDRESSES = (
    "",
    "{ca_lid}",
    "-L {switch_lid} {linked}",
    "-D {ca_route}",
    "-D {switch_route}",
    "-D {switch_route} {linked}",
    "-D {switch_route} {idle}",
    "-G {ca_guid}",
    "-G {switch_guid} {linked}",
    "-N {name}",
    "--all",
)
SHOWN = [f"{command} {address} -f json" for command in SHOWING for address in ADDRESSES]
BRIEF = ["pkey-show --all -f json", "pkey-show -D {switch_route} {linked} -f json", "port-show --all -f json"]
FIRST = [*(f"{command} --all -f json" for command in SHOWING), *SHOWN[:: len(ADDRESSES) + 1], *SHOWN[: len(ADDRESSES)]]
"""Each command at all ports, each address, and each command at an address of its own."""


@pytest.mark.parametrize(("place", "line"), everywhere(SHOWN, BRIEF, FIRST))
def test_showing(pair_at: Callable[[Place], Pair], place: Place, line: str) -> None:
    code, text = pair_at(place).same(line)
    if not place.with_sm and "lid}" in line:
        assert code in (2, 3)  # nobody has given out LIDs and routes
    else:
        assert code == 0
        assert json.loads(text)["errors"] == []


@pytest.mark.parametrize(("place", "line"), everywhere(["discover -f json"], ["discover -f json"]))
def test_discover(pair_at: Callable[[Place], Pair], place: Place, line: str) -> None:
    code, text = pair_at(place).same(line)
    document = json.loads(text)
    assert (code, document["errors"]) == (0, [])
    states = {port["state"] for node in document["nodes"] for port in node["ports"] if port["peer"]}
    assert states == {4 if place.with_sm else 2}


@pytest.mark.parametrize(
    ("place", "line"),
    everywhere(
        f"{line} -f {format}"
        for format in ("table", "csv")
        for line in (
            "pkey-show --all",
            "pkey-show -D {switch_route} {linked}",
            "mkey-show -D {ca_route}",
            "port-show --caps -D {switch_route}",
            "port-show --counters --all",
            "port-show --enforcement --all",
            "discover",
        )
    ),
)
def test_other_formats(pair_at: Callable[[Place], Pair], place: Place, line: str) -> None:
    code, text = pair_at(place).same(line)
    assert code == 0
    assert text.count("\n") >= 2


@pytest.mark.parametrize(("place", "line"), everywhere(["mkey-show --all -f csv", "port-show --all -f csv"]))
def test_csv_of_what_ibsim_models_in_part(pair_at: Callable[[Place], Pair], place: Place, line: str) -> None:
    code, text = pair_at(place).same(line)
    assert code == 0
    assert NOT_MODELLED[line.split()[0]] <= set(text.splitlines()[0].split(","))


BAD = [
    (2, "pkey-show 0"),
    (2, "pkey-show 0xffff"),
    (2, "pkey-show 0xc000"),
    (3, "pkey-show 48000"),
    (2, "pkey-show 010"),
    (2, "pkey-show -D 1,2"),
    (2, "pkey-show -D {far}"),
    (2, "mkey-show -D {farther}"),
    (3, "pkey-show -D {switch_route},{dead}"),
    (3, "port-show --counters -D {switch_route},{dead},1"),
    (2, "port-show --enforcement -D {switch_route} {past}"),
    (2, "pkey-show -D 0 255"),
    (2, "pkey-show -D 0 256"),
    (3, "pkey-show -G 0x1"),
    (2, "pkey-show -G 0"),
    (3, "port-show --caps -N nobody-has-this-name"),
    (2, "pkey-show -L -D 0,1"),
    (2, "pkey-show --all 1"),
    (2, "pkey-show 1 2 3"),
    (2, "pkey-add -D 0 0x10000"),
    (2, "pkey-add -D 0 8010"),
    (2, "pkey-add -D 0 0x8000"),
    (2, "pkey-set -D 0 64=0x8001"),
    (2, "pkey-set -D {switch_route} 8=0x8001"),
    (2, "pkey-set -D {switch_route} {linked} 64=0x8001"),
    (2, "pkey-set -D 0 010=0x8001"),
    (2, "pkey-set -D 0 3=0x8001 3=0x8002"),
    (2, "mkey-set -D {switch_route} {linked} --protect 1"),
    (2, "mkey-set -D 0 --protect 4"),
    (2, "mkey-set -D 0"),
    (2, "mkey-show -y 0x10000000000000000"),
    (2, "enforce-set -D 0 1 --inbound on"),
    (2, "enforce-set -D {switch_route} 0 --inbound on"),
    (2, "enforce-set -D {switch_route} {linked}"),
    (2, "enforce-set -D {switch_route} {linked} --inbound on --override everything"),
    (4, "pkey-add -D 0 0x8123"),
    (1, "pkey-add -D 0 0x8123 --dry-run"),
]


BAD_CODES = {line: code for code, line in BAD}


WRITTEN_WRONG = [line for code, line in BAD if code == 2 and "{" not in line]
"""These are refused before the fabric is looked at, by code that knows nothing of it."""
REFUSED = [line for line in BAD_CODES if line not in WRITTEN_WRONG[1:-1]]


def on_the_sample(lines: Iterable[str], first: Collection[str]) -> list[Any]:
    """As `everywhere`, on the fabrics of the sample: what is refused there is refused on any other."""
    return [parameter for parameter in everywhere(lines, first=first) if parameter.values[0].name in SAMPLE]


@pytest.mark.parametrize(("place", "line"), on_the_sample(BAD_CODES, REFUSED))
def test_refused(pair_at: Callable[[Place], Pair], place: Place, line: str) -> None:
    """Nothing here writes; the message is the same on both."""
    code, _ = pair_at(place).same(line)
    assert code == BAD_CODES[line]


WRITES = [
    (0, "pkey-set -D {switch_route} {linked} 5=0x8010 40=0x11:limited --yes -f json"),
    (0, "pkey-show -D {switch_route} {linked} -f json"),
    (0, "pkey-set -D {switch_route} 7=0x8010 --yes"),
    (0, "pkey-add {ca_lid} 0x8001 0x2:limited --yes -f csv"),
    (0, "pkey-add {ca_lid} 0x8001 --yes"),
    (0, "pkey-add -G {ca_guid} 0x8003 --yes"),
    (0, "pkey-show -G {ca_guid} -f json"),
    (0, "pkey-remove {ca_lid} 0x8001 --yes"),
    (0, "pkey-remove {ca_lid} 0x8001 --yes"),
    (0, "pkey-set {ca_lid} 63=0x8063 --yes"),
    (4, "pkey-set {ca_lid} 0= --yes"),
    (4, "pkey-set {ca_lid} 0=0x8077 --yes --force"),
    (4, "pkey-remove {ca_lid} 0xffff --yes --override index-0"),
    (0, "pkey-remove {ca_lid} 0xffff --yes --override index-0 --override default-pkey"),
    (4, "pkey-set {ca_lid} 63= 0=0x8063 --yes"),
    (4, "pkey-set {ca_lid} 63= 0=0x8063 --yes --dry-run"),
    (0, "pkey-set {ca_lid} 63= 0=0x8063 --yes --override index-move"),
    (0, "pkey-set 1=0x8001 2=0x8002 --yes"),
    (0, "counters-clear --all --yes"),
    (0, "enforce-set -D {switch_route} {linked} --inbound off --outbound off --yes"),
    (0, "mkey-set -D {ca_route} --protect 0 --yes"),
    (0, "pkey-show --all -f json"),
    (0, "pkey-show {ca_lid}"),
]


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(place, id=str(place), marks=() if place.name == SAMPLE[0] else pytest.mark.soak)
        for place in PLACES
        if place.with_sm
    ],
)
def test_writing(place: Place, tmp_path: Path) -> None:
    with open_pair(place, tmp_path / "state") as pair:
        for code, line in WRITES:
            assert (pair.same(line)[0], line) == (code, line)


def test_order_does_not_depend_on_who_answers_first() -> None:
    """Replies that come late come in another order; the tables stand in the same one."""
    spec = f"sim:{corpus.DATA / 'fabrics' / 'dual-home.net'}"
    calm = ibkeys("pkey-show", "--all", "-f", "json", "--backend", spec)
    for seed in range(3):
        stormy = ibkeys("pkey-show", "--all", "-f", "json", "--backend", f"{spec},delay=60,seed={seed}", "-t", 5000)
        assert (stormy.returncode, stormy.stdout) == (0, calm.stdout)
