"""Rebuilding OpenSM's key files from the answers of the ports, after OpenSM crashed during a change of M_Keys."""
