"""The parts of this host that concern keys: key files, OpenSM's configuration and processes."""
