"""What of this host concerns keys: key files, OpenSM's configuration and processes."""
