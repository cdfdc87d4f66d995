"""Advice for M_Key runs while a subnet manager is running: the steps to take in place of Sets of ibkeys.

Stock OpenSM has one key for the subnet, and writes its ``m_key``, level and lease to every port at each sweep. It reads
its key files only when it starts, and drops a port whose key it does not know. So under a master, or an SM that may be
the master, ibkeys changes no key by its own Sets, unless the user overrides the interlock ``mkey-under-sm``. Source:
opensm osm_lid_mgr.c, osm_link_mgr.c, osm_db_pack.c.
"""

from __future__ import annotations

from typing import Final


def steps_through_opensm(command: str, protect: int | None, lease: int | None, key_file: str) -> list[str]:
    """Return, in words, the steps to take instead of a new run of *command*. *protect*, *lease*: the options of the
    run, None if not given; *key_file*: the name of the file with the key, "" for none. No key is in the text."""
    given = {"--protect": protect, "--lease": lease, "--new-m-key": f"@{key_file}" if key_file else None}
    words = [f"{name} {value}" for name, value in given.items() if value is not None]
    verify = "ibkeys mkey-show --all" + (f" -y @{key_file}" if key_file else "")
    return [
        f"if it is OpenSM: {_through_opensm(command, *words)}; it sets one key on every port and keeps it",
        "if it is another SM: set the key with its own tools, on standbys too, or a takeover locks the subnet; "
        f"verify: `{verify}`",
        "a separate key for each port lasts only if no SM runs, or the SM has m_key_per_port: stock OpenSM knows "
        "one key",
    ]


def _through_opensm(command: str, *words: str) -> str:
    line = " ".join(["ibkeys", command, "--via opensm", *words])
    return f"`{line}`, told of each other host that runs one"


OF_REMOVAL: Final = [
    f"if it is OpenSM: {_through_opensm('mkey-remove')}; it removes level and lease first, then the key",
    "if it is another SM: remove the key with its own tools, on standbys too; verify: `ibkeys mkey-show --all`",
]
"""The steps to take instead of removing the keys: an SM with an M_Key sets it again."""
OF_EARLIER_RUN: Final = [
    "in this run ibkeys sends the Sets itself: stop every SM, standby ones too, and finish it; then give each SM "
    "the key before it starts (`ibkeys keystore export DIR --write-opensm-conf FILE`)",
]
"""The steps to end a run that began by Sets of ibkeys, if an SM was started in the meantime."""
ONE_KEY = (
    "before an SM starts, `ibkeys keystore export DIR --write-opensm-conf FILE` gives it this key, level and lease and "
    "its key files; without them it removes or replaces the keys of all ports"
)
OVERWRITTEN = (
    "before an SM starts, `ibkeys keystore export DIR` gives it the keys, or it drops the ports that it cannot query; "
    "stock OpenSM then sets its one m_key (0 unless opensm.conf sets it) on every port: separate keys last only if no "
    "SM runs or the SM has m_key_per_port"
)


SM_SETS_KEY_AGAIN = (
    "an SM whose opensm.conf has an m_key gives it to every port again: put m_key 0 there before that SM starts, and "
    "before it sweeps again"
)
