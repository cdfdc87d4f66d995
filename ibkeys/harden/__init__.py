"""Hardening a fabric while OpenSM is running: turning audit findings into one plan of reversible steps."""
