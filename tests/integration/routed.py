"""Fabrics that the real OpenSM has routed, by each of its routing engines and with each LMC."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple

from tests.corpus import DATA
from tests.fattree import fat_tree
from tests.integration.hosted import Hosted

Engine = Literal["minhop", "updn", "ftree", "dfsssp"]
FabricName = Literal["fat-tree", "ring-router"]
LMCS: Final = (0, 1, 2, 3)
ENGINES: Final[dict[FabricName, tuple[Engine, ...]]] = {
    "fat-tree": ("minhop", "updn", "ftree", "dfsssp"),
    "ring-router": ("minhop", "updn", "dfsssp"),
}
"""The engines that route each fabric: ftree takes none but fat trees."""
_ROOT: Final = "0x506b4b0300600000\n"
"""The switch that is the root of the ring for updn, which finds none by itself there."""
_NET_FILES: Final[dict[FabricName, str]] = {
    "fat-tree": fat_tree(3, 3, 2, pods=2, cores=2).replace('1" base port 0', '1" enhanced port 0'),
    "ring-router": (DATA / "fabrics" / "ring-router.net").read_text(),
}
_CONFIGURED: Final = re.compile(r"osm_ucast_mgr_process: (\w+) tables configured on all switches")


class Routed(NamedTuple):
    """A fabric with the routes of an OpenSM, which has ended.

    ``served``: the server, for programs; ``served.net`` is the subnet, which a test may read and change when the block
    of `routed` has ended. ``engine``: the one that made the routes, see `engine_in_force`.
    """

    served: Hosted
    engine: str


def engine_in_force(engine: Engine, lmc: int) -> Engine:
    """Return the engine that makes the routes when OpenSM 3.3.23 is told to use *engine*: ftree does not support an LMC
    above 0, and OpenSM falls back to minhop."""
    return "minhop" if engine == "ftree" and lmc else engine


@contextmanager
def routed(fabric: FabricName, engine: Engine, lmc: int) -> Iterator[Routed]:
    """Serve *fabric* with the routes that OpenSM makes when it is told to use *engine*. *lmc*: of all ports that can
    have one, which are those of CAs and routers, and the enhanced ports 0 of switches."""
    with tempfile.TemporaryDirectory() as folder:
        netfile = Path(folder) / f"{fabric}.net"
        netfile.write_text(_NET_FILES[fabric])
        with Hosted(netfile) as served:
            words = ["-R", engine, "-l", str(lmc)]
            if (fabric, engine) == ("ring-router", "updn"):
                (served.folder / "root").write_text(_ROOT)
                words += ["-a", str(served.folder / "root")]
            log = served.opensm("lmc_esp0 TRUE\n", extra=words)
            yield Routed(served, _CONFIGURED.findall(log)[-1])
