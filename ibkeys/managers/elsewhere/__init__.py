"""Reaching another host: the ssh command, a program at its other end, and the files that it reads."""
