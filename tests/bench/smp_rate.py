"""Run under ibsim-run: COUNT Gets of NodeInfo through scheduler, client and C engine, on the routes given.

``smp_rate COUNT HOPS...``, the routes as bare_loop takes them. Prints the seconds. Four tasks for each route take
turns, as those of a sweep do: each yields a request and goes on with the reply.
"""

from __future__ import annotations

import sys
import time

from ibkeys.client.request import Envelope
from ibkeys.client.smp import SmpClient, Task
from ibkeys.keys.mkey import NO_MKEY
from ibkeys.mad.attributes import NodeInfo
from ibkeys.umad.libibumad import open_port

TASKS = 4


def ask(gets: Envelope, count: int) -> Task:
    for _ in range(count):
        yield gets.ask(NodeInfo)


def main() -> None:
    count = int(sys.argv[1])
    paths = [tuple(map(int, hops.split(","))) for hops in sys.argv[2:]]
    share = -(-count // (len(paths) * TASKS))
    with open_port() as port:
        client = SmpClient(port)
        start = time.perf_counter()
        agents = [client.gets_to(path, None, NO_MKEY) for path in paths]
        client.run(ask(gets, share) for gets in agents for _ in range(TASKS))
        seconds = time.perf_counter() - start
    print(seconds * count / client.statistics.replies)


if __name__ == "__main__":
    main()
