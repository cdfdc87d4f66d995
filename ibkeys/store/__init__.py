"""Persistent data: the journal of changes, the key store, snapshots, and OpenSM's key files. This code knows no
MADs."""
