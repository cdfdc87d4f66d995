"""The files of a host and their access rights, the lock beside a file of OpenSM, programs that only read, the keys that
the kernel shows, and replacing a file that a running program reads."""
