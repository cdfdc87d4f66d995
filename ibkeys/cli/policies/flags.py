"""The options for the flags of a partition: ipoib, the values of its multicast group, index 0, default membership."""

from __future__ import annotations

from dataclasses import dataclass

import click

from ibkeys.cli import options
from ibkeys.partitions.editing.flag_texts import DEFMEMBERS, FlagTexts


@dataclass(frozen=True, slots=True)
class FlagOptions(FlagTexts):
    """The flags as they were typed."""

    ipoib: bool | None = options.field("--ipoib/--no-ipoib", env=False, default=None, help="Make the group for IPoIB.")
    mtu: str | None = options.field("--mtu", env=False, metavar="BYTES", help="MTU of the group: 256 to 4096.")
    rate: str | None = options.field("--rate", env=False, metavar="GBPS", help="Rate of the group in Gb/s, like 100.")
    sl: str | None = options.field("--sl", env=False, metavar="SL", help="Service level of the group, 0 to 15.")
    scope: tuple[str, ...] = options.repeated_field("--scope", "N", "Scope of the MGID, 1 to 15.")
    q_key: str | None = options.field("--q-key", env=False, metavar="QKEY", help="Q_Key of the group.")
    defmember: str | None = options.field(
        "--defmember",
        env=False,
        type=click.Choice(DEFMEMBERS),
        help="Membership of ports that the policy names without one.",
    )
    indx0: bool | None = options.field(
        "--indx0/--no-indx0", env=False, default=None, help="Put the P_Key at index 0 of the members."
    )

    mgid: tuple[str, ...] = options.repeated_field("--mgid", "GID", "Add this multicast group to the partition.")
    without_mgid: tuple[str, ...] = options.repeated_field("--without-mgid", "GID", "Remove this multicast group.")
