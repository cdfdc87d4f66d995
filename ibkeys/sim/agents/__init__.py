"""What answers at a simulated node: its SMA with the M_Key check, its PMA, the SA of a master SM."""
