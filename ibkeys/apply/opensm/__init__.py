"""The carrier that goes through OpenSM: policies are put in place of its own, and it writes the tables."""
