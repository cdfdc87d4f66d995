"""Commands about subnet managers."""
