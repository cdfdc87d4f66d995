"""Whether the local port, queried without a key, shows that the subnet is protected; and what to do if the query
failed."""

from __future__ import annotations

from ibkeys.arguments import given
from ibkeys.discovery.keyring import KeyRing
from ibkeys.errors import MKeyNeeded, NoReply, SendRefused
from ibkeys.mad.attributes import PortInfo
from ibkeys.printable import counted
from ibkeys.umad.port import LocalPort


def _keys_advice() -> str:
    sources = given(
        "--security-keys DIR (OpenSM's files), --keystore or -y",
        "Keys(security_keys=DIR) (OpenSM's files), Stores(keystore=) or Keys(m_key=)",
    )
    return (
        "so no other port is queried: they would count M_Key violations, which start their leases; give the keys with "
        f"{sources}; {given('--ask-unproven')} queries each port once without a key"
    )


def check_own_port(local: LocalPort, own_info: PortInfo) -> None:
    """Raise MKeyNeeded if *own_info*, the PortInfo of the local port read without a key, shows that this subnet is
    protected.

    A port at level 0 with a lease and M_Key violations counts as protected: its lease may have run out because of
    queries without a key.
    """
    if not own_info.m_key:
        return
    if own_info.m_key_protect_bits in (2, 3):
        reason = f"it has an M_Key that is not known here, at level {own_info.m_key_protect_bits}"
    elif own_info.m_key_protect_bits == 0 and own_info.m_key_lease_period and own_info.m_key_violations:
        reason = (
            f"it has an M_Key that is not known here, a lease of {own_info.m_key_lease_period} s and "
            f"{counted(own_info.m_key_violations, 'violation')} at level 0: its lease may have run out"
        )
    else:
        return
    raise MKeyNeeded(f"{local.ca_name} port {local.port}: {reason}; {_keys_advice()}")


def explain_own_error(error: NoReply | SendRefused, ring: KeyRing, own_guid: int) -> NoReply | SendRefused:
    """Return *error* of a query to the local port, with the remedy in its message if there is one.

    *own_guid*: the GUID of the local port. The remedy depends on the key that the ring has for it.
    """
    key = ring.key_of(own_guid)
    if ring.for_all is not None:
        return error
    if key.is_zero:
        text = f"{error}; the local port may have an M_Key that is not known here, {_keys_advice()}"
    elif key == ring.by_guid.get(own_guid):
        text = (
            f"{error}; it was queried with its known M_Key (key store, key files): if it is alive it has a different "
            f"one, perhaps set by a subnet manager: read that manager's files ({given('--security-keys DIR')}, `ibkeys "
            "keystore import DIR`), or use `ibkeys mkey-recover`"
        )
    else:
        return error
    if isinstance(error, SendRefused):
        return SendRefused(text, error.errno)
    return NoReply(text, error.attempts, error.timeout)
