"""The carrier that uses OpenSM: it replaces OpenSM's policy file, and OpenSM writes the tables."""
