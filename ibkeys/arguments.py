"""The names that messages use for a value: an option for a user of the command line, an argument for a script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ibkeys.printable import calls_from_script

ARGUMENTS: Final[Mapping[str, str]] = {
    "-y 0": "m_key=0",
    "-y, --keystore or --security-keys": "Keys(m_key= or security_keys=) or Stores(keystore=)",
    "--allow-break": "allow_break=True",
    "--allow-index-moves": "allow_index_moves=",
    "--allow-removals": "allow_removals=True",
    "--ask-unproven": "ask_unproven=True",
    "--at": "at=",
    "--baseline": "baseline=",
    "--confirm-within": "confirm_within=",
    "--defmember": "defmember=",
    "--disconnect-unconfigured": "disconnect_unconfigured=True",
    "--enforce": "enforce=",
    "--first": "first=",
    "--force": "consent=Consent(force=True)",
    "--inventory": "inventory=",
    "--keystore": "keystore=",
    "--lease 0": "lease=0",
    "--leave-open": "leave_open=True",
    "--mgid": "mgid=",
    "--mtu": "mtu=",
    "--new-m-key": "new_key=",
    "--no-ipoib": "ipoib=False",
    "--out-of": "out_of=",
    "--pkey-idx": "pkey_index=",
    "--policy": "policy=",
    "--policy or --registry": "policy= or registry=",
    "--protect 0": "protect=0",
    "--protect 1": "protect=1",
    "--protect 2 --lease 60": "protect=2, lease=60",
    "--q-key": "q_key=",
    "--rate": "rate=",
    "--rewrite": "rewrite=True",
    "--same": "same=True",
    "--scope": "scope=",
    "--security-keys": "security_keys=",
    "--security-keys DIR": "security_keys=DIR",
    "--sl": "sl=",
    "--sm-guids": "sm_guids=",
    "--sm-host": "hosts=",
    "--sm_port": "sm_lid=",
    "--smkey": "sm_key=",
    "--trust-topology": "trust_topology=True",
    "--ufm-cert": "certificate=",
    "--ufm-insecure": "verifies=False",
    "--ufm-key": "private_key=",
    "--ufm-proxy": "proxy=",
    "--via": "via=",
    "--via opensm": "via=ThroughOpenSM()",
    "--wait": "wait=",
    "--without-mgid": "without_mgid=",
}
"""The arguments of scripts, by the options of the command line. They are arguments of a function, or of a value such as
``Keys``.
"""


def given(option: str, argument: str = "") -> str:
    """Return the name that a message uses for a value: *option*, or *argument* if the reader is a script.

    *argument*: by default the entry of `ARGUMENTS` for *option*.
    """
    return (argument or ARGUMENTS[option]) if calls_from_script() else option
