"""What may be changed on a host for its OpenSM: one file, and one signal."""
