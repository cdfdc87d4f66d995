"""Persistent data: the journal of changes, the key store, and OpenSM's key files. Knows no MADs."""
