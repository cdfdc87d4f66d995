"""The agents of a simulated node: its SMA with the M_Key check, its PMA, and the SA of a master SM."""
