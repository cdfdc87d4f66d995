"""What a command that sets M_Keys over the fabric shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ibkeys.keys.mkey import MKey
from ibkeys.store.keystore.keystore import KeyStore
from tests.cli.conftest import Cli, Result

LEVEL_2 = ("--protect", 2, "--lease", 60)


def lines(result: Result) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return what ``-f json`` wrote: the lines of the ports, and the last line."""
    *ports, last = map(json.loads, result.out.splitlines())
    return ports, last


def shown(cli: Cli) -> set[tuple[str, int, int]]:
    """Return the combinations that the ports have of state of the key, level and lease."""
    ports = cli("mkey-show", "--all", "-f", "json").json["ports"]
    return {
        (port["m_key_state"], port["m_key_protect_bits"], port["m_key_lease_period"])
        for port in ports
        if port["node_type"] != "switch" or port["port"] == 0
    }


def keys_in(folder: Path) -> list[MKey]:
    """Return every key in the key store of the fixture `cli`, former ones too. *folder*: ``tmp_path``."""
    with KeyStore(folder / "fabric.keys", create=False) as store:
        return [row.m_key for row in store.rows()]
