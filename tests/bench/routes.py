"""Run under ibsim-run: prints ``ROUTE PORT`` of every port that ``--all`` reads, as smpquery takes them."""

from __future__ import annotations

import ibkeys
from ibkeys.fabric.discovery import port_route


def main() -> None:
    with ibkeys.open() as fabric:
        for port in fabric.discover().ports():
            print(",".join(map(str, (0, *port_route(port).path))), port.num)


if __name__ == "__main__":
    main()
