"""The JSON documents of the commands: a module for each subject, which declares each field once.

A declaration gives the document's number, the columns of CSV, the titles and texts of a table, and, by `make docs`, the
JSON Schema file and the list of fields in the man page (`docs/made/documents.py`).
"""
