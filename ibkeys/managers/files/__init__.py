"""Files of OpenSM that a change replaces while it is running: finding them, who else can read them, leftover files."""
