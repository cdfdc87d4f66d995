"""What to do about M_Keys where OpenSM runs: which SMs there are, and the steps by which OpenSM sets the key itself.

Stock OpenSM knows one key for the subnet and writes its ``m_key``, level and lease to every port at each sweep. It
reads its key files only when it starts, and drops a port whose key it does not know. So under a master (or one that may
be) no key is changed by this tool. Source: opensm osm_lid_mgr.c, osm_link_mgr.c, osm_db_pack.c.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ibkeys.mad.const import CapabilityMask
from ibkeys.topology.model import Port


def sm_ports(ports: Iterable[Port]) -> list[Port]:
    """Return the end ports whose IsSM bit is set: each runs an SM, be it master, standby or neither."""
    return [
        port for port in ports if port.port_info is not None and port.port_info.capability_mask & CapabilityMask.IS_SM
    ]


def procedure(managers: Sequence[Port], protect: int | None, lease: int | None, key_file: str) -> list[str]:
    """Return what to do instead, step by step. *key_file* names the file with the key, "" when there is none yet; the
    key itself is never in it."""
    file = key_file or "new.key"
    steps = [] if key_file else [f"make a key: umask 077; ibkeys mkey-gen > {file}"]
    steps += [
        "put into opensm.conf (mode 0600) of every SM, standby ones too, or a handover locks the subnet: "
        f"m_key <the key in {file}>, m_key_protection_level {_or(protect, '2')}, m_key_lease_period {_or(lease, '60')}",
        "let the SM read it: kill -HUP its process, the master first; stock OpenSM then sets this one key everywhere",
        f"verify: ibkeys mkey-show --all -y @{file}",
    ]
    return [
        *_listed(managers, steps),
        "a key of its own for each port only where no SM runs, or the SM has m_key_per_port: stock OpenSM knows one",
    ]


def removal_procedure(managers: Sequence[Port]) -> list[str]:
    """Return how OpenSM takes its key away by itself, step by step: level and lease first, then the key."""
    steps = [
        "put into opensm.conf of every SM, standby ones too: m_key_protection_level 0, m_key_lease_period 0; the m_key "
        "stays for now",
        "let the SM read it: kill -HUP its process, the master first; verify: ibkeys mkey-show --all shows level and "
        "lease 0 everywhere",
        "put m_key 0 there, and keep the line: without it that OpenSM does not notice the change; kill -HUP again",
        "verify: ibkeys mkey-show --all shows no M_Key",
    ]
    return _listed(managers, steps)


def _listed(managers: Sequence[Port], steps: Sequence[str]) -> list[str]:
    listed = [f"runs an SM: {port}, LID {port.lid}" for port in managers]
    return [*listed, *(f"step {number}: {step}" for number, step in enumerate(steps, 1))]


AFTERWARDS = (
    "before an SM starts, give it the keys: ibkeys mkey-export DIR for its guid2mkey and neighbors files, or it drops "
    "the ports that it cannot ask"
)
ONE_KEY = (
    "an SM whose m_key is unset or another removes or replaces all of it: ibkeys mkey-export DIR --write-opensm-conf "
    "FILE puts this key, level and lease into its opensm.conf"
)
OVERWRITTEN = (
    "an SM whose m_key is unset or another removes or replaces all of it: stock OpenSM knows one M_Key for the subnet, "
    "reaches ports that have keys of their own with the key files, and sets its m_key on them, which is 0 where "
    "opensm.conf does not say; keys of their own last only where no SM runs or the SM has m_key_per_port"
)


GIVEN_BACK = (
    "an SM whose opensm.conf has an m_key gives it to every port again: put m_key 0 there before that SM starts, and "
    "before it sweeps again"
)


def _or(value: int | None, otherwise: str) -> str:
    return otherwise if value is None else str(value)
