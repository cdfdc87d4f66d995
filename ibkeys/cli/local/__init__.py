"""What this host's kernel shows without root: for people, as documents, as lines of a job script."""
