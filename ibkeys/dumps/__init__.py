"""Making a snapshot of files that other tools wrote about a fabric. The values are joined; each keeps its origin."""
