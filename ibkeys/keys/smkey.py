"""SM_Keys: the SA trusts a requester that sends the right SM_Key (IBA 15.4.2), which OpenSM's options call sa_key."""

from __future__ import annotations

from typing import Final, final

from ibkeys.keys.secret import Secret64


@final
class SMKey(Secret64):
    """A 64-bit SM_Key. 0 is not a key: the requester is untrusted."""

    __slots__ = ()
    name = "SM_Key"


NO_SM_KEY: Final = SMKey(0)
