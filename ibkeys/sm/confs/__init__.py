"""Options files that get keys while their OpenSM is running: finding them, who else can read them, leftover files."""
