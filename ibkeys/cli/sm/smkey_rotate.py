"""The command `smkey-rotate`: new sm_key and sa_key on all hosts with an OpenSM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibkeys.cli import options
from ibkeys.cli.help.command import command
from ibkeys.cli.secrets import read_key
from ibkeys.cli.sm.files_request import files_change_options
from ibkeys.cli.sm.smkey_change import COMMAND, SmKeyRequest
from ibkeys.keys.smkey import SMKey

if TYPE_CHECKING:
    from ibkeys.smkeys.key_holders import SmKeyKind


@command(COMMAND)
@options.via_opensm_only("Through the options files of OpenSM")
@options.option(
    "--new-sm-key", env=False, metavar="@FILE|-", help="The sm_key: @FILE reads it, '-' asks.  [default: generated]"
)
@options.option(
    "--new-sa-key", env=False, metavar="@FILE|-", help="The sa_key: @FILE reads it, '-' asks.  [default: generated]"
)
@options.removed_option("--overtaken", "resume --overtaken", is_flag=True)
@options.refused_option("--first", "is not for SM keys: an OpenSM with another sm_key becomes a second master")
@options.refused_option("--confirm-within", "is not for SM keys: former ones never return, for others may know them")
@files_change_options("request", SmKeyRequest)
def smkey_rotate(request: SmKeyRequest, new_sm_key: str | None, new_sa_key: str | None) -> int:
    """Set new sm_key and sa_key for all OpenSMs of the subnet.

    Subnet managers recognise each other by the sm_key; the sa_key is what the SA trusts. OpenSM's default of both is 1.
    Name every host with an OpenSM (--sm-host). The new keys are saved in the key store before any file is changed. All
    files are first written beside the old ones; then all are replaced and every OpenSM is signalled, within the time
    after which a standby would take over. At the end it verifies that the SA answers to the new key, that it answers to
    no former key, and that there is one master. `ibkeys resume` finishes an interrupted change.
    """
    new_keys: dict[SmKeyKind, SMKey] = {}
    if new_sm_key is not None:
        new_keys["sm_key"] = read_key(SMKey, new_sm_key, "--new-sm-key", is_new=True)
    if new_sa_key is not None:
        new_keys["sa_key"] = read_key(SMKey, new_sa_key, "--new-sa-key", is_new=True)
    return request.begin(new_keys)
