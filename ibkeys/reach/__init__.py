"""Which ports can talk to each other: from the P_Key tables and from the enforcement of the switches."""
