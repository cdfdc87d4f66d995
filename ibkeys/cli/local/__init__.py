"""This host's keys as its kernel shows them without root: text, documents, and lines for a job script."""
