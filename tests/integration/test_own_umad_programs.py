"""The table of docs/programs.md: each program of infiniband-diags and opensm on our libibumad, as the table says."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.corpus import DATA
from tests.examples.pages import DOCS
from tests.integration.brought_up import running_opensm
from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.opensms import attached
from tests.integration.own_umad import OwnUmad
from tests.sample import sampled

TWO_SWITCH = DATA / "fabrics" / "two-switch.net"
PACKAGES: Final = ("infiniband-diags", "opensm")
SHOWN: Final = {
    "check_lft_balance": r"Switch Port Usage: .*switch-a.*\nPort 007: 2",
    "dump_fts": r"0x0001 001 : \(Channel Adapter portguid 0x0002c903000a1011: 'node01 mlx4_0'\)",
    "dump_lfts": r"0x0001 001 : \(Channel Adapter portguid 0x0002c903000a1011: 'node01 mlx4_0'\)",
    "dump_mfts": r"Multicast mlids \[0xc000-0xc3ff\] of switch .* guid 0x0002c90200401000",
    "ibaddr": r"GID fe80::2:c903:a:1011 LID start 0x1 end 0x1\n",
    "ibcacheedit": r"caguid=0x5\nCa\s+1 \"H-0000000000000005\"\s+# \"node01 mlx4_0\"",
    "ibccconfig": r"_do_madrpc failed; dport \(Lid [17]\)",
    "ibccquery": r"_do_madrpc failed; dport \(Lid [17]\)",
    "ibfindnodesusing": r"node04 mlx4_0.*node06 mlx4_0",
    "ibhosts": r"(Ca\s+: .*\n){6}",
    "ibidsverify": r"^$",
    "iblinkinfo": r"0x0002c90200401000 .*switch-a.* ==\( 4X +10.0 Gbps Active/ +LinkUp\)==>.*node01",
    "ibnetdiscover": r"SW +7 +1 0x0002c90200401000 4x QDR - CA +1 +1 0x0002c903000a1011",
    "ibnodes": r"(Ca\s+: .*\n){6}(Switch\s+: .*\n){2}",
    "ibping": r"1 packets transmitted, 1 received, 0% packet loss",
    "ibportstate": r"PhysLinkState:\.+Disabled(.*\n)*After PortInfo set:\n.*\n.*\nPhysLinkState:\.+LinkUp",
    "ibqueryerrors": r"Summary: 8 nodes checked, 0 bad nodes found",
    "ibroute": r"0x0001 001 : \(Channel Adapter portguid 0x0002c903000a1011: 'node01 mlx4_0'\)",
    "ibrouters": r"^$",
    "ibstat": r"State: Active\n(.*\n)*\s+Port GUID: 0x0002c903000a1031",
    "ibstatus": r"No devices",
    "ibswitches": r"(Switch\s+: .*\n){2}",
    "ibsysstat": r"sysstat ping succeeded",
    "ibtracert": r"To ca \{0x0002c903000a1060\} portnum 1 lid 6-6 \"node06 mlx4_0\"",
    "opensm": r"Using default GUID 0x2c903000a1031\n(.*\n)*.*SUBNET UP",
    "osmtest": r"TEST \"Create Inventory\" PASS(.*\n)*.*TEST \"Validate Inventory\" PASS",
    "perfquery": r"Lid 1 port 1(.*\n)*PortXmitPkts:\.+0\n",
    "saquery": r"(PathRecord dump:\n(\s+.*\n)+){64}",
    "sminfo": r"sm guid 0x2c903000a1011, .* SMINFO_MASTER",
    "smpdump": r"0101 0208 0002 c902 0040 1000",
    "smpquery": r"Guid:\.+0x0002c903000a1010\nPortGuid:\.+0x0002c903000a1011\n",
    "vendstat": r"_do_madrpc failed; dport \(Lid [17]\)",
}
"""Program → what it prints on the fabric, where it works and where it does not."""
SAMPLE: Final = ("ibccquery", "ibhosts", "ibping", "ibportstate", "ibstat", "opensm", "saquery", "smpquery")


@dataclass(frozen=True)
class Row:
    """A row of the table. *server*: the command that runs on node01 meanwhile."""

    program: str
    command: str
    works: bool
    server: str | None
    is_alone: bool
    """Whether it has a fabric of its own, without an OpenSM on node01."""


def rows() -> dict[str, Row]:
    found = {}
    for line in (DOCS / "programs.md").read_text().splitlines():
        cells = re.fullmatch(r"\| `(\w+)` \| `(.+?)`(.*?) \| (.*) \|", line)
        if cells is None:
            continue
        program, command, beside, result = cells.groups()
        server = re.search("with `(.*)` on node01", beside)
        is_alone = "on a fabric of its own" in beside
        found[program] = Row(program, command, result == "works", server and server[1], is_alone)
    return found


def installed() -> set[str]:
    """Return the programs that the packages bring."""
    listed = subprocess.run(["dpkg", "-L", *PACKAGES], capture_output=True, text=True, check=True, timeout=RUN_TIMEOUT)
    return {path.name for path in map(Path, listed.stdout.splitlines()) if path.parent.name in ("bin", "sbin")}


def test_the_table_has_all_programs_of_the_packages_and_no_other() -> None:
    assert set(rows()) == set(SHOWN) == installed()


@pytest.fixture(scope="module")
def up() -> Iterator[OwnUmad]:
    """The fabric with OpenSM on node01."""
    with OwnUmad(TWO_SWITCH) as fabric, running_opensm(fabric, "sweep_interval 0\n"):
        yield fabric
        assert fabric.counts().get("internal errors", 0) == 0


@pytest.mark.parametrize("program", sampled(SHOWN, SAMPLE))
def test_a_program_does_what_the_table_says(program: str, request: pytest.FixtureRequest, stack: ExitStack) -> None:
    row = rows()[program]
    served: OwnUmad = stack.enter_context(OwnUmad(TWO_SWITCH)) if row.is_alone else request.getfixturevalue("up")
    if row.server is not None:
        attached(served, stack, program, shlex.split(row.server), {})
    folder = served.folder / f"row-{program}"
    folder.mkdir()
    command = ["/bin/sh", "-c", f"PATH=$PATH:/usr/sbin; {row.command}"]
    environment = {"IBKEYS_SIM_HOST": "node03", "HOME": str(folder), "OSM_CACHE_DIR": str(folder)}

    def run() -> subprocess.CompletedProcess[str]:
        return served.run(command, env=environment, cwd=folder)

    if row.server is not None:
        served.wait_until(lambda: re.search(SHOWN[program], run().stdout) is not None)  # it listens now
    done = run()
    printed = done.stdout + done.stderr
    assert (done.returncode == 0) == row.works, printed
    assert re.search(SHOWN[program], printed), printed
