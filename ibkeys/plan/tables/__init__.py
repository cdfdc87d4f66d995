"""The tables of a plan: which P_Key comes to which index of a port, and what the switch port before it gets."""
