"""Whether SELinux on this host restricts the use of P_Keys and the sending of SMPs. Source: Linux security/selinux
(infiniband_pkey, infiniband_endport). Whether a given user may use a given P_Key depends on labels that only root can
list (``semanage ibpkey -l``), so this module does not determine it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ibkeys.host.kernel.sysfs import Sysfs

FOLDER: Final = "fs/selinux"
Mode = Literal["enforcing", "permissive", "off"]


@dataclass(frozen=True, slots=True)
class SelinuxPolicy:
    """The SELinux policy of this host. ``mode``: "off" also if a container hides it; None: not readable.
    ``checks_p_keys``, ``checks_smps``: whether the loaded policy has the classes infiniband_pkey and
    infiniband_endport."""

    mode: Mode | None
    checks_p_keys: bool
    checks_smps: bool

    @property
    def can_refuse(self) -> bool:
        """Whether the policy can refuse a P_Key that is in a port's table, or the SMPs of a user who may open the umad
        device."""
        return self.mode == "enforcing" and (self.checks_p_keys or self.checks_smps)


def read_policy(sysfs: Sysfs) -> SelinuxPolicy:
    """Return the policy, from the files of selinuxfs that every user can read."""
    if not sysfs.names(FOLDER):
        return SelinuxPolicy("off", False, False)
    modes: dict[str | None, Mode] = {"1": "enforcing", "0": "permissive"}
    classes = sysfs.names(f"{FOLDER}/class") or []
    return SelinuxPolicy(
        modes.get(sysfs.text(f"{FOLDER}/enforce")), "infiniband_pkey" in classes, "infiniband_endport" in classes
    )
