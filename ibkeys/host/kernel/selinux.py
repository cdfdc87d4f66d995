"""Whether SELinux on this host restricts the use of P_Keys and the sending of SMPs, and the labels of P_Keys.

Source: Linux security/selinux (infiniband_pkey, infiniband_endport) and drivers/infiniband/core/security.c: a label is
looked up by the prefix of the port's subnet and all 16 bits of the table's entry. Only root can list the labels
(``semanage ibpkey -l``). Which label a given user may use, the rules of the policy say; this module does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Final, Literal

from ibkeys.host.kernel.sysfs import Sysfs
from ibkeys.host.run_program import RunProgram
from ibkeys.keys.pkey import PKey

FOLDER: Final = "fs/selinux"
LIST: Final = ("semanage", "ibpkey", "-l", "-n")
"""The program that lists the labels, without a heading. Its lines have the type, the prefix, and P_Keys and ranges with
commas between them (seobject.py of semanage)."""
Mode = Literal["enforcing", "permissive", "off"]
_LINE: Final = re.compile(r"(\S+)\s+([0-9A-Fa-f:]+)\s+(\S.*)")
_RANGE: Final = re.compile(r"0x([0-9a-f]{1,4})(?:-0x([0-9a-f]{1,4}))?")


@dataclass(frozen=True, slots=True)
class PKeyLabel:
    """The label of the P_Keys from ``first`` to ``last`` (16 bits each) in a subnet with the prefix ``subnet_prefix``
    (64 bits). ``type``: the SELinux type."""

    type: str
    subnet_prefix: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class SelinuxPolicy:
    """The SELinux policy of this host. ``mode``: "off" also if a container hides it; None: not readable.
    ``checks_p_keys``, ``checks_smps``: whether the loaded policy has the classes infiniband_pkey and
    infiniband_endport. ``labels``: those of P_Keys; None if they are not known, as for all users but root."""

    mode: Mode | None
    checks_p_keys: bool
    checks_smps: bool
    labels: tuple[PKeyLabel, ...] | None = None

    @property
    def can_refuse(self) -> bool:
        """Whether the policy can refuse a P_Key that is in a port's table, or the SMPs of a user who may open the umad
        device."""
        return self.mode == "enforcing" and (self.checks_p_keys or self.checks_smps)

    def type_of(self, subnet_prefix: int | None, key: PKey) -> str | None:
        """Return the SELinux type of *key* in a subnet; None if it has no label, or none is known."""
        for each in self.labels or ():
            if each.subnet_prefix == subnet_prefix and each.first <= key <= each.last:
                return each.type
        return None


def read_policy(sysfs: Sysfs, run: RunProgram | None = None) -> SelinuxPolicy:
    """Return the policy, from the files of selinuxfs that every user can read.

    *run*: runs semanage for the labels, if the policy checks P_Keys; None: they are not read.
    """
    if not sysfs.names(FOLDER):
        return SelinuxPolicy("off", False, False)
    modes: dict[str | None, Mode] = {"1": "enforcing", "0": "permissive"}
    classes = sysfs.names(f"{FOLDER}/class") or []
    checks_p_keys = "infiniband_pkey" in classes
    return SelinuxPolicy(
        modes.get(sysfs.text(f"{FOLDER}/enforce")),
        checks_p_keys,
        "infiniband_endport" in classes,
        labels_in(run(LIST)) if run is not None and checks_p_keys else None,
    )


def labels_in(text: str | None) -> tuple[PKeyLabel, ...] | None:
    """Return the labels in the output of `LIST`; None for None, and for an output that is not understood."""
    if text is None:
        return None
    try:
        return tuple(label for line in text.splitlines() if line.strip() for label in _labels_of_line(line))
    except ValueError:
        return None


def _labels_of_line(line: str) -> Iterator[PKeyLabel]:
    """Yield the labels in one line. Raises ValueError."""
    fields = _LINE.fullmatch(line.strip())
    if fields is None:
        raise ValueError(line)
    prefix = int(IPv6Address(fields[2])) >> 64
    for each in fields[3].split(","):
        found = _RANGE.fullmatch(each.strip())
        if found is None:
            raise ValueError(line)
        yield PKeyLabel(fields[1], prefix, int(found[1], 16), int(found[2] or found[1], 16))
