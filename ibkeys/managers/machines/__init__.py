"""Changes on the host of an OpenSM: replacing files, sending signals, starting and stopping it."""
