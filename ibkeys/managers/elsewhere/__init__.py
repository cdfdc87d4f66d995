"""Reaching another host: the ssh command, the program that it starts on the host, and the files that this reads."""
