"""OpenSM's options file, command line and processes: reading them as OpenSM does, and changing values in the file."""
