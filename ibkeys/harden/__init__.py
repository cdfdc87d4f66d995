"""Hardening a fabric while OpenSM is running: turning audit findings into one plan, whose steps name how to roll them
back."""
