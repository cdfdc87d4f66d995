"""The former names of commands: a renamed command only answers with its new name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

RENAMED: Final[Mapping[str, str]] = {
    "caps-show": "port-show --caps",
    "counters-show": "port-show --counters",
    "enforce-show": "port-show --enforcement",
    "ipoib-check": "compare --ipoib --policy FILE",
    "mkey-encrypt": "keystore encrypt",
    "mkey-export": "keystore export",
    "mkey-gen": "keystore generate",
    "mkey-import": "keystore import",
    "mkey-list": "keystore list",
    "names": "discover --names",
    "policy-add": "partition-add PARTITION --policy FILE",
    "policy-move": "partition-add TO --out-of FROM --policy FILE",
    "policy-remove": "partition-remove PARTITION WHO... --policy FILE",
}
"""The new command line, without ``ibkeys``, by the former name."""
