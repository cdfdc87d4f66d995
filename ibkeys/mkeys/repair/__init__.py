"""OpenSM's key files after a crash in the middle of a change of M_Keys: made again from what the ports answer."""
