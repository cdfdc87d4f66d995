"""The agents of a simulated node: its SMA with the M_Key check, its PMA, the SA of a master SM, and the agents of
classes with keys of their own."""
