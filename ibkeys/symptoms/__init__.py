"""From a symptom to its cause: a table of the texts that programs print, their meaning, and the command that decides.

`table` has all rows, `explain` finds the rows of a pasted text, `numbers` reads LIDs, GUIDs and P_Keys out of it. The
man page ibkeys-symptoms(7), a page of the site and the tests are made from the same rows.
"""
