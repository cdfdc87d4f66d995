"""The subnet managers of a fabric: which one is master, and the effective files and options of each OpenSM."""
