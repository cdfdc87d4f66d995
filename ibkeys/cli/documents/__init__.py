"""What each document of a command has: a module for each subject, which declares its fields once.

From a declaration come the document's number, the columns of CSV, the titles and texts of a table, and, by `make docs`,
the JSON Schema file and the list of fields in the man page (`docs/made/documents.py`).
"""
