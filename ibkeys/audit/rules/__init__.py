"""The rules of the audit, one file for each group."""
