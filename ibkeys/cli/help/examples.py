"""An example of each command: a whole line that can be typed. Its help shows it, and its man page begins with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXAMPLES: Final[Mapping[str, str]] = {
    "pkey-show": "ibkeys pkey-show -N 'node07 mlx5_0'",
    "mkey-show": "ibkeys mkey-show --all",
    "port-show": "ibkeys port-show --all --nonzero",
    "classkey-show": "ibkeys classkey-show --all --security-keys /var/cache/opensm",
    "host-show": "ibkeys host-show",
    "discover": "ibkeys discover",
    "sm-show": "ibkeys sm-show --sm-host root@sm2 --sm-host root@sm3",
    "why": "ibkeys why node07 node09",
    "matrix": "ibkeys matrix --node gpu-a03",
    "doctor": "ibkeys doctor",
    "audit": "ibkeys audit --policy /etc/opensm/partitions.conf",
    "report": "ibkeys report friday --baseline monday.db",
    "compare": "ibkeys compare --policy partitions.conf --smkey @sa.key",
    "diff": "ibkeys diff monday.db tuesday.db",
    "history": "ibkeys history 'node07 mlx5_0' /var/lib/ibkeys/snapshots",
    "snapshot": "ibkeys snapshot monday.db",
    "import": "ibkeys import net.cache pktr.txt --out fabric.db",
    "watch": "ibkeys watch --smkey @/etc/ibkeys/sa_key --policy opensm",
    "export": "ibkeys export --listen 9936 --from /var/lib/ibkeys/snapshots --max-age 26h",
    "pkey-set": "ibkeys pkey-set 12 3=0x8010 4=",
    "pkey-add": "ibkeys pkey-add 12 0x8010",
    "pkey-remove": "ibkeys pkey-remove 12 0x8010",
    "enforce-set": "ibkeys enforce-set 7 1 --inbound on --outbound on",
    "counters-clear": "ibkeys counters-clear 12",
    "mkey-set": "ibkeys mkey-set 12 --new-m-key @key --protect 1 --lease 60",
    "policy-check": "ibkeys policy-check /etc/opensm/partitions.conf",
    "partition-add": "ibkeys partition-add lustre=0x21 --limited 'stage[1-48]' --ipoib --mtu 4096",
    "partition-remove": "ibkeys partition-remove lustre 'stage[40-48]'",
    "partition-delete": "ibkeys partition-delete lustre --policy new.conf",
    "partition-rename": "ibkeys partition-rename lustre scratch",
    "policy-from": "ibkeys policy-from --out today.conf",
    "policy-diff": "ibkeys policy-diff opensm new.conf",
    "plan": "ibkeys plan new.conf --out change.json",
    "apply": "ibkeys apply change.json --confirm-within 300",
    "mkey-deploy": "ibkeys mkey-deploy --protect 2 --lease 60 --confirm-within 300",
    "mkey-rotate": "ibkeys mkey-rotate --protect 2 --lease 60 --confirm-within 300",
    "mkey-remove": "ibkeys mkey-remove --dry-run",
    "mkey-recover": "ibkeys mkey-recover --topology monday.db --dry-run",
    "keystore list": "ibkeys keystore list",
    "keystore generate": "ibkeys keystore generate > key",
    "keystore import": "ibkeys keystore import /var/cache/opensm",
    "keystore export": "ibkeys keystore export /var/cache/opensm --guid2lid",
    "keystore encrypt": "ibkeys keystore encrypt",
    "keystore backup": "ibkeys keystore backup /var/backups/ibkeys.backup",
    "keystore restore": "ibkeys keystore restore /var/backups/ibkeys.backup",
    "journal": "ibkeys journal 7",
    "undo": "ibkeys undo 7 --dry-run",
    "resume": "ibkeys resume",
    "confirm": "ibkeys confirm",
    "harden": "ibkeys harden --dry-run",
    "smkey-rotate": "ibkeys smkey-rotate --dry-run",
    "sm-repair": "ibkeys sm-repair --dry-run",
    "help": "ibkeys help mkey-rotate",
    "pkey-check": "ibkeys pkey-check 0x8001 0x1",
    "pkey-explain": "ibkeys pkey-explain 0x7fff",
    "qkey-explain": "ibkeys qkey-explain 0x80010000",
    "decode": "ibkeys decode - < mads.txt",
    "sim run": "ibkeys sim run --on demo -- ibnetdiscover",
    "sim shell": "ibkeys sim shell --socket lab --host login1",
    "sim ls": "ibkeys sim ls",
    "sim stop": "ibkeys sim stop --socket lab",
    "sim serve": "ibkeys sim serve --socket lab",
    "sim ctl": "ibkeys sim ctl --socket lab link 'login1 HCA-1[1]' down",
    "completion": "ibkeys completion fish > ~/.config/fish/completions/ibkeys.fish",
}
"""The examples by the words that name the command. `make docs` writes them into the man pages."""


def examples_of(words: str) -> list[str]:
    """Return the examples of the command that *words* name; for a group, the examples of its commands."""
    return [line for path, line in EXAMPLES.items() if path == words or path.startswith(f"{words} ")]
