"""Processes that are killed at any point: a system call that writes, or what a driver makes one."""
