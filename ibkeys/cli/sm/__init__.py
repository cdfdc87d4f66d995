"""The commands about subnet managers."""
