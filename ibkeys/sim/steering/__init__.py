"""Text commands for a simulated subnet: each is one line, and returns a text."""
