"""Rebuilding OpenSM's key files from the ports' answers after a crash during an M_Key change."""
