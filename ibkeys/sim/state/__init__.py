"""The state of a simulated subnet that outlasts it: as a document, and in a file."""
