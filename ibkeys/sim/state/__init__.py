"""The saved state of a simulated subnet: as a document, and in a file."""
