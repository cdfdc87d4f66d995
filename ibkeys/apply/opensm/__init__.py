"""The carrier that goes through OpenSM: policies are put in the place of its own, and it writes the tables."""
