"""The options for assumptions about switches, of commands that compute reach."""

from __future__ import annotations

from typing import Final

import click

from ibkeys.cli.options.declaring import option
from ibkeys.keys.pkey import DEFAULT_INBOUND_CHECK, INBOUND_CHECKS

inbound_check: Final = option(
    "--inbound-check",
    type=click.Choice(INBOUND_CHECKS),
    default=DEFAULT_INBOUND_CHECK,
    help="What switches are assumed to check on incoming packets.  [default: partition]",
)
"""The values are those of `ibkeys.keys.pkey.InboundCheck`."""

adaptive_routing: Final = option(
    "--adaptive-routing",
    is_flag=True,
    help="Assume that switches may deviate from their forwarding tables.",
)
