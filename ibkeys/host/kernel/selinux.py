"""Whether SELinux decides on this host who uses which P_Key and who sends SMPs.

Source: Linux security/selinux (infiniband_pkey, infiniband_endport). Whether a given user may use a given
P_Key depends on labels that only root can list (``semanage ibpkey -l``), so that is not said here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ibkeys.host.kernel.sysfs import Sysfs

FOLDER: Final = "fs/selinux"
Mode = Literal["enforcing", "permissive", "off"]


@dataclass(frozen=True, slots=True)
class SelinuxPolicy:
    """``mode``: "off" also where a container hides it; None: not readable. ``checks_p_keys``, ``checks_smps``: whether
    the loaded policy knows the class infiniband_pkey, and infiniband_endport."""

    mode: Mode | None
    checks_p_keys: bool
    checks_smps: bool

    @property
    def decides(self) -> bool:
        """Whether it can refuse a P_Key that the table has, or SMPs to who may open the umad device."""
        return self.mode == "enforcing" and (self.checks_p_keys or self.checks_smps)


def read_policy(sysfs: Sysfs) -> SelinuxPolicy:
    """Return what selinuxfs shows to everybody."""
    if not sysfs.names(FOLDER):
        return SelinuxPolicy("off", False, False)
    modes: dict[str | None, Mode] = {"1": "enforcing", "0": "permissive"}
    classes = sysfs.names(f"{FOLDER}/class") or []
    return SelinuxPolicy(
        modes.get(sysfs.text(f"{FOLDER}/enforce")), "infiniband_pkey" in classes, "infiniband_endport" in classes
    )
