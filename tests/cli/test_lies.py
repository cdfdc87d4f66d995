"""Every command that sends keys, beside a node with false GUIDs: the liar is sent none of the victim's keys, neither
the one it has nor the new one it is given, by this command or by the next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ibkeys import opening
from ibkeys.sim.nodes import SimPort
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.umad.simulated import port_on
from tests.cli.conftest import Result, run
from tests.discovery.routes import route_to, sides
from tests.fabricsim import subnet
from tests.lies import LIES, Lie, tell
from tests.protectedsim import keep_counters, listen, protect_all, provoked, store_of
from tests.sample import SOAK, one_in

POLICY = "Default=0x7fff, ipoib : ALL=full;\nextra=0x0010 : ALL=full;\n"

#            words of a command; {liar...} and {victim...} stand for an address of each
READING = [
    "discover",
    "pkey-show --all",
    "mkey-show --all",
    "port-show --caps --all",
    "port-show --enforcement --all",
    "port-show --counters --all",
    "snapshot {folder}/now.db",
    "audit",
    "matrix",
    "pkey-show {liar_lid}",
    "pkey-show {victim_lid}",
    "pkey-show -D {liar_route}",
    "pkey-show -G {victim_guid}",
    "pkey-show -N {liar_name}",
    "mkey-show -D {liar_route}",
    "mkey-show -G {victim_guid}",
]
CHANGING = [
    "pkey-add -L {liar_lid} 0x8010 --yes --force",
    "pkey-add -G {victim_guid} 0x8010 --yes --force",
    "mkey-set -L {liar_lid} --new-m-key @{folder}/new --yes --override mkey-under-sm",
    "mkey-set -D {liar_route} --new-m-key @{folder}/new --yes --override mkey-under-sm",
    "mkey-set -G {victim_guid} --new-m-key @{folder}/new --yes --override mkey-under-sm",
    "mkey-rotate --per-port --yes --override mkey-under-sm",
    "mkey-deploy --per-port --yes --protect 2 --lease 60 --override mkey-under-sm",
    "counters-clear --all --yes --force",
]
COMMANDS = READING + CHANGING


def is_sampled(command: int, lie: int) -> bool:
    """Whether a command beside a lie, both by number, is of the row of which `make test` runs one in two: each of both
    is in that row at least once."""
    return command == lie % len(COMMANDS) or lie == command % (2 * len(LIES))


CASES = [
    pytest.param(command, lie, sa, id=f"{command.split()[0]}-{number}-{lie}-{'sa' if sa else 'counters'}")
    for number, command in enumerate(COMMANDS)
    for place, lie in enumerate(LIES)
    for sa in (False, True)
    if SOAK or is_sampled(number, place * 2 + sa)
]


class Site:
    """A protected fabric with a liar, the files of a tool, and its command line."""

    def __init__(self, lie: Lie, sa: bool, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.net = net = subnet("ring-router")
        self.folder = folder
        if sa:
            net.set_sm("ibrouter01")
        self.liar, self.victim = sides(net, lie)
        ring = protect_all(net)
        keep_counters(net, ring)
        self.wire = listen(net)
        tell(lie, net, self.liar, self.victim, ring, patch)
        store_of(net, ring, folder / "keys.db")
        (folder / "new").touch(0o600)
        (folder / "new").write_text("0x5d1c27b90e6a4f38\n")
        (folder / "partitions.conf").write_text(POLICY)
        patch.setattr(opening, "open_port", lambda _backend, local: port_on(net, local.ca, local.port, local.at))

    def run(self, command: str) -> Result:
        words = [word.format(**self.words()) for word in command.split()]
        if "--per-port" in words and "--per-port" not in run(words[0], "--help").out:
            words.remove("--per-port")
        files = ["--keystore", self.folder / "keys.db"]
        if not {"discover", "snapshot", "audit", "matrix"} & set(words[:1]) and not words[0].endswith("-show"):
            files += ["--journal", self.folder / "journal.db"]
        return run(*words, *files, "--backend", "sim:", "-t", 100)

    def words(self) -> dict[str, object]:
        def route(port: SimPort) -> str:
            return ",".join(map(str, (0, *route_to(self.net, port))))

        return {
            "folder": self.folder,
            "liar_lid": self.liar.lid,
            "liar_route": route(self.liar),
            "liar_name": self.liar.node.node_id if " " in self.liar.node.description else self.liar.node.description,
            "victim_lid": self.victim.lid,
            "victim_guid": f"0x{self.victim.guid:016x}",
        }

    def strays(self) -> list[str]:
        with KeyStore(self.folder / "keys.db", create=False) as store:
            self.wire.know(store.all_keys())
        return self.wire.strays()


Make = Callable[[Lie, bool], Site]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    return lambda lie, sa: Site(lie, sa, tmp_path, monkeypatch)


@pytest.mark.parametrize(("command", "lie", "sa"), one_in(2, CASES))
def test_no_key_goes_to_a_liar(command: str, lie: Lie, sa: bool, site: Make) -> None:
    here = site(lie, sa)
    result = here.run(command)
    assert result.code in (0, 1, 2, 3, 4), result.err
    assert "internal error" not in result.err
    assert "o such option" not in result.err
    assert "usage" not in result.err.lower()
    assert here.strays() == []
    here.run("mkey-show --all")
    assert here.strays() == []
    assert provoked(here.net, here.liar.node if lie.liar == "switch" else None) == []


@pytest.mark.parametrize("sa", [False, True])
@pytest.mark.parametrize("lie", one_in(3, [lie for lie in LIES if lie.online]), ids=str)
def test_the_owner_is_rotated_beside_a_liar(lie: Lie, sa: bool, site: Make) -> None:
    here = site(lie, sa)
    before = here.victim.m_key
    rotated = here.run("mkey-rotate --per-port --yes --override mkey-under-sm")
    assert here.victim.m_key not in (0, before), rotated.err
    assert here.strays() == []
    found = here.run("pkey-show -G {victim_guid}")
    assert found.code in (0, 3), found.err
    assert here.strays() == []


def test_plan_and_apply_beside_a_liar(site: Make, tmp_path: Path) -> None:
    lie = next(each for each in LIES if str(each) == "port-host-as-host-known-online")
    here = site(lie, False)
    here.run("plan --policy {folder}/partitions.conf --out {folder}/change.json")
    here.run("apply {folder}/change.json --yes --force")
    assert here.strays() == []
