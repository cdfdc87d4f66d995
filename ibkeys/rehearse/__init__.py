"""Rehearsing a change: the site's own OpenSM makes it on a private, simulated copy of the fabric."""
