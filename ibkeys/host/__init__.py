"""The files of a host and their access rights, the lock beside a file of OpenSM, programs that only read, what the
kernel shows of keys, and replacing a file that a running program reads."""
