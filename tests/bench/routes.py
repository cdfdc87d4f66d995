"""Run under ibsim-run: prints ``ROUTE PORT`` of every port that ``--all`` reads, as smpquery takes them."""

from __future__ import annotations

import ibkeys


def main() -> None:
    with ibkeys.open() as fabric:
        for port in fabric.sweep().ports():
            path = port.node.path if port.path is None else port.path
            print(",".join(map(str, (0, *path))), port.num)


if __name__ == "__main__":
    main()
